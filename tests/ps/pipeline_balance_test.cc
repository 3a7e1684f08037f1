#include <boost/test/unit_test.hpp>

#include <troupe/kernels/nn/make_model.h>
#include <troupe/ps/pipeline/balance.h>
#include <troupe/ps/pipeline/pieces.h>

using namespace troupe;
using namespace troupe::ps;

BOOST_AUTO_TEST_SUITE(pipeline_balance)

namespace {

nn::Model mlp(std::vector<int64_t> hidden) {
  return nn::make_model({.kind = "mlp", .input = {32}, .classes = 32, .hidden = std::move(hidden)}).value();
}

StagePlan plan(const nn::Model& model, uint32_t stages, std::vector<int64_t> counts, const char* name = "1f1b",
               uint32_t chunks = 1) {
  ScheduleOptions options{.name = name, .stages = stages, .micro_batches = 4, .chunks = chunks};
  return plan_stages(model, std::make_shared<const Schedule>(make_schedule(options).value()), counts).value();
}

LayerProfile profile(const std::vector<std::string>& names, const std::vector<double>& seconds) {
  LayerProfile profile;
  for (size_t k = 0; k < names.size(); ++k) profile.layers.push_back({.name = names[k], .forward = seconds[k]});
  return profile;
}

}  // namespace

BOOST_AUTO_TEST_CASE(EqualStagesAreNotSpokenOf) {
  const nn::Model model = mlp({32, 32, 32});
  const std::vector<double> seconds{1.0, 1.05};
  BOOST_TEST(imbalance(estimated_costs(model), plan(model, 2, {2, 2}), seconds) == "");
}

BOOST_AUTO_TEST_CASE(AStageThatTakesLongerIsGivenFewerLayers) {
  const nn::Model model = mlp({32, 32, 32});
  const std::vector<double> seconds{3.0, 1.0};
  BOOST_TEST(
      imbalance(estimated_costs(model), plan(model, 2, {3, 1}), seconds) ==
      "the stages are unequal: stage 0 75 %, stage 1 25 % of the computing; parallel.cuts = [2, 2] would take about "
      "67 % of the slowest one's time");
}

BOOST_AUTO_TEST_CASE(WhereNoOtherCutIsBetterNothingIsSaid) {
  const nn::Model model = mlp({});
  const nn::Model two = mlp({32});
  const std::vector<double> seconds{3.0, 1.0};
  BOOST_TEST(imbalance(estimated_costs(two), plan(two, 2, {1, 1}), seconds) == "");
}

BOOST_AUTO_TEST_CASE(TheBetterCutIsOneThatTheModelAllows) {
  const nn::Model model =
      nn::make_model({.kind = "resnet", .input = {1, 8, 8}, .classes = 4, .channels = {8, 8}, .blocks = {2, 2}})
          .value();
  const auto layers = static_cast<int64_t>(model.layers().size());
  const std::vector<double> seconds{9.0, 1.0};
  const std::string said = imbalance(estimated_costs(model), plan(model, 2, {layers - 1, 1}), seconds);
  const size_t at = said.find("parallel.cuts = [");
  BOOST_REQUIRE(at != std::string::npos);
  const auto first = static_cast<size_t>(std::stoul(said.substr(at + 17)));
  BOOST_TEST(std::ranges::count(model.cuts(), first) == 1);
}

BOOST_AUTO_TEST_CASE(SeveralChunksAStageAreJudgedWithoutAnotherCut) {
  const nn::Model model = mlp({32, 32, 32});
  const std::vector<double> unequal{3.0, 1.0}, equal{1.0, 1.0};
  BOOST_TEST(imbalance(estimated_costs(model), plan(model, 2, {}, "zb-v", 2), unequal) ==
             "the stages are unequal: stage 0 75 %, stage 1 25 % of the computing");
  BOOST_TEST(imbalance(estimated_costs(model), plan(model, 2, {}, "zb-v", 2), equal) == "");
}

BOOST_AUTO_TEST_CASE(MeasuredTimesCutTheModelWhereWorkWouldNot) {
  const nn::Model model = mlp({32, 32, 32});
  const auto costs = measured_costs(model, profile({"fc1", "fc2", "fc3", "fc4"}, {5, 1, 2, 1}));
  BOOST_REQUIRE(costs);
  BOOST_TEST((plan(model, 2, {}).counts() == std::vector<int64_t>{2, 2}));
  BOOST_TEST((plan_stages(model, plan(model, 2, {}).schedule, {}, *costs)->counts() == std::vector<int64_t>{1, 3}));
  // Of stage 0's time fc1 has five parts of six: alone it takes 5 s, and the other three layers 4.
  const std::vector<double> seconds{6.0, 3.0};
  BOOST_TEST(
      imbalance(*costs, plan(model, 2, {2, 2}), seconds) ==
      "the stages are unequal: stage 0 67 %, stage 1 33 % of the computing; parallel.cuts = [1, 3] would take about "
      "83 % of the slowest one's time");
  BOOST_TEST(imbalance(estimated_costs(model), plan(model, 2, {2, 2}), seconds) == "");
}

BOOST_AUTO_TEST_CASE(AProfileOfAnotherModelIsRefusedAtTheFirstRowThatDiffers) {
  const nn::Model model = mlp({32, 32, 32});
  const auto said = [&](std::vector<std::string> names) {
    return measured_costs(model, profile(names, std::vector<double>(names.size(), 1))).error().message;
  };
  BOOST_TEST(said({"fc1", "conv2", "fc3", "fc4"}) ==
             "row 2 is of conv2, where this model has fc2: measure this config's model with troupe profile");
  BOOST_TEST(said({"fc1", "fc2"}).find("row 3 is of nothing, where this model has fc3") == 0u);
  BOOST_TEST(said({"fc1", "fc2", "fc3", "fc4", "fc5"}).find("row 5 is of fc5, where this model has nothing") == 0u);
}

BOOST_AUTO_TEST_CASE(ModelsAreCutByWorkAndNamedWhereTheyCannotBe) {
  const nn::Model model = mlp({64, 4, 4, 4});  // 32 x 64 is most of it
  const StagePlan balanced = plan(model, 2, {});
  BOOST_TEST((balanced.chunks == std::vector<LayerRange>{{0, 1}, {1, 5}}));
  BOOST_TEST((balanced.stage_of() == std::vector<uint32_t>{0, 1, 1, 1, 1}));
  const auto schedule = plan(model, 2, {}).schedule;
  for (const auto& [counts, text] :
       std::vector<std::pair<std::vector<int64_t>, std::string>>{{{5}, "1 entries for 2 parts"},
                                                                 {{0, 5}, "gives part 0 0 layers"},
                                                                 {{4, 4}, "8 up to there"},
                                                                 {{1, 2}, "gives out 3 of"}})
    BOOST_TEST(plan_stages(model, schedule, counts).error().message.find(text) != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
