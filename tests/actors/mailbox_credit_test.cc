#include <boost/test/unit_test.hpp>

#include <troupe/ps/transport/memory_transport.h>
#include <troupe/ps/transport/metered_transport.h>

#include <tests/support/cluster_lab.h>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(mailbox_credit)

namespace {

constexpr int64_t kWorkers = 40;
// Beside what flow control bounds: memberships, work and the end.
constexpr int64_t kFewMore = 8;

std::shared_ptr<ps::MeteredTransport> metered_run(const ps::Policy& policy, ps::RunResult& result) {
  Bench bench;
  ClusterParts parts = bench.parts(std::vector<int64_t>(kWorkers, 4), {policy});
  parts.coordinator.dealer.max_steps = 12;
  auto transport = std::make_shared<ps::MeteredTransport>(std::make_shared<ps::MemoryTransport>());
  parts.transport = transport;
  auto queue = std::shared_ptr<Executor>(make_cpu_queue("all"));
  parts.executor = [queue](const ps::Endpoint&, const char*) { return queue; };
  result = train(std::move(parts)).result;
  return transport;
}

}  // namespace

BOOST_AUTO_TEST_CASE(NoMailboxGrowsPastItsCreditHoweverManyWorkersPush) {
  for (const ps::Policy& policy : {kAsync, kSsp, kSync}) {
    ps::RunResult result;
    const auto transport = metered_run(policy, result);
    BOOST_REQUIRE(result.outcome == ps::Outcome::completed);
    std::vector<int64_t> parcels(result.layout->servers, 0);
    for (const ps::Parcel& parcel : result.layout->parcels) ++parcels[parcel.server];
    const int64_t most_parcels = std::ranges::max(parcels);
    const auto all_parcels = static_cast<int64_t>(result.layout->parcels.size());
    BOOST_TEST_CONTEXT(ps::describe(policy)) {
      // A worker has one push and one pull of a parcel unanswered.
      BOOST_TEST(transport->most_waiting(ps::Role::server) <= 2 * kWorkers * most_parcels + kFewMore);
      BOOST_TEST(transport->most_waiting(ps::Role::worker) <= 2 * all_parcels + kFewMore);
      BOOST_TEST(transport->delivered(ps::Role::server) >= 2 * kWorkers * all_parcels);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
