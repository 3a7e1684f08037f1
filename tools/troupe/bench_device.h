#pragma once
#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>

#include <troupe/kernels/backend/backend.h>

/// What the benchmarks of devices share: a device to measure, a clock for what runs on it, and its ceilings.

struct DeviceArguments {
  std::string device = "auto";
  int threads = 1;
  std::string matmul = "f32";
};
void add_device_arguments(CLI::App& command, DeviceArguments& arguments);
troupe::MatmulPrecision precision_of(const DeviceArguments& arguments);

/// A device and a stream of it. Throws std::invalid_argument where it is not there; "auto" then takes the CPU and
/// prints so.
struct BenchDevice {
  std::shared_ptr<troupe::Backend> backend;
  std::unique_ptr<troupe::Stream> stream;
  bool is_cpu() const { return backend->kind() == troupe::DeviceKind::cpu; }
  std::string name() const;
};
BenchDevice open_device(const DeviceArguments& arguments);

/// Seconds that one `submit` takes the device where many follow each other: the best of five rounds of at least 20 ms.
double seconds_of(troupe::Stream& stream, const std::function<void()>& submit);

/// Bytes a second, read and written together, of copies within the device's memory: the ceiling of what touches every
/// element once.
double copy_rate(BenchDevice& device);

/// "87 %".
std::string percent(double share);
/// A number with three digits or so, in a column of 9.
std::string column(double value);
std::string column(const std::string& text);

/// Prints what `body` throws, and gives the exit code.
int run_bench(const std::function<void()>& body);
