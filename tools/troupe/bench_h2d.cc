#include <iostream>

#include <troupe/ps/metrics/human.h>

#include "bench.h"
#include "bench_device.h"

using namespace troupe;

namespace {

struct Rates {
  double pageable = 0, pinned = 0, back = 0;  ///< bytes a second
};

Rates rates_of(BenchDevice& device, int64_t count) {
  Stream& stream = *device.stream;
  Tensor on_device = stream.empty({count});
  Tensor pageable = Tensor::zeros({count}), pinned = empty_on_host(*device.backend, {count});
  std::memset(pinned.raw(), 0, pinned.bytes());
  const auto rate = [&](const Tensor& from, Tensor& to) {
    return static_cast<double>(from.bytes()) / seconds_of(stream, [&] { stream.copy(from, to); });
  };
  return {rate(pageable, on_device), rate(pinned, on_device), rate(on_device, pinned)};
}

void measure(const DeviceArguments& arguments) {
  BenchDevice device = open_device(arguments);
  std::cout << "copies between host memory and " << device.name()
            << ", GB/s\n     size    pageable to device    pinned to device    device to pinned    pageable/pinned\n";
  for (int64_t bytes = 64 << 10; bytes <= 64 << 20; bytes *= 4) {
    const Rates r = rates_of(device, bytes / 4);
    std::cout << column(ps::human_bytes(bytes)) << "             " << column(r.pageable / 1e9) << "           "
              << column(r.pinned / 1e9) << "           " << column(r.back / 1e9) << "          "
              << column(percent(r.pageable / r.pinned)) << '\n';
  }
}

}  // namespace

void add_bench_h2d(CLI::App& bench, int& exit_code) {
  CLI::App* command = bench.add_subcommand("h2d", "Copies from host memory to the device and back");
  auto arguments = std::make_shared<DeviceArguments>();
  add_device_arguments(*command, *arguments);
  command->callback([arguments, &exit_code] { exit_code = run_bench([&] { measure(*arguments); }); });
}
