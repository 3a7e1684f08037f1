#include <boost/test/unit_test.hpp>

#include <tools/launch/nodelist.h>

using namespace troupe;
using namespace troupe::launch;

BOOST_AUTO_TEST_SUITE(nodelist)

namespace {

std::string expanded(std::string_view text) {
  const auto names = expand_nodelist(text);
  if (!names) return "refused: " + names.error().message;
  std::string all;
  for (const std::string& name : *names) all += (all.empty() ? "" : " ") + name;
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(EveryFormExpandsInItsOrder) {
  for (const auto& [text, names] : {
           std::pair("node1", "node1"),
           std::pair("a,b-1.example", "a b-1.example"),
           std::pair("n[1-3]", "n1 n2 n3"),
           std::pair("n[3,1]", "n3 n1"),
           std::pair("n[08-11]", "n08 n09 n10 n11"),
           std::pair("n[098-101,7]", "n098 n099 n100 n101 n7"),
           std::pair("r[1-2]n[01-02]", "r1n01 r1n02 r2n01 r2n02"),
           std::pair("gpu-[1-2]x,login,n[5]", "gpu-1x gpu-2x login n5"),
           std::pair("[1-2]", "1 2"),
       })
    BOOST_TEST(expanded(text) == names);
}

BOOST_AUTO_TEST_CASE(WhatDoesNotParseIsRefusedWithItsPlace) {
  for (const char* text :
       {"",     ",",     "a,", ",a",    "a,,b", "n[", "n[1",  "n[1-",    "n[]",   "n[1-2",  "n[2-1]",
        "n[a]", "n[1,]", "n]", "n[1]]", "a b",  "-a", "a,-b", "n[1--2]", "n[-1]", "n[[1]]", "n[99999999999999999999]"})
    BOOST_TEST(expanded(text).starts_with("refused: nodelist \""), text << " gave " << expanded(text));
  BOOST_TEST(expanded("n[2-1]") == "refused: nodelist \"n[2-1]\", character 6: this range runs backwards");
}

BOOST_AUTO_TEST_CASE(AListOfTooManyTakesNoMemory) {
  for (const char* text : {"n[0-999999999]", "n[0-999]m[0-999]", "n[0-65535],m", "n[0-999999999999999999]"})
    BOOST_TEST(expanded(text).ends_with("stands for more than 65536 hosts"), text);
  BOOST_TEST(!expand_nodelist("[0-65535][1][1][1][1][1][1][1][1]"));
  BOOST_TEST(expand_nodelist("n[0-65535]")->size() == kMostNodes);
}

BOOST_AUTO_TEST_SUITE_END()
