#include "bench_device.h"

#include <cstdio>
#include <iostream>
#include <stdexcept>

#include "bench.h"

using namespace troupe;

namespace {

constexpr double kRoundSeconds = 0.02;
constexpr int64_t kCopied = int64_t{16} << 20;  // floats: beyond any cache

double round_seconds(Stream& stream, const std::function<void()>& submit, int64_t times) {
  const double begin = now_s();
  for (int64_t i = 0; i < times; ++i) submit();
  if (const Status status = stream.wait(); !status) throw std::runtime_error(status.error().message);
  return now_s() - begin;
}

}  // namespace

void add_device_arguments(CLI::App& command, DeviceArguments& arguments) {
  command.add_option("--device", arguments.device, "What is measured; auto is a GPU where there is one")
      ->check(CLI::IsMember({"cpu", "cuda", "auto"}))
      ->capture_default_str();
  command.add_option("--threads", arguments.threads, "Threads of the CPU")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command.add_option("--matmul", arguments.matmul, "How a GPU rounds the factors of f32 products")
      ->check(CLI::IsMember({"f32", "tf32", "bf16"}))
      ->capture_default_str();
}

MatmulPrecision precision_of(const DeviceArguments& arguments) {
  if (arguments.matmul == "tf32") return MatmulPrecision::tf32;
  return arguments.matmul == "bf16" ? MatmulPrecision::bf16 : MatmulPrecision::f32;
}

std::string BenchDevice::name() const {
  const DeviceFacts& facts = backend->devices()[0];
  if (is_cpu()) return cat("CPU, ", stream->threads(), stream->threads() == 1 ? " thread" : " threads");
  return cat(facts.name, ", ", facts.driver);
}

BenchDevice open_device(const DeviceArguments& arguments) {
  auto backend = load_backend(arguments.device == "cpu" ? DeviceKind::cpu : DeviceKind::cuda);
  if (!backend && arguments.device == "auto") {
    std::cout << "on the CPU: " << backend.error().message << '\n';
    backend = load_backend(DeviceKind::cpu);
  }
  if (!backend) throw std::invalid_argument(backend.error().message);
  auto stream = (*backend)->make_stream({0, arguments.threads, precision_of(arguments)});
  if (!stream) throw std::runtime_error(stream.error().message);
  return {std::move(*backend), std::move(*stream)};
}

double seconds_of(Stream& stream, const std::function<void()>& submit) {
  round_seconds(stream, submit, 2);
  int64_t times = 1;
  double seconds = round_seconds(stream, submit, times);
  while (seconds < kRoundSeconds) {
    times *= seconds < kRoundSeconds / 10 ? 8 : 2;
    seconds = round_seconds(stream, submit, times);
  }
  for (int round = 1; round < 5; ++round) seconds = std::min(seconds, round_seconds(stream, submit, times));
  return seconds / static_cast<double>(times);
}

double copy_rate(BenchDevice& device) {
  Tensor from = device.stream->empty({kCopied}), to = device.stream->empty({kCopied});
  device.backend->ops().fill(*device.stream, 1, from);
  const double seconds = seconds_of(*device.stream, [&] { device.backend->ops().copy(*device.stream, from, to); });
  return 2 * static_cast<double>(from.bytes()) / seconds;
}

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f %%", 100 * share);
  return text;
}

std::string column(const std::string& text) { return std::string(text.size() < 9 ? 9 - text.size() : 0, ' ') + text; }

std::string column(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", value < 10 ? 2 : value < 100 ? 1 : 0, value);
  return column(std::string(text));
}

int run_bench(const std::function<void()>& body) {
  try {
    body();
    return kOk;
  } catch (const std::invalid_argument& e) {
    std::cerr << "error: " << e.what() << '\n';
    return kBadUsage;
  } catch (const std::exception& e) {
    std::cerr << "error: " << e.what() << '\n';
    return kRunFailed;
  }
}
