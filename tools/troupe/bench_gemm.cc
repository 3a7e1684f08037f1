#include <algorithm>
#include <iostream>

#include <troupe/kernels/base/random.h>

#include "bench.h"
#include "bench_device.h"

using namespace troupe;

namespace {

struct Arguments {
  DeviceArguments device;
  std::vector<int64_t> sizes;
  double alone = 0;
};

constexpr int64_t kTargetSide = 4096;
constexpr double kLeastOfAlone = 90;  // percent

struct Product {
  int64_t m, n, k;
  double rate;  ///< operations a second
};

double rate_of(BenchDevice& device, DType dtype, int64_t m, int64_t n, int64_t k) {
  Stream& stream = *device.stream;
  Tensor a = stream.empty({m, k}, dtype), b = stream.empty({k, n}, dtype), c = stream.empty({m, n}, dtype);
  // Zeros take a GPU less power, and so less time, than numbers.
  Tensor host = Tensor::empty({std::max(m, n) * k});
  Random random(1);
  for (float& value : host.span<float>()) value = static_cast<float>(random.uniform() - 0.5);
  if (dtype == DType::f32) {
    stream.copy(host.view(0, {m, k}), a);
    stream.copy(host.view(0, {k, n}), b);
  } else {
    // Any bits of normal numbers will do.
    for (float& value : host.span<float>()) value = 0x1.0101p0f * (value < 0 ? -1 : 1);
    Tensor bits = Tensor(host.buffer(), 0, {host.count() * 2}, dtype);
    stream.copy(bits.view(0, {m, k}), a);
    stream.copy(bits.view(0, {k, n}), b);
  }
  const double seconds =
      seconds_of(stream, [&] { device.backend->ops().gemm(stream, ops::Trans::no, ops::Trans::no, a, b, 0, c); });
  return 2 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) / seconds;
}

void print_table(BenchDevice& device, DType dtype, const std::vector<int64_t>& sizes) {
  std::vector<Product> products;
  for (int64_t n : sizes) products.push_back({n, n, n, 0});
  // As in layers: a batch times weights, and thin ones.
  const int64_t widest = sizes.back();
  products.push_back({128, widest, widest, 0});
  products.push_back({widest, widest, 64, 0});
  double best = 0;
  for (Product& p : products) best = std::max(best, p.rate = rate_of(device, dtype, p.m, p.n, p.k));
  std::cout << "products of " << troupe::name_of(dtype) << "\n        m        n        k   GFLOP/s  of the best\n";
  for (const Product& p : products)
    std::cout << column(std::to_string(p.m)) << column(std::to_string(p.n)) << column(std::to_string(p.k)) << ' '
              << column(p.rate / 1e9) << "  " << column(percent(p.rate / best)) << '\n';
}

void measure(const Arguments& arguments) {
  BenchDevice device = open_device(arguments.device);
  std::cout << "gemm on " << device.name() << '\n';
  std::vector<int64_t> sizes = arguments.sizes;
  if (sizes.empty())
    sizes = device.is_cpu() ? std::vector<int64_t>{256, 512, 1024} : std::vector<int64_t>{1024, 4096, 8192};
  print_table(device, DType::f32, sizes);
  if (device.is_cpu()) return;
  print_table(device, DType::bf16, sizes);
  if (arguments.alone > 0)
    std::cout << verdict("bf16 products of 4096 reach, of what cuBLAS does alone",
                         100 * rate_of(device, DType::bf16, kTargetSide, kTargetSide, kTargetSide) / arguments.alone,
                         kLeastOfAlone, true, " %")
              << '\n';
}

}  // namespace

void add_bench_gemm(CLI::App& bench, int& exit_code) {
  CLI::App* command = bench.add_subcommand("gemm", "Matrix products: rate, and share of the best one seen");
  auto arguments = std::make_shared<Arguments>();
  add_device_arguments(*command, arguments->device);
  command->add_option("--size", arguments->sizes, "Sides of square products")->check(CLI::Range(1, 32768));
  command->add_option(
      "--alone", arguments->alone,
      "Operations a second that cuBLAS reaches by itself (tools/bench/cublas_alone), to be compared with");
  command->callback([arguments, &exit_code] { exit_code = run_bench([&] { measure(*arguments); }); });
}
