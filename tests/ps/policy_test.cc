#include <boost/test/unit_test.hpp>

#include <troupe/ps/param/policy.h>

using namespace troupe;
using namespace troupe::ps;

BOOST_AUTO_TEST_SUITE(policy)

BOOST_AUTO_TEST_CASE(GlobsMatchStarsQuestionMarksAndClasses) {
  struct Case {
    const char *pattern, *text;
    bool matches;
  };
  const Case cases[] = {
      {"*", "fc1", true},        {"*", "", true},          {"", "", true},           {"", "a", false},
      {"fc?", "fc1", true},      {"fc?", "fc", false},     {"fc?", "fc12", false},   {"fc*", "fc", true},
      {"*_bn", "stem_bn", true}, {"*_bn", "stem", false},  {"a*b*c", "aXbYc", true}, {"a*b*c", "acb", false},
      {"fc[12]", "fc2", true},   {"fc[12]", "fc3", false}, {"fc[1-3]", "fc2", true}, {"fc[1-3]", "fc4", false},
      {"fc[1", "fc[1", true},    {"fc[1", "fc1", false},   {"[]a]", "]", true},      {"group[12]_*", "group2_x", true},
      {"*a", "aaaa", true},      {"FC1", "fc1", false},    {"fc1", "fc10", false},   {"[a-]", "-", true},
  };
  for (const auto& c : cases)
    BOOST_TEST(glob_matches(c.pattern, c.text) == c.matches, c.pattern << " on '" << c.text << "'");
}

BOOST_AUTO_TEST_CASE(TheFirstRuleThatMatchesDecides) {
  const auto policies = resolve_policies({"conv1", "fc1", "fc2"},
                                         {{"fc2", {Mode::async, 0}}, {"fc*", {Mode::ssp, 3}}, {"*", {Mode::sync, 0}}});
  BOOST_REQUIRE(policies.has_value());
  BOOST_TEST(describe((*policies)[0]) == "sync");
  BOOST_TEST(describe((*policies)[1]) == "ssp(3)");
  BOOST_TEST(describe((*policies)[2]) == "async");
}

BOOST_AUTO_TEST_CASE(ALayerWithoutARuleIsNamed) {
  const auto policies = resolve_policies({"conv1", "fc1"}, {{"fc*", {}}});
  BOOST_REQUIRE(!policies.has_value());
  BOOST_TEST(policies.error().message.find("conv1") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(ARuleThatMatchesNothingNamesItselfAndTheLayers) {
  const auto policies = resolve_policies({"conv1", "fc1"}, {{"fx1", {}}, {"*", {}}});
  BOOST_REQUIRE(!policies.has_value());
  BOOST_TEST(policies.error().message.find("fx1") != std::string::npos);
  BOOST_TEST(policies.error().message.find("conv1, fc1") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(NegativeStalenessIsAnError) {
  const auto policies = resolve_policies({"fc1"}, {{"*", {Mode::ssp, -1}}});
  BOOST_REQUIRE(!policies.has_value());
  BOOST_TEST(policies.error().message.find("-1") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
