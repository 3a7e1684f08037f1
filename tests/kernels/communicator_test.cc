#include <boost/test/unit_test.hpp>

#include <numeric>
#include <thread>

#include <tests/support/gpu.h>
#include <tests/support/ranks.h>
#include <troupe/kernels/backend/backend.h>

// The contract of a communicator, for every backend's: thread ranks here, NCCL's where there are GPUs. Values are small
// integers, so that sums are the same in any order.

using namespace troupe;

namespace {

/// One rank's tensors are where its communicator finds them.
struct Rank {
  Communicator& group;

  Tensor place(const Tensor& host) const { return group.stream() ? test::to_device(*group.stream(), host) : host; }
  Tensor fetch(const Tensor& placed) const {
    if (!group.stream()) return placed;
    Tensor host = Tensor::empty(placed.shape(), placed.dtype());
    group.stream()->copy(placed, host);
    if (const Status status = group.stream()->wait(); !status) throw std::runtime_error(status.error().message);
    return host;
  }
};

using Body = std::function<Status(Rank, int rank)>;

/// A kind of communicator, and how many ranks it is tried with.
struct Kind {
  DeviceKind device;
  std::vector<int> sizes;
};

Kind threads() { return {DeviceKind::cpu, {1, 2, 3, 5}}; }
Kind nccl() {
  std::vector<int> sizes(test::gpus().devices().size());
  std::iota(sizes.begin(), sizes.end(), 1);
  return {DeviceKind::cuda, sizes};
}

std::vector<Status> on_ranks(DeviceKind kind, int size, const Body& body) {
  std::vector<int> devices(static_cast<size_t>(size), 0);
  if (kind == DeviceKind::cuda) std::iota(devices.begin(), devices.end(), 0);
  auto group = load_backend(kind).value()->make_group(devices);
  BOOST_TEST_REQUIRE(group.has_value(), group.error().message);
  std::vector<Status> statuses(devices.size());
  test::run_ranks(size, [&](int rank) {
    const auto i = static_cast<size_t>(rank);
    statuses[i] = body({*(*group)[i]}, rank);
  });
  return statuses;
}

void check_all_ok(const Kind& kind, const std::function<Body(int size, std::vector<std::string>& wrong)>& make) {
  for (int size : kind.sizes) {
    std::vector<std::string> wrong(static_cast<size_t>(size));
    for (const Status& status : on_ranks(kind.device, size, make(size, wrong)))
      BOOST_TEST(status.has_value(), status.error().message);
    for (const std::string& text : wrong) BOOST_TEST(text == "");
  }
}

// Element i of rank's vector.
float value(int rank, int64_t i) { return static_cast<float>((i * 7 + rank * 13) % 101 - 50); }
float sum(int size, int64_t i) {
  float total = 0;
  for (int rank = 0; rank < size; ++rank) total += value(rank, i);
  return total;
}

Tensor values(int rank, int64_t count, int64_t begin = 0) {
  Tensor t = Tensor::empty({count});
  for (int64_t i = 0; i < count; ++i) t.data<float>()[i] = value(rank, begin + i);
  return t;
}

template <class Expected>
void compare(const Tensor& got, Expected expected, std::string& wrong) {
  for (int64_t i = 0; i < got.count(); ++i)
    if (got.data<float>()[i] != expected(i)) {
      wrong = cat("element ", i, " of ", got.count(), " is ", got.data<float>()[i], ", expected ", expected(i));
      return;
    }
}

constexpr int64_t kCounts[] = {0, 1, 17, 1000, 1024, 100003};

void check_all_reduce(const Kind& kind) {
  check_all_ok(kind, [](int size, std::vector<std::string>& wrong) {
    return [size, &wrong](Rank at, int rank) -> Status {
      for (int64_t count : kCounts) {
        const Tensor in = at.place(values(rank, count));
        Tensor out = at.place(Tensor::zeros({count})), same = at.place(values(rank, count));
        TROUPE_TRY(at.group.all_reduce(in, out));
        TROUPE_TRY(at.group.all_reduce(same, same));
        std::string& text = wrong[static_cast<size_t>(rank)];
        compare(
            at.fetch(out), [&](int64_t i) { return sum(size, i); }, text);
        compare(
            at.fetch(same), [&](int64_t i) { return sum(size, i); }, text);
      }
      return {};
    };
  });
}

void check_reduce_scatter_and_all_gather(const Kind& kind) {
  check_all_ok(kind, [](int size, std::vector<std::string>& wrong) {
    return [size, &wrong](Rank at, int rank) -> Status {
      for (int64_t count : kCounts) {
        const Part part = part_of(count, rank, size);
        Tensor mine = at.place(Tensor::zeros({part.count()})), whole = at.place(Tensor::zeros({count}));
        TROUPE_TRY(at.group.reduce_scatter(at.place(values(rank, count)), mine));
        std::string& text = wrong[static_cast<size_t>(rank)];
        compare(
            at.fetch(mine), [&](int64_t i) { return sum(size, part.begin + i); }, text);
        TROUPE_TRY(at.group.all_gather(mine, whole));
        compare(
            at.fetch(whole), [&](int64_t i) { return sum(size, i); }, text);
      }
      return {};
    };
  });
}

void check_broadcast(const Kind& kind) {
  check_all_ok(kind, [](int size, std::vector<std::string>& wrong) {
    return [size, &wrong](Rank at, int rank) -> Status {
      for (int root = 0; root < size; ++root) {
        Tensor t = at.place(values(rank, 777));
        TROUPE_TRY(at.group.broadcast(t, root));
        compare(
            at.fetch(t), [&](int64_t i) { return value(root, i); }, wrong[static_cast<size_t>(rank)]);
      }
      return {};
    };
  });
}

// Rank 0 hands something to each of the others, twice: it comes in order.
void check_send_and_receive(const Kind& kind) {
  check_all_ok(kind, [](int size, std::vector<std::string>& wrong) {
    return [size, &wrong](Rank at, int rank) -> Status {
      std::string& text = wrong[static_cast<size_t>(rank)];
      for (int other = 1; other < size; ++other) {
        if (rank != 0 && rank != other) continue;
        Tensor first = at.place(values(rank, 33)), second = at.place(values(rank + 10, 1000));
        if (rank == 0) {
          TROUPE_TRY(at.group.send(first, other));
          TROUPE_TRY(at.group.send(second, other));
          continue;
        }
        TROUPE_TRY(at.group.receive(first, 0));
        TROUPE_TRY(at.group.receive(second, 0));
        compare(
            at.fetch(first), [](int64_t i) { return value(0, i); }, text);
        compare(
            at.fetch(second), [](int64_t i) { return value(10, i); }, text);
      }
      return {};
    };
  });
}

// A ring, which calls that wait for each other could not make, around an all_reduce.
void check_group_of_calls(const Kind& kind) {
  check_all_ok(kind, [](int size, std::vector<std::string>& wrong) {
    return [size, &wrong](Rank at, int rank) -> Status {
      const int next = (rank + 1) % size, before = (rank + size - 1) % size;
      const Tensor mine = at.place(values(rank, 500));
      Tensor theirs = at.place(Tensor::zeros({500})), total = at.place(values(rank, 70));
      at.group.begin_group();
      if (size > 1) TROUPE_TRY(at.group.receive(theirs, before));
      TROUPE_TRY(at.group.all_reduce(total, total));
      if (size > 1) TROUPE_TRY(at.group.send(mine, next));
      TROUPE_TRY(at.group.end_group());
      std::string& text = wrong[static_cast<size_t>(rank)];
      compare(
          at.fetch(total), [&](int64_t i) { return sum(size, i); }, text);
      if (size > 1)
        compare(
            at.fetch(theirs), [&](int64_t i) { return value(before, i); }, text);
      return {};
    };
  });
}

// Both of the pair hear it, the others nothing, and the group goes on.
void check_pair_that_disagrees(const Kind& kind) {
  for (int size : kind.sizes) {
    if (size < 2) continue;
    std::vector<std::string> wrong(static_cast<size_t>(size));
    const auto statuses = on_ranks(kind.device, size, [&](Rank at, int rank) -> Status {
      Status first;
      Tensor t = at.place(values(rank, rank == 1 ? 6 : 5));
      if (rank == 0) first = at.group.send(t, 1);
      if (rank == 1) first = at.group.receive(t, 0);
      Tensor even = at.place(values(rank, 100));
      if (const Status again = at.group.all_reduce(even, even); !again) return again;
      compare(
          at.fetch(even), [&](int64_t i) { return sum(size, i); }, wrong[static_cast<size_t>(rank)]);
      return first;
    });
    for (size_t rank = 0; rank < statuses.size(); ++rank) {
      BOOST_TEST(statuses[rank].has_value() == (rank > 1));
      if (rank > 1) continue;
      BOOST_TEST((statuses[rank].error().kind == ErrorKind::invalid));
      BOOST_TEST(statuses[rank].error().message == "rank 0 sends 5 x F32 to rank 1, who receives 6 x F32");
    }
    for (const std::string& text : wrong) BOOST_TEST(text == "");
  }
}

// Rank 0 never comes; whoever sends to it or receives from it ends with the reason.
void check_abort_of_pairs(const Kind& kind) {
  for (int size : kind.sizes) {
    if (size < 2) continue;
    const auto statuses = on_ranks(kind.device, size, [&](Rank at, int rank) -> Status {
      Tensor t = at.place(values(rank, 10));
      if (rank % 2 == 1) return at.group.send(t, 0);
      if (rank > 0) return at.group.receive(t, 0);
      at.group.abort("rank 0 has had enough");
      return fail(ErrorKind::cancelled, "rank 0 has had enough");
    });
    for (const Status& status : statuses) {
      BOOST_TEST_REQUIRE(!status.has_value());
      BOOST_TEST((status.error().kind == ErrorKind::cancelled));
      BOOST_TEST(status.error().message.find("rank 0 has had enough") != std::string::npos);
    }
  }
}

// All ranks hear the same, and the group goes on.
void check_disagreement(const Kind& kind) {
  for (int size : kind.sizes) {
    if (size < 2) continue;
    std::vector<std::string> wrong(static_cast<size_t>(size));
    const auto statuses = on_ranks(kind.device, size, [&](Rank at, int rank) -> Status {
      Tensor odd = at.place(values(rank, rank == 1 ? 99 : 100));
      const Status first = at.group.all_reduce(odd, odd);
      Tensor even = at.place(values(rank, 100));
      if (const Status again = at.group.all_reduce(even, even); !again) return again;
      compare(
          at.fetch(even), [&](int64_t i) { return sum(size, i); }, wrong[static_cast<size_t>(rank)]);
      return first;
    });
    for (const Status& status : statuses) {
      BOOST_TEST_REQUIRE(!status.has_value());
      BOOST_TEST((status.error().kind == ErrorKind::invalid));
      BOOST_TEST(status.error().message.find("rank 1 calls all_reduce of 99") != std::string::npos);
    }
    for (const std::string& text : wrong) BOOST_TEST(text == "");
  }
}

// Rank 0 never calls; whoever waits for it ends with the reason.
void check_abort(const Kind& kind) {
  for (int size : kind.sizes) {
    if (size < 2) continue;
    const auto statuses = on_ranks(kind.device, size, [&](Rank at, int rank) -> Status {
      if (rank == 0) {
        at.group.abort("rank 0 has had enough");
        return fail(ErrorKind::cancelled, "rank 0 has had enough");
      }
      Tensor t = at.place(values(rank, 1000));
      return at.group.all_reduce(t, t);
    });
    for (const Status& status : statuses) {
      BOOST_TEST_REQUIRE(!status.has_value());
      BOOST_TEST((status.error().kind == ErrorKind::cancelled));
      BOOST_TEST(status.error().message.find("rank 0 has had enough") != std::string::npos);
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(communicator)

BOOST_AUTO_TEST_CASE(ThreadRanksAllReduce) { check_all_reduce(threads()); }
BOOST_AUTO_TEST_CASE(ThreadRanksReduceScatterAndAllGather) { check_reduce_scatter_and_all_gather(threads()); }
BOOST_AUTO_TEST_CASE(ThreadRanksBroadcast) { check_broadcast(threads()); }
BOOST_AUTO_TEST_CASE(ThreadRanksSendAndReceive) { check_send_and_receive(threads()); }
BOOST_AUTO_TEST_CASE(ThreadRanksDoAGroupOfCallsTogether) { check_group_of_calls(threads()); }
BOOST_AUTO_TEST_CASE(ThreadRanksHearThatAPairDisagrees) { check_pair_that_disagrees(threads()); }
BOOST_AUTO_TEST_CASE(ThreadRanksThatSendEndWithTheReasonOfAnAbort) { check_abort_of_pairs(threads()); }
BOOST_AUTO_TEST_CASE(ASendToItselfIsRefused) {
  const auto statuses = on_ranks(DeviceKind::cpu, 2, [](Rank at, int rank) -> Status {
    return at.group.send(values(rank, 5), rank);
  });
  BOOST_TEST(statuses[1].error().message == "rank 1 calls send of 5 x F32 to rank 1 with itself as the other rank");
}
BOOST_AUTO_TEST_CASE(ThreadRanksHearThatTheyDisagree) { check_disagreement(threads()); }
BOOST_AUTO_TEST_CASE(ThreadRanksEndWithTheReasonOfAnAbort) { check_abort(threads()); }

BOOST_AUTO_TEST_CASE(NcclAllReduces, TROUPE_GPU_TEST(1)) { check_all_reduce(nccl()); }
BOOST_AUTO_TEST_CASE(NcclReduceScattersAndAllGathers, TROUPE_GPU_TEST(1)) {
  check_reduce_scatter_and_all_gather(nccl());
}
BOOST_AUTO_TEST_CASE(NcclBroadcasts, TROUPE_GPU_TEST(1)) { check_broadcast(nccl()); }
BOOST_AUTO_TEST_CASE(NcclSendsAndReceives, TROUPE_GPU_TEST(2)) { check_send_and_receive(nccl()); }
BOOST_AUTO_TEST_CASE(NcclDoesAGroupOfCallsTogether, TROUPE_GPU_TEST(1)) { check_group_of_calls(nccl()); }
BOOST_AUTO_TEST_CASE(NcclRanksHearThatAPairDisagrees, TROUPE_GPU_TEST(2)) { check_pair_that_disagrees(nccl()); }
BOOST_AUTO_TEST_CASE(NcclRanksThatSendEndWithTheReasonOfAnAbort, TROUPE_GPU_TEST(2)) { check_abort_of_pairs(nccl()); }
BOOST_AUTO_TEST_CASE(NcclRanksHearThatTheyDisagree, TROUPE_GPU_TEST(2)) { check_disagreement(nccl()); }
BOOST_AUTO_TEST_CASE(NcclRanksEndWithTheReasonOfAnAbort, TROUPE_GPU_TEST(2)) { check_abort(nccl()); }

BOOST_AUTO_TEST_CASE(AGroupWithADeviceTwiceIsRefused, TROUPE_GPU_TEST(1)) {
  const std::vector<int> devices{0, 0};
  const auto group = test::gpus().make_group(devices);
  BOOST_TEST_REQUIRE(!group.has_value());
  BOOST_TEST(group.error().message.find("named twice") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(AGroupOfProcessesBeginsWithOneRank, TROUPE_GPU_TEST(1)) {
  const auto key = test::gpus().make_group_key();
  BOOST_TEST_REQUIRE(key.has_value(), key.error().message);
  const auto joined = test::gpus().join_group(*key, {.rank = 0, .size = 1, .device = 0, .plan = 42});
  BOOST_TEST_REQUIRE(joined.has_value(), joined.error().message);
  const Rank at{**joined};
  Tensor t = at.place(values(0, 100));
  BOOST_TEST((*joined)->all_reduce(t, t).has_value());
  BOOST_TEST(at.fetch(t).data<float>()[99] == value(0, 99));
}

BOOST_AUTO_TEST_CASE(WhoeverWaitsForAGroupOfProcessesMayGiveUp, TROUPE_GPU_TEST(1)) {
  const auto key = test::gpus().make_group_key();
  BOOST_TEST_REQUIRE(key.has_value(), key.error().message);
  int asked = 0;
  const auto joined = test::gpus().join_group(
      *key, {.rank = 0, .size = 2, .device = 0, .plan = 42, .given_up = [&] { return ++asked > 10; }});
  BOOST_TEST_REQUIRE(!joined.has_value());
  BOOST_TEST((joined.error().kind == ErrorKind::cancelled), joined.error().message);
}

BOOST_AUTO_TEST_CASE(RanksOfAGroupOfProcessesThatPlanOtherCallsHearIt, TROUPE_GPU_TEST(2)) {
  const auto key = test::gpus().make_group_key();
  BOOST_TEST_REQUIRE(key.has_value(), key.error().message);
  std::vector<std::string> said(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      const GroupSeat seat{.rank = rank, .size = 2, .device = rank, .plan = 17u + static_cast<uint64_t>(rank)};
      const auto joined = test::gpus().join_group(*key, seat);
      said[static_cast<size_t>(rank)] = joined ? "joined" : joined.error().message;
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& each : said)
    BOOST_TEST(each.find("do not plan the same collectives") != std::string::npos, each);
}

BOOST_AUTO_TEST_SUITE_END()
