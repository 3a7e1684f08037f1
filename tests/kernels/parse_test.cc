#include <boost/test/unit_test.hpp>

#include <troupe/kernels/base/parse.h>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(parse)

BOOST_AUTO_TEST_CASE(ANumberHasOneSign) {
  BOOST_TEST((number_from<int64_t>("5") == 5));
  BOOST_TEST((number_from<int64_t>("+5") == 5));
  BOOST_TEST((number_from<int64_t>("-5") == -5));
  BOOST_TEST((number_from<double>("+0.5") == 0.5));
  for (const char* text : {"+-5", "-+5", "++5", "--5", "+", "-", "", "+ 5", "5+"}) {
    BOOST_TEST(!number_from<int64_t>(text).has_value(), text);
    BOOST_TEST(!number_from<double>(text).has_value(), text);
  }
  BOOST_TEST(!number_from<uint64_t>("+-5").has_value());
  BOOST_TEST(!number_from<double>("+-inf").has_value());
}

BOOST_AUTO_TEST_SUITE_END()
