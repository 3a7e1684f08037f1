// How many cores a thread may use.
#include <boost/test/unit_test.hpp>
#include <sched.h>

#include <thread>

#include <troupe/kernels/base/cores.h>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(cores)

BOOST_AUTO_TEST_CASE(AThreadThatIsBoundToOneCoreHasOne) {
  BOOST_TEST(usable_cores() >= 1u);
  unsigned bound = 0;
  int failed = -1;
  std::thread([&] {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(::sched_getcpu(), &set);
    failed = ::sched_setaffinity(0, sizeof set, &set);
    bound = usable_cores();
  }).join();
  BOOST_REQUIRE(failed == 0);
  BOOST_TEST(bound == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
