#include <boost/test/unit_test.hpp>

#include "tools/sim/replication.h"

using namespace troupe::sim;

BOOST_AUTO_TEST_SUITE(replication_simulation)

BOOST_AUTO_TEST_CASE(SeedsTakeOverOftenAndViolateNothing) {
  int64_t takeovers = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const ReplicationResult result = simulate_replication(seed);
    BOOST_TEST(!result.violation.has_value(), "seed " << seed << ": " << result.violation.value_or(""));
    takeovers += result.takeovers;
  }
  BOOST_TEST(takeovers > 60);
}

BOOST_AUTO_TEST_CASE(ASeedAlwaysGivesTheSameTakeOver) {
  for (const uint64_t seed : {1, 17, 99}) {
    const ReplicationResult first = simulate_replication(seed), second = simulate_replication(seed, 100);
    BOOST_TEST(first.hash == second.hash);
    BOOST_TEST(first.events == second.events);
  }
}

BOOST_AUTO_TEST_SUITE_END()
