#include <tests/cuda_runtime/rules.h>
#include <tests/support/gpu.h>
#include <tests/support/ranks.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>

// kernels/collective/nccl as it is, on a simulated NCCL (tests/support/simulated_cuda): what the contract of
// communicators (tests/kernels/communicator_test.cc, which runs here too) does not say. Peers are lost, groups given
// up.

using namespace troupe;
using namespace troupe::test;

BOOST_FIXTURE_TEST_SUITE(nccl, Rules)

namespace {

using Ranks = std::vector<std::unique_ptr<Communicator>>;

Ranks group_of(int size) {
  std::vector<int> devices;
  for (int device = 0; device < size; ++device) devices.push_back(device);
  return cuda_backend()->make_group(devices).value();
}

Tensor filled(Communicator& rank, int64_t count, float value) {
  Tensor host = Tensor::empty({count});
  std::ranges::fill(host.span<float>(), value);
  return to_device(*rank.stream(), host);
}

/// Ranks of a group that is made of as many processes, as far as they can tell.
Ranks joined(int size, std::array<uint64_t, 3> plans, std::vector<std::string>& errors) {
  const GroupKey key = cuda_backend()->make_group_key().value();
  Ranks ranks(static_cast<size_t>(size));
  errors.assign(ranks.size(), "");
  run_ranks(size, [&](int rank) {
    const auto i = static_cast<size_t>(rank);
    auto got = cuda_backend()->join_group(key, {.rank = rank, .size = size, .device = rank, .plan = plans[i]});
    if (got)
      ranks[i] = std::move(*got);
    else
      errors[i] = got.error().message;
  });
  return ranks;
}

}  // namespace

BOOST_AUTO_TEST_CASE(ALostPeerEndsACallThatWaitsForIt) {
  std::vector<std::string> errors;
  Ranks ranks = joined(3, {7, 7, 7}, errors);
  for (const std::string& error : errors) BOOST_TEST_REQUIRE(error == "");
  std::vector<Status> statuses(2);
  run_ranks(3, [&](int rank) {
    const auto i = static_cast<size_t>(rank);
    if (rank == 2) {  // makes no call, and is gone once the others wait for it on their devices
      simulated_cuda::await_waiting_kernels(2);
      return simulated_cuda::lose_rank(2);
    }
    Tensor values = filled(*ranks[i], 100, 1);
    statuses[i] = ranks[i]->all_reduce(values, values);
  });
  for (const Status& status : statuses) {
    BOOST_TEST_REQUIRE(!status.has_value());
    BOOST_TEST((status.error().kind == ErrorKind::missing));
    BOOST_TEST(status.error().message.find("a peer of the group was lost during all_reduce") == 0u,
               status.error().message);
    BOOST_TEST(status.error().message.find("remote process exited") != std::string::npos, status.error().message);
  }
  // Later ones fail at once, with the reason.
  Tensor values = filled(*ranks[0], 100, 1);
  const Status later = ranks[0]->all_reduce(values, values);
  BOOST_TEST_REQUIRE(!later.has_value());
  BOOST_TEST(later.error().message.find("remote process exited") != std::string::npos, later.error().message);
}

BOOST_AUTO_TEST_CASE(AnAbortFromAnotherThreadEndsACallOfProcesses) {
  std::vector<std::string> errors;
  Ranks ranks = joined(2, {1, 1, 1}, errors);
  Status status;
  std::thread other([&] { ranks[0]->abort("worker 5 was lost"); });
  Tensor values = filled(*ranks[0], 10, 1);
  status = ranks[0]->all_reduce(values, values);
  other.join();
  BOOST_TEST_REQUIRE(!status.has_value());
  BOOST_TEST((status.error().kind == ErrorKind::cancelled));
  BOOST_TEST(status.error().message == "collective aborted: worker 5 was lost");
}

BOOST_AUTO_TEST_CASE(ProcessesThatPlanOtherCallsHearItAsTheyJoin) {
  std::vector<std::string> errors;
  joined(3, {7, 7, 8}, errors);
  for (const std::string& error : errors)
    BOOST_TEST(error.find("do not plan the same collectives") != std::string::npos, error);
}

BOOST_AUTO_TEST_CASE(WhoeverWaitsForOthersToJoinMayGiveUp) {
  const GroupKey key = cuda_backend()->make_group_key().value();
  std::atomic<int> asked = 0;
  const auto got = cuda_backend()->join_group(
      key, {.rank = 0, .size = 2, .device = 0, .plan = 1, .given_up = [&] { return ++asked > 3; }});
  BOOST_TEST_REQUIRE(!got.has_value());
  BOOST_TEST((got.error().kind == ErrorKind::cancelled));
}

// Rank 1's device fails under way: it leaves, and rank 0 hears it instead of waiting for ever.
BOOST_AUTO_TEST_CASE(AFailureOfADeviceEndsTheGroupOfItsProcess) {
  Ranks ranks = group_of(2);
  std::vector<Status> statuses(2);
  Tensor first = filled(*ranks[0], 10, 1), second = filled(*ranks[1], 10, 1);
  run_ranks(2, [&](int rank) {
    const auto i = static_cast<size_t>(rank);
    if (rank == 1) ranks[1]->abort("worker 1: no memory for layer fc1");
    statuses[i] = ranks[i]->all_reduce(rank == 0 ? first : second, rank == 0 ? first : second);
  });
  for (const Status& status : statuses) {
    BOOST_TEST_REQUIRE(!status.has_value());
    BOOST_TEST(status.error().message.find("no memory for layer fc1") != std::string::npos, status.error().message);
  }
}

BOOST_AUTO_TEST_CASE(HostMemoryInACallIsRefusedByAllRanks) {
  Ranks ranks = group_of(2);
  std::vector<Status> statuses(2);
  run_ranks(2, [&](int rank) {
    const auto i = static_cast<size_t>(rank);
    Tensor values = rank == 0 ? Tensor::zeros({10}) : filled(*ranks[1], 10, 1);
    statuses[i] = ranks[i]->all_reduce(values, values);
  });
  for (const Status& status : statuses) {
    BOOST_TEST_REQUIRE(!status.has_value());
    BOOST_TEST(status.error().message.find("memory that is not on CUDA device 0") != std::string::npos,
               status.error().message);
  }
}

BOOST_AUTO_TEST_SUITE_END()
