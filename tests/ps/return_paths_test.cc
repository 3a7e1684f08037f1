#include <boost/test/unit_test.hpp>

#include <troupe/ps/transport/internal/return_paths.h>

using namespace troupe::ps;

BOOST_AUTO_TEST_SUITE(return_paths)

namespace {

constexpr Endpoint client(uint32_t index) { return {Role::client, index, 1}; }

}  // namespace

BOOST_AUTO_TEST_CASE(TheLastThatWereHeardOfAreKnown) {
  ReturnPaths paths(2);
  paths.learn(client(1), "one");
  paths.learn(client(2), "two");
  paths.learn(client(1), "one again");
  paths.learn(client(3), "three");
  BOOST_TEST(paths.size() == 2u);
  BOOST_TEST(paths.to(client(1)) == "one again");
  BOOST_TEST(paths.to(client(2)) == "");
  BOOST_TEST(paths.to(client(3)) == "three");
}

BOOST_AUTO_TEST_SUITE_END()
