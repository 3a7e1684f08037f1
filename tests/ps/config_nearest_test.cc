#include <boost/test/unit_test.hpp>

#include <set>

#include <troupe/ps/config/explain.h>
#include <troupe/ps/config/nearest.h>
#include <troupe/ps/config/setting.h>

using namespace troupe::ps;

BOOST_AUTO_TEST_SUITE(config_nearest)

BOOST_AUTO_TEST_CASE(EditsAreCounted) {
  BOOST_TEST(edit_distance("", "abc") == 3u);
  BOOST_TEST(edit_distance("kitten", "sitting") == 3u);
  BOOST_TEST(edit_distance("trian", "train") == 1u);
}

BOOST_AUTO_TEST_CASE(NearSpellingsAreFound) {
  BOOST_TEST(nearest_key("train.epcohs") == "train.epochs");
  BOOST_TEST(nearest_key("trian.epochs") == "train.epochs");
  BOOST_TEST(nearest_key("optimizer.learningrate") == "optimizer.learning_rate");
  BOOST_TEST(nearest_key("train.batch") == "train.batch_size");
}

BOOST_AUTO_TEST_CASE(NamesOfOtherProgramsAreKnown) {
  BOOST_TEST(nearest_key("optimizer.lr") == "optimizer.learning_rate");
  BOOST_TEST(nearest_key("train.lr") == "optimizer.learning_rate");
  BOOST_TEST(nearest_key("parallel.num_workers") == "parallel.workers");
}

BOOST_AUTO_TEST_CASE(WhatIsFarFromEverythingIsNotGuessed) {
  BOOST_TEST(nearest_key("train.xyzzy") == "");
  BOOST_TEST(nearest_table("xyzzy") == "");
}

BOOST_AUTO_TEST_CASE(EverySettingIsDeclaredOnceAndExplained) {
  std::set<std::string> keys;
  for (const Setting& setting : all_settings()) {
    BOOST_TEST(keys.insert(setting.key).second, setting.key);
    BOOST_TEST(std::string(setting.why).ends_with("."), setting.key);
    const auto text = explain(setting.key);
    BOOST_REQUIRE_MESSAGE(text.has_value(), setting.key);
    BOOST_TEST(text->starts_with(setting.key), *text);
  }
}

BOOST_AUTO_TEST_CASE(AnExplanationTellsTypeRangeDefaultAndWays) {
  BOOST_TEST(*explain("train.epochs") ==
             "train.epochs: an integer (epochs), 0 or more; default 5\n"
             "    Passes over the training data; 0 trains until train.max_steps.\n"
             "    [train] epochs = 5  |  --set train.epochs=...  |  TROUPE_TRAIN__EPOCHS=...\n");
}

BOOST_AUTO_TEST_CASE(ATableIsExplainedWhole) {
  const auto text = explain("parallel");
  BOOST_REQUIRE(text.has_value());
  BOOST_TEST(text->find("parallel.servers") != std::string::npos);
  BOOST_TEST(text->find("train.epochs") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(AnUnknownKeyIsExplainedWithItsNearest) {
  BOOST_TEST(explain("train.epoch").error().message == "unknown key train.epoch; did you mean train.epochs?");
}

BOOST_AUTO_TEST_SUITE_END()
