#include <boost/test/unit_test.hpp>

#include <omp.h>

#include <thread>

#include <tests/support/ops.h>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(stream)

BOOST_AUTO_TEST_CASE(ScratchMemoryGrowsAndStays) {
  Stream stream;
  std::byte* const large = stream.scratch(100000);
  BOOST_TEST(reinterpret_cast<uintptr_t>(large) % Buffer::kAlignment == 0);
  BOOST_TEST(stream.scratch(10) == large);
  BOOST_TEST(stream.scratch(100000) == large);
  std::memset(stream.scratch(1 << 20), 1, 1 << 20);
}

BOOST_AUTO_TEST_CASE(ScratchMemoryOfAnotherDeviceIsRefused) {
  Stream stream({DeviceKind::cuda, 0});
  BOOST_TEST(failure_without("not on the CPU", [&] { stream.scratch(1); }) == "");
}

BOOST_AUTO_TEST_CASE(OpsLeaveTheCallersThreadSettingAlone) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(3);
  Stream stream;
  Tensor y = Tensor::empty({1, 4, 2, 2});
  ops::cpu_ops().conv(stream, exact(1, {1, 2, 4, 4}, DType::f32), exact(2, {4, 2, 3, 3}, DType::f32),
                      Tensor{}, {}, ops::Epilogue::none, y);
  BOOST_TEST(omp_get_max_threads() == 3);
  omp_set_num_threads(before);
}

BOOST_AUTO_TEST_CASE(StreamsWorkSideBySide) {
  const Tensor x = exact(1, {4, 5, 9, 9}, DType::f32), w = exact(2, {6, 5, 3, 3}, DType::f32);
  std::vector<Tensor> results(4);
  {
    std::vector<std::jthread> threads;
    for (Tensor& y : results)
      threads.emplace_back([&x, &w, &y] {
        Stream stream;
        for (int step = 0; step < 5; ++step) {
          y = Tensor::empty({4, 6, 9, 9});
          ops::cpu_ops().conv(stream, x, w, Tensor{}, {1, 1}, ops::Epilogue::relu, y);
        }
      });
  }
  for (const Tensor& y : results) BOOST_TEST(same_bits(y, results[0]));
}

BOOST_AUTO_TEST_SUITE_END()
