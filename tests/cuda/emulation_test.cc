#include <boost/test/unit_test.hpp>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

#include <numeric>
#include <set>

#include <tests/support/cuda/on_device.h>
#include <tests/support/cuda_emulation.h>
#include <troupe/kernels/ops/cuda/launch.h>

using namespace troupe;
using namespace troupe::test;
using namespace troupe::test::cuda;

// Kernels, right ones and planted bugs, as a source in kernels/ops/cuda would have them.
namespace {

constexpr unsigned kAll = 0xffffffff;

__global__ void where_am_i(int* out) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  out[block * blockDim.x * blockDim.y * blockDim.z + thread] += static_cast<int>(block * 1000 + thread);
}

// out[block] = the sum of 1 + the numbers of its threads.
template <bool kBarrier>
__global__ void tree_sum(int* out) {
  TROUPE_DYNAMIC_SHARED(int, values);
  const int me = static_cast<int>(threadIdx.x);
  values[me] = me + 1;
  for (int width = static_cast<int>(blockDim.x) / 2; width > 0; width /= 2) {
    if (kBarrier) __syncthreads();
    if (me < width) values[me] += values[me + width];
  }
  if (me == 0) out[blockIdx.x] = values[0];
}

// The same within a warp: without __syncwarp it takes lanes to go in step, which they no longer do.
template <bool kSync>
__global__ void warp_sum(int* out) {
  TROUPE_SHARED(int, values, 32);
  const int me = static_cast<int>(threadIdx.x);
  values[me] = me + 1;
  if (kSync) __syncwarp();
  for (int width = 16; width > 0; width /= 2) {
    const int sum = values[me] + (me + width < 32 ? values[me + width] : 0);
    if (kSync) __syncwarp();
    values[me] = sum;
    if (kSync) __syncwarp();
  }
  if (me == 0) out[0] = values[0];
}

__global__ void shuffled_sum(float* out, unsigned mask) {
  float sum = 1;
  if (!(mask >> threadIdx.x & 1)) return;
  for (int bits = 16; bits > 0; bits /= 2) sum += __shfl_xor_sync(mask, sum, bits);
  out[threadIdx.x] = sum;
}

template <bool kAtomic>
__global__ void count_threads(int* out) {
  TROUPE_SHARED(int, count, 1);
  if (threadIdx.x == 0) count[0] = 0;
  __syncthreads();
  if (kAtomic)
    atomicAdd(&count[0], 1);
  else
    count[0] += 1;
  __syncthreads();
  if (threadIdx.x == 0) out[0] = count[0];
}

// A buffer is used again while some threads still read what was in it.
template <bool kBarrier>
__global__ void rotate_twice(int* out) {
  TROUPE_SHARED(int, values, 64);
  const int me = static_cast<int>(threadIdx.x);
  int mine = me;
  for (int turn = 0; turn < 2; ++turn) {
    values[me] = mine;
    __syncthreads();
    mine = values[(me + 1) % 64];
    if (kBarrier) __syncthreads();
  }
  out[me] = mine;
}

__global__ void warp_calls(int* out) {
  const int me = static_cast<int>(threadIdx.x);
  int* mine = out + 8 * me;
  mine[0] = __shfl_sync(kAll, me * 10, 7);
  mine[1] = __shfl_sync(kAll, me * 10, 3, 8);
  mine[2] = __shfl_down_sync(kAll, me * 10, 2u, 16);
  mine[3] = __shfl_up_sync(kAll, me * 10, 2u);
  mine[4] = static_cast<int>(__ballot_sync(kAll, me % 3 == 0));
  mine[5] = __any_sync(kAll, me == 31) + 2 * __all_sync(kAll, me < 31);
  mine[6] = static_cast<int>(__match_any_sync(kAll, me / 4));
  mine[7] = static_cast<int>(__shfl_xor_sync(kAll, double{0.5} * me, 1) * 2);
}

__global__ void divergent_barrier() {
  if (threadIdx.x != 5) __syncthreads();
}

__global__ void two_barriers() {
  if (threadIdx.x % 2)
    __syncthreads();
  else
    __syncthreads();
}

__global__ void half_a_warp_call(int* out) {
  if (threadIdx.x < 16) out[threadIdx.x] = __shfl_sync(kAll, 1, 0);
}

__global__ void foreign_mask(int* out) { out[threadIdx.x] = __shfl_sync(1u, 1, 0); }

__global__ void keeps_shared_memory(float* out) {
  TROUPE_SHARED(float, kept, 1);
  if (blockIdx.x == 0) kept[0] = 1;
  out[blockIdx.x] = kept[0];
}

__global__ void stop_at(int thread) {
  __syncthreads();
  if (static_cast<int>(threadIdx.x) == thread) __trap();
}

Tensor zeros(EmulatedStream& stream, int64_t n) { return on(stream, Tensor::zeros({n}, DType::i32)); }

// How many of 20 orders give the sums 1 + ... + n.
template <class Launch>
int right_answers(int64_t expected, Launch launch) {
  int right = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    EmulatedStream stream(seed);
    Tensor out = zeros(stream, 1);
    launch(stream, out.data<int32_t>());
    right += at(out, 0) == static_cast<double>(expected);
  }
  return right;
}

template <class Launch>
std::string fault_of(Launch launch) {
  EmulatedStream stream(1);
  Tensor out = zeros(stream, 64);
  try {
    launch(stream, out.data<int32_t>());
  } catch (const KernelFault& fault) {
    return fault.what();
  }
  return "none";
}

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_emulation)

BOOST_AUTO_TEST_CASE(EveryThreadOfEveryBlockRunsOnceAndKnowsItsPlace) {
  EmulatedStream stream(1);
  Tensor out = zeros(stream, 2 * 3 * 2 * 4 * 3 * 2);
  TROUPE_LAUNCH(where_am_i, dim3(2, 3, 2), dim3(4, 3, 2), 0, stream, out.data<int32_t>());
  for (int64_t i = 0; i < out.count(); ++i) BOOST_TEST(at(out, i) == static_cast<double>(i / 24 * 1000 + i % 24));
  BOOST_TEST(stream.launches() == std::vector<std::string>{"where_am_i"}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(BarriersMakeATreeOfSumsRightInEveryOrder) {
  BOOST_TEST(right_answers(64 * 65 / 2, [](EmulatedStream& stream, int* out) {
               TROUPE_LAUNCH(tree_sum<true>, 1, 64, 64 * sizeof(int), stream, out);
             }) == 20);
}

BOOST_AUTO_TEST_CASE(AMissingBarrierIsFound) {
  BOOST_TEST(right_answers(64 * 65 / 2, [](EmulatedStream& stream, int* out) {
               TROUPE_LAUNCH(tree_sum<false>, 1, 64, 64 * sizeof(int), stream, out);
             }) < 20);
}

BOOST_AUTO_TEST_CASE(ABarrierMissingBeforeMemoryIsUsedAgainIsFound) {
  const auto rotated = [](auto kernel, uint64_t seed) {
    EmulatedStream stream(seed);
    Tensor out = zeros(stream, 64);
    TROUPE_LAUNCH(kernel, 1, 64, 0, stream, out.data<int32_t>());
    return out;
  };
  int wrong = 0;
  for (uint64_t seed = 0; seed < 20; ++seed)
    for (const bool barrier : {true, false}) {
      const Tensor out = rotated(barrier ? rotate_twice<true> : rotate_twice<false>, seed);
      bool right = true;
      for (int i = 0; i < 64; ++i) right = right && at(out, i) == (i + 2) % 64;
      if (barrier) BOOST_TEST(right);
      wrong += !right;
    }
  BOOST_TEST(wrong > 0);
}

BOOST_AUTO_TEST_CASE(AWarpThatIsTakenToGoInStepIsFound) {
  const auto right = [](auto kernel) {
    return right_answers(32 * 33 / 2,
                         [=](EmulatedStream& stream, int* out) { TROUPE_LAUNCH(kernel, 1, 32, 0, stream, out); });
  };
  BOOST_TEST(right(warp_sum<true>) == 20);
  BOOST_TEST(right(warp_sum<false>) < 20);
}

BOOST_AUTO_TEST_CASE(AShuffleFromOutsideItsMaskGivesNaN) {
  EmulatedStream stream(1);
  Tensor out = stream.empty({32});
  TROUPE_LAUNCH(shuffled_sum, 1, 32, 0, stream, out.data<float>(), kAll);
  for (int i = 0; i < 32; ++i) BOOST_TEST(at(out, i) == 32);
  TROUPE_LAUNCH(shuffled_sum, 1, 32, 0, stream, out.data<float>(), 0x00ffffffu);
  BOOST_TEST(std::isnan(at(out, 0)));
}

BOOST_AUTO_TEST_CASE(ALostUpdateOfSharedMemoryIsFound) {
  const auto right = [](auto kernel) {
    return right_answers(100, [=](EmulatedStream& stream, int* out) { TROUPE_LAUNCH(kernel, 1, 100, 0, stream, out); });
  };
  BOOST_TEST(right(count_threads<true>) == 20);
  BOOST_TEST(right(count_threads<false>) < 20);
}

BOOST_AUTO_TEST_CASE(CallsOfAWarpDoWhatCudaSays) {
  EmulatedStream stream(3);
  Tensor out = zeros(stream, 32 * 8);
  TROUPE_LAUNCH(warp_calls, 1, 32, 0, stream, out.data<int32_t>());
  for (int me = 0; me < 32; ++me) {
    const int expected[] = {70,
                            (me / 8 * 8 + 3) * 10,
                            (me % 16 + 2 < 16 ? me + 2 : me) * 10,
                            (me >= 2 ? me - 2 : me) * 10,
                            0x49249249,
                            1,
                            static_cast<int>(0xfu << me / 4 * 4),
                            me ^ 1};
    for (int i = 0; i < 8; ++i) BOOST_TEST(out.data<int32_t>()[8 * me + i] == expected[i], "lane " << me << ", " << i);
  }
}

BOOST_AUTO_TEST_CASE(TheOrderIsTheSeeds) {
  const auto first_values = [](uint64_t seed) {
    EmulatedStream stream(seed);
    Tensor out = zeros(stream, 1);
    TROUPE_LAUNCH(count_threads<false>, 1, 100, 0, stream, out.data<int32_t>());
    return at(out, 0);
  };
  std::set<double> seen;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    BOOST_TEST(first_values(seed) == first_values(seed));
    seen.insert(first_values(seed));
  }
  BOOST_TEST(seen.size() > 1u);
}

BOOST_AUTO_TEST_CASE(ABarrierThatOneThreadNeverReachesNamesBlockAndThreads) {
  const std::string text = fault_of([](EmulatedStream& s, int*) { TROUPE_LAUNCH(divergent_barrier, 1, 40, 0, s); });
  BOOST_TEST(says(text,
                  "divergent_barrier, block (0, 0, 0): no thread can go on: 1 ended, the first (5, 0, 0); "
                  "39 wait at the barrier of emulation_test.cc:"),
             text);
}

BOOST_AUTO_TEST_CASE(ThreadsAtDifferentBarriersAreAFault) {
  const std::string text = fault_of([](EmulatedStream& s, int*) { TROUPE_LAUNCH(two_barriers, 1, 40, 0, s); });
  BOOST_TEST(says(text, "is at the barrier of"), text);
}

BOOST_AUTO_TEST_CASE(AWarpCallThatLanesOfTheMaskDoNotMakeIsAFault) {
  const std::string text =
      fault_of([](EmulatedStream& s, int* out) { TROUPE_LAUNCH(half_a_warp_call, 1, 32, 0, s, out); });
  BOOST_TEST(says(text, "16 ended, the first (16, 0, 0); 16 wait for lanes of their warp"), text);
}

BOOST_AUTO_TEST_CASE(AMaskWithoutTheCallerIsAFault) {
  const std::string text = fault_of([](EmulatedStream& s, int* out) { TROUPE_LAUNCH(foreign_mask, 1, 2, 0, s, out); });
  BOOST_TEST(says(text, "thread (1, 0, 0) is not in the mask"), text);
}

BOOST_AUTO_TEST_CASE(AMaskWithLanesThatTheLastWarpDoesNotHaveIsAFault) {
  const std::string text =
      fault_of([](EmulatedStream& s, int*) { TROUPE_LAUNCH(warp_sum<true>, 1, 20, 0, s, nullptr); });
  BOOST_TEST(says(text, "names lanes that its warp of 20 does not have"), text);
}

BOOST_AUTO_TEST_CASE(SharedMemoryIsForgottenBetweenBlocks) {
  EmulatedStream stream(1);
  Tensor out = stream.empty({50});
  TROUPE_LAUNCH(keeps_shared_memory, 50, 1, 0, stream, out.data<float>());
  BOOST_TEST(at(out, 0) == 1);
  for (int i = 1; i < 50; ++i) BOOST_TEST(std::isnan(at(out, i)));
}

BOOST_AUTO_TEST_CASE(ATrapNamesItsThread) {
  const std::string text = fault_of([](EmulatedStream& s, int*) { TROUPE_LAUNCH(stop_at, 3, 64, 0, s, 42); });
  BOOST_TEST(says(text, "thread (42, 0, 0) stopped at emulation_test.cc:"), text);
}

BOOST_AUTO_TEST_CASE(LaunchesThatADeviceRefusesAreRefused) {
  const auto refused = [](dim3 blocks, dim3 threads, size_t bytes) {
    return fault_of([=](EmulatedStream& s, int*) { TROUPE_LAUNCH(stop_at, blocks, threads, bytes, s, -1); });
  };
  BOOST_TEST(says(refused(0, 1, 0), "no blocks"));
  BOOST_TEST(says(refused(1, 1025, 0), "too many threads"));
  BOOST_TEST(says(refused(dim3(1, 65536), 1, 0), "65535"));
  BOOST_TEST(says(refused(1, 1, 49 * 1024), "48 KiB"));
}

#ifdef __SANITIZE_ADDRESS__
__global__ void look_behind(int* seen) {
  TROUPE_SHARED(int, fixed, 3);
  TROUPE_DYNAMIC_SHARED(int, asked_for);
  seen[0] = __asan_address_is_poisoned(&fixed[2]) + 2 * __asan_address_is_poisoned(&fixed[3]);
  seen[1] = __asan_address_is_poisoned(&asked_for[4]) + 2 * __asan_address_is_poisoned(&asked_for[5]);
}

BOOST_AUTO_TEST_CASE(TheFirstByteBehindMemoryIsKnown) {
  EmulatedStream stream(1);
  Tensor seen = zeros(stream, 2);
  TROUPE_LAUNCH(look_behind, 1, 1, 5 * sizeof(int), stream, seen.data<int32_t>());
  BOOST_TEST(!__asan_address_is_poisoned(seen.raw() + 7));
  BOOST_TEST(__asan_address_is_poisoned(seen.raw() + 8));
  for (int i : {0, 1}) BOOST_TEST(at(seen, i) == 2);
}
#endif

BOOST_AUTO_TEST_SUITE_END()
