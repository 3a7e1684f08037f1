#include <boost/test/unit_test.hpp>

#include <cmath>

#include <tests/support/ranks.h>
#include <troupe/kernels/base/random.h>
#include <troupe/kernels/collective/thread_group.h>

using namespace troupe;

namespace {

constexpr int kSizes[] = {1, 2, 3, 5};
constexpr int64_t kCounts[] = {0, 1, 15, 16, 17, 1000, 100003};

// Numbers of very different sizes, so that another order of summation gives other bits.
template <class T>
Tensor inputs_of(int rank, int64_t count) {
  Random random(derive_seed(1, "test", static_cast<uint64_t>(rank)));
  Tensor values = Tensor::empty({count}, dtype_of<T>);
  for (T& value : values.span<T>()) value = static_cast<T>(random.normal() * std::exp(4 * random.normal()));
  return values;
}

template <class T>
Tensor serial_sum(int size, int64_t count) {
  Tensor sum = inputs_of<T>(0, count);
  for (int rank = 1; rank < size; ++rank) {
    const Tensor next = inputs_of<T>(rank, count);
    for (int64_t i = 0; i < count; ++i) sum.data<T>()[i] += next.data<T>()[i];
  }
  return sum;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.bytes() == b.bytes() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

// call(communicator, rank) on every rank of a new group; what each returned.
template <class Call>
std::vector<Status> on_ranks(int size, const Call& call) {
  auto group = make_thread_group(size);
  std::vector<Status> statuses(static_cast<size_t>(size));
  test::run_ranks(size, [&](int rank) {
    statuses[static_cast<size_t>(rank)] = call(*group[static_cast<size_t>(rank)], rank);
  });
  return statuses;
}

void check_all_ok(const std::vector<Status>& statuses) {
  for (const Status& status : statuses) BOOST_TEST(status.has_value(), status.error().message);
}

template <class T>
void check_all_reduce(int size, int64_t count, bool in_place) {
  std::vector<Tensor> outs(static_cast<size_t>(size));
  check_all_ok(on_ranks(size, [&](Communicator& group, int rank) {
    Tensor in = inputs_of<T>(rank, count);
    Tensor& out = outs[static_cast<size_t>(rank)];
    out = in_place ? in : Tensor::empty({count}, dtype_of<T>);
    return group.all_reduce(in, out);
  }));
  const Tensor expected = serial_sum<T>(size, count);
  for (const Tensor& out : outs)
    BOOST_TEST(same_bits(out, expected), size << " ranks, " << count << " elements");
}

}  // namespace

BOOST_AUTO_TEST_SUITE(collective)

BOOST_AUTO_TEST_CASE(PartsCoverTheVectorInRankOrder) {
  for (int size : kSizes)
    for (int64_t count : kCounts) {
      int64_t end = 0;
      for (int rank = 0; rank < size; ++rank) {
        const Part part = part_of(count, rank, size);
        BOOST_TEST(part.begin == end);
        BOOST_TEST(part.count() >= 0);
        end = part.end;
      }
      BOOST_TEST(end == count);
    }
}

BOOST_AUTO_TEST_CASE(AllReduceEqualsASerialSumInRankOrderBitForBit) {
  for (int size : kSizes)
    for (int64_t count : kCounts) {
      check_all_reduce<float>(size, count, false);
      check_all_reduce<double>(size, count, false);
    }
}

BOOST_AUTO_TEST_CASE(AllReduceMayWriteOverItsInput) {
  for (int size : kSizes) check_all_reduce<float>(size, 100003, true);
}

BOOST_AUTO_TEST_CASE(ReduceScatterGivesEachRankItsPartOfTheSum) {
  for (int size : kSizes)
    for (int64_t count : kCounts) {
      std::vector<Tensor> outs(static_cast<size_t>(size));
      check_all_ok(on_ranks(size, [&](Communicator& group, int rank) {
        Tensor& out = outs[static_cast<size_t>(rank)] = Tensor::empty({part_of(count, rank, size).count()});
        return group.reduce_scatter(inputs_of<float>(rank, count), out);
      }));
      const Tensor sum = serial_sum<float>(size, count);
      for (int rank = 0; rank < size; ++rank) {
        const Part part = part_of(count, rank, size);
        BOOST_TEST(same_bits(outs[static_cast<size_t>(rank)], sum.view(part.begin, {part.count()})));
      }
    }
}

BOOST_AUTO_TEST_CASE(AllGatherGivesEveryRankAllParts) {
  for (int size : kSizes)
    for (int64_t count : kCounts) {
      const Tensor whole = inputs_of<double>(7, count);
      std::vector<Tensor> outs(static_cast<size_t>(size));
      check_all_ok(on_ranks(size, [&](Communicator& group, int rank) {
        Tensor& out = outs[static_cast<size_t>(rank)] = Tensor::zeros({count}, DType::f64);
        const Part part = part_of(count, rank, size);
        return group.all_gather(whole.view(part.begin, {part.count()}).clone(), out);
      }));
      for (const Tensor& out : outs) BOOST_TEST(same_bits(out, whole));
    }
}

BOOST_AUTO_TEST_CASE(BroadcastGivesEveryRankTheRootsValues) {
  for (int size : kSizes)
    for (int root = 0; root < size; ++root) {
      std::vector<Tensor> values(static_cast<size_t>(size));
      check_all_ok(on_ranks(size, [&](Communicator& group, int rank) {
        Tensor& mine = values[static_cast<size_t>(rank)] = inputs_of<float>(rank, 1000);
        return group.broadcast(mine, root);
      }));
      for (const Tensor& mine : values) BOOST_TEST(same_bits(mine, inputs_of<float>(root, 1000)));
    }
}

BOOST_AUTO_TEST_CASE(ManyCallsInARowDoNotMixUp) {
  constexpr int kCalls = 2000;
  std::vector<float> sums(4);
  check_all_ok(on_ranks(4, [&](Communicator& group, int rank) -> Status {
    float& sum = sums[static_cast<size_t>(rank)];
    Tensor value = Tensor::empty({1});
    for (int call = 0; call < kCalls; ++call) {
      value.data<float>()[0] = static_cast<float>(call % 7 + rank);
      TROUPE_TRY(group.all_reduce(value, value));
      sum += value.data<float>()[0];
    }
    return {};
  }));
  float expected = 0;
  for (int call = 0; call < kCalls; ++call) expected += static_cast<float>(call % 7 * 4 + 6);
  for (float sum : sums) BOOST_TEST(sum == expected);
}

BOOST_AUTO_TEST_CASE(DifferentCountsAreAnErrorOnAllRanks) {
  const auto statuses = on_ranks(3, [&](Communicator& group, int rank) {
    Tensor values = Tensor::zeros({rank == 2 ? 101 : 100});
    return group.all_reduce(values, values);
  });
  for (const Status& status : statuses) {
    BOOST_REQUIRE(!status.has_value());
    BOOST_TEST((status.error().kind == ErrorKind::invalid));
    BOOST_TEST(status.error().message.find("rank 2 calls all_reduce of 101") != std::string::npos,
               status.error().message);
  }
}

BOOST_AUTO_TEST_CASE(DifferentOperationsAreAnErrorOnAllRanks) {
  const auto statuses = on_ranks(2, [&](Communicator& group, int rank) {
    Tensor values = Tensor::zeros({64});
    return rank == 0 ? group.all_reduce(values, values) : group.broadcast(values, 0);
  });
  for (const Status& status : statuses) BOOST_TEST(!status.has_value());
}

BOOST_AUTO_TEST_CASE(DifferentDtypesAreAnErrorOnAllRanks) {
  const auto statuses = on_ranks(2, [&](Communicator& group, int rank) {
    Tensor values = Tensor::zeros({64}, rank == 0 ? DType::f32 : DType::f64);
    return group.all_reduce(values, values);
  });
  for (const Status& status : statuses) BOOST_TEST(!status.has_value());
}

BOOST_AUTO_TEST_CASE(OneRanksWrongOutputIsAnErrorOnAllRanks) {
  const auto statuses = on_ranks(2, [&](Communicator& group, int rank) {
    Tensor out = Tensor::zeros({rank == 1 ? 63 : 64});
    return group.all_reduce(Tensor::zeros({64}), out);
  });
  for (const Status& status : statuses) BOOST_TEST(!status.has_value());
}

BOOST_AUTO_TEST_CASE(ADisagreementLeavesTheGroupUsable) {
  check_all_ok(on_ranks(2, [&](Communicator& group, int rank) {
    Tensor wrong = Tensor::zeros({rank + 1});
    if (group.all_reduce(wrong, wrong))
      return Status(fail(ErrorKind::failed, "the disagreement was not seen"));
    Tensor right = Tensor::zeros({5});
    return group.all_reduce(right, right);
  }));
}

BOOST_AUTO_TEST_CASE(AbortWakesWaitingRanks) {
  auto group = make_thread_group(3);
  std::vector<Status> statuses(2);
  test::run_ranks(3, [&](int rank) {
    if (rank == 2) return group[2]->abort("worker 2 died");
    Tensor values = Tensor::zeros({8});
    statuses[static_cast<size_t>(rank)] = group[static_cast<size_t>(rank)]->all_reduce(values, values);
  });
  for (const Status& status : statuses) {
    BOOST_REQUIRE(!status.has_value());
    BOOST_TEST((status.error().kind == ErrorKind::cancelled));
    BOOST_TEST(status.error().message.find("worker 2 died") != std::string::npos, status.error().message);
  }
}

BOOST_AUTO_TEST_CASE(CallsAfterAbortFailAtOnceWithTheFirstReason) {
  auto group = make_thread_group(2);
  group[0]->abort("first");
  group[1]->abort("second");
  Tensor values = Tensor::zeros({8});
  const Status status = group[0]->broadcast(values, 0);
  BOOST_REQUIRE(!status.has_value());
  BOOST_TEST(status.error().message.find("first") != std::string::npos, status.error().message);
}

BOOST_AUTO_TEST_CASE(ARankThatLeavesEndsTheWaitOfTheOthers) {
  auto group = make_thread_group(2);
  Status status;
  test::run_ranks(2, [&](int rank) {
    if (rank == 1) return group[1].reset();
    Tensor values = Tensor::zeros({8});
    status = group[0]->all_reduce(values, values);
  });
  BOOST_REQUIRE(!status.has_value());
  BOOST_TEST(status.error().message.find("rank 1 left") != std::string::npos, status.error().message);
}

BOOST_AUTO_TEST_CASE(AbortInTheMiddleOfARunFailsTheSameCallOnAllRanks) {
  for (int round = 0; round < 200; ++round) {
    auto group = make_thread_group(2);
    std::vector<int> completed(2);
    test::run_ranks(3, [&](int rank) {
      if (rank == 2) {
        for (int i = 0; i < round; ++i) std::this_thread::yield();
        return group[0]->abort("enough");
      }
      Tensor values = Tensor::zeros({16});
      while (group[static_cast<size_t>(rank)]->all_reduce(values, values))
        ++completed[static_cast<size_t>(rank)];
    });
    BOOST_TEST(completed[0] == completed[1]);
  }
}

BOOST_AUTO_TEST_SUITE_END()
