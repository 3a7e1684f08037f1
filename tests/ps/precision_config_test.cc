#include <boost/test/unit_test.hpp>

#include <troupe/ps/config/explain.h>
#include <troupe/ps/config/load.h>
#include <troupe/ps/config/resolved.h>

using namespace troupe;
using namespace troupe::ps;

BOOST_AUTO_TEST_SUITE(precision_config)

namespace {

Result<LoadedConfig> loaded(const std::string& text, std::vector<std::string> sets = {}) {
  return load_config({"x.toml", text, {}, std::move(sets)});
}

std::string error_of(const std::string& text) {
  const auto config = loaded(text);
  return config ? "(no error)" : config.error().message;
}

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

LossScaling scaling_of(const std::string& text) { return loss_scaling(loaded(text).value().config.precision); }

}  // namespace

BOOST_AUTO_TEST_CASE(ByDefaultNothingIsHalvedNorScaled) {
  const RunConfig config;
  BOOST_TEST((storage_type(config.precision) == DType::f32));
  BOOST_TEST(!loss_scaling(config.precision).dynamic);
  BOOST_TEST(loss_scaling(config.precision).initial == 1);
}

BOOST_AUTO_TEST_CASE(ActivationsAreOneOfThreeTypes) {
  for (const auto& [name, dtype] : {std::pair{"f32", DType::f32}, {"bf16", DType::bf16}, {"f16", DType::f16}})
    BOOST_TEST((storage_type(loaded(cat("precision.activations = \"", name, "\""))->config.precision) == dtype), name);
  BOOST_TEST(holds(error_of("precision.activations = \"fp8\""), "must be one of f32, bf16, f16"));
}

BOOST_AUTO_TEST_CASE(ADynamicScaleHasTheDefaultsOfPyTorch) {
  const LossScaling scaling = scaling_of("precision.loss_scale = \"dynamic\"");
  BOOST_TEST(scaling.dynamic);
  BOOST_TEST(scaling.initial == 65536);
  BOOST_TEST(scaling.growth == 2);
  BOOST_TEST(scaling.interval == 2000);
  BOOST_TEST(scaling.backoff == 0.5);
  BOOST_TEST(scaling.least == 1);
}

BOOST_AUTO_TEST_CASE(ANumberIsAFixedScaleHoweverItIsWritten) {
  for (const char* text : {"1024", "1024.0", "\"1024\""}) {
    const LossScaling scaling = scaling_of(cat("precision.loss_scale = ", text));
    BOOST_TEST(scaling.initial == 1024, text);
    BOOST_TEST(!scaling.dynamic);
  }
  BOOST_TEST(loss_scaling(loaded("", {"precision.loss_scale=8"})->config.precision).initial == 8);
}

BOOST_AUTO_TEST_CASE(AResolvedConfigSaysTheSameAgain) {
  const std::string text = resolved_toml(loaded("precision.loss_scale = 1024")->config);
  BOOST_TEST(holds(text, "loss_scale = \"1024.0\"\n"));
  BOOST_TEST(resolved_toml(loaded(text)->config) == text);
}

BOOST_AUTO_TEST_CASE(ValuesThatMeanNothingAreRefused) {
  const char* kinds = "must be one of none, dynamic, or a number, 1 or more";
  for (const auto& [text, said] : {std::pair{"loss_scale = \"sometimes\"", kinds},
                                   {"loss_scale = 0.5", "must be 1 or more"},
                                   {"loss_scale = nan", "must be 1 or more"},
                                   {"loss_scale = true", "takes one of none, dynamic, or a number, 1 or more, not"},
                                   {"backoff_factor = 1", "must be at least 0.001 and below 1"},
                                   {"growth_factor = 0.5", "must be 1 or more"},
                                   {"growth_interval = 0", "must be 1 or more"}})
    BOOST_TEST(holds(error_of(cat("[precision]\n", text)), said), error_of(cat("[precision]\n", text)));
}

BOOST_AUTO_TEST_CASE(ADynamicScaleNeedsLayersThatWaitForAll) {
  const std::string text = "precision.loss_scale = \"dynamic\"\n[[update]]\nlayers = \"fc2\"\nmode = \"async\"\n"
                           "[[update]]\nlayers = \"*\"\nmode = \"sync\"\n";
  const std::string error = error_of(text);
  BOOST_TEST(holds(error,
                   "precision.loss_scale = \"dynamic\" (x.toml:1) is a decision of all workers on each step, and "
                   "[[update]] table 1"),
             error);
  BOOST_TEST(holds(error, "has mode async, whose pushes wait for none"), error);
}

BOOST_AUTO_TEST_CASE(ItDoesNotBeginBelowTheLeast) {
  BOOST_TEST(holds(error_of("precision.loss_scale = \"dynamic\"\nprecision.min_scale = 131072"),
                   "precision.init_scale = 65536.0 (default) is below precision.min_scale = 131072.0 (x.toml:2)"));
}

BOOST_AUTO_TEST_CASE(WhatADynamicScaleAloneReadsIsToldToHaveNoEffect) {
  const auto config = loaded("precision.growth_interval = 5");
  BOOST_TEST_REQUIRE(config->warnings.size() == 1u);
  BOOST_TEST(holds(config->warnings[0],
                   "precision.growth_interval = 5 (x.toml:1) has no effect with precision.loss_scale"));
}

BOOST_AUTO_TEST_CASE(EverySettingIsExplained) {
  const std::string text = explain("precision").value();
  for (const char* key : {"activations", "loss_scale", "init_scale", "growth_factor", "growth_interval",
                          "backoff_factor", "min_scale"})
    BOOST_TEST(holds(text, key), key);
}

BOOST_AUTO_TEST_SUITE_END()
