#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <numeric>

#include <troupe/kernels/base/random.h>
#include <troupe/kernels/base/text.h>
#include <troupe/ps/pipeline/partition.h>

using namespace troupe;
using namespace troupe::ps;
using boost::test_tools::tolerance;

BOOST_AUTO_TEST_SUITE(pipeline_partition)

namespace {

std::vector<LayerCost> fixture(const std::string& name) {
  const auto profile = read_profile_csv(std::string(TROUPE_FIXTURES) + "/pipedream/" + name + ".csv");
  BOOST_REQUIRE_MESSAGE(profile, (profile ? "" : profile.error().message));
  return profile->layers;
}

double total(const std::vector<LayerCost>& layers) {
  return std::accumulate(layers.begin(), layers.end(), 0.0,
                         [](double sum, const LayerCost& l) { return sum + l.time(); });
}

/// "0-14 x3, 15-39 x1"
std::string text(const Partition& partition) {
  std::string text;
  for (const StageRange& stage : partition.stages)
    text += cat(text.empty() ? "" : ", ", stage.first, '-', stage.last - 1, " x", stage.replicas);
  return text;
}

std::vector<LayerCost> random_layers(Random& random, size_t count) {
  std::vector<LayerCost> layers(count);
  for (LayerCost& layer : layers) {
    layer.forward = random.uniform(), layer.backward_input = random.uniform();
    layer.parameter_bytes = 1e9 * random.uniform();
    layer.output_bytes = 4e8 * random.uniform();
  }
  return layers;
}

/// The time of layers from `first` on in the best way, tried out one by one.
double by_brute_force(const std::vector<LayerCost>& layers, size_t first, uint32_t devices,
                      const PartitionOptions& options) {
  double best = 1e99, time = 0, bytes = 0;
  for (size_t last = first + 1; last <= layers.size(); ++last) {
    time += layers[last - 1].time(), bytes += layers[last - 1].parameter_bytes;
    for (uint32_t r = 1; r <= (options.replicate ? devices : 1); ++r) {
      const double stage = (time + 4.0 * (r - 1) / r * bytes / options.bytes_per_s) / r;
      if (last == layers.size() && r == devices) best = std::min(best, stage);
      if (last == layers.size() || r == devices) continue;
      const double transfer = options.count_transfers ? 2 * layers[last - 1].output_bytes / options.bytes_per_s : 0;
      best = std::min(best, std::max({stage, transfer, by_brute_force(layers, last, devices - r, options)}));
    }
  }
  return best;
}

template <class T>
std::string error_of(const Result<T>& result) {
  return result ? "" : result.error().message;
}

}  // namespace

BOOST_AUTO_TEST_CASE(Vgg16OnFourDevicesIsCutAsPublished) {
  const auto layers = fixture("vgg16");
  const auto cut = partition(layers, {.devices = 4, .replicate = true, .count_transfers = false});
  BOOST_REQUIRE(cut);
  BOOST_TEST(text(*cut) == "0-14 x3, 15-39 x1");
  BOOST_TEST(cut->time == 0.175732624, tolerance(1e-9));
  BOOST_TEST(total(layers) / cut->time == 3.83, tolerance(0.005 / 3.83));
}

BOOST_AUTO_TEST_CASE(AlexnetOnFourDevicesIsCutAsPublished) {
  const auto layers = fixture("alexnet");
  const auto cut = partition(layers, {.devices = 4, .replicate = true, .count_transfers = false});
  BOOST_REQUIRE(cut);
  BOOST_TEST(text(*cut) == "0-5 x2, 6-8 x1, 9-21 x1");
  BOOST_TEST(cut->time == 0.023165752, tolerance(1e-9));
  BOOST_TEST(total(layers) / cut->time == 3.68, tolerance(0.005 / 3.68));
}

BOOST_AUTO_TEST_CASE(AlexnetWithoutReplicationIsCutAsPublished) {
  const auto layers = fixture("alexnet");
  const auto cut = partition(layers, {.devices = 4, .count_transfers = false});
  BOOST_REQUIRE(cut);
  BOOST_TEST(cut->stages.size() == 4u);
  BOOST_TEST(cut->time == 0.028721, tolerance(1e-9));
  // Layer 0 alone decides, so that there are several best cuts; the published one is among them.
  const auto published = partition_by_counts(layers, std::vector<int64_t>{1, 7, 4, 10}, {.count_transfers = false});
  BOOST_REQUIRE(published);
  BOOST_TEST(text(*published) == "0-0 x1, 1-7 x1, 8-11 x1, 12-21 x1");
  BOOST_TEST(published->time == cut->time, tolerance(1e-12));
  BOOST_TEST(total(layers) / cut->time == 2.97, tolerance(0.005 / 2.97));
}

BOOST_AUTO_TEST_CASE(EqualsBruteForce) {
  Random random(3);
  for (size_t count = 1; count <= 12; ++count)
    for (uint32_t devices = 1; devices <= 4; ++devices)
      for (const bool replicate : {false, true})
        for (const bool transfers : {false, true}) {
          if (!replicate && devices > count) continue;
          const auto layers = random_layers(random, count);
          const PartitionOptions options{devices, replicate, 1e9, transfers};
          const auto cut = partition(layers, options);
          BOOST_REQUIRE(cut);
          BOOST_TEST(cut->time == by_brute_force(layers, 0, devices, options), tolerance(1e-12));
        }
}

BOOST_AUTO_TEST_CASE(NoStageIsEmptyEvenWhereLayersCostNothing) {
  for (size_t count = 1; count <= 9; ++count)
    for (uint32_t stages = 1; stages <= count; ++stages) {
      std::vector<LayerCost> layers(count);
      layers.back().forward = 1;
      const auto cut = partition(layers, {.devices = stages});
      BOOST_REQUIRE(cut);
      BOOST_TEST(cut->stages.size() == stages);
      size_t first = 0;
      for (const StageRange& stage : cut->stages) {
        BOOST_TEST(stage.first == first);
        BOOST_TEST(stage.last > stage.first);
        first = stage.last;
      }
      BOOST_TEST(first == count);
    }
}

BOOST_AUTO_TEST_CASE(MoreStagesThanLayersAreRefused) {
  BOOST_TEST(error_of(partition(std::vector<LayerCost>(3), {.devices = 4})) ==
             "4 stages are more than the model's 3 layers; a stage needs at least one");
}

BOOST_AUTO_TEST_CASE(ExplicitCountsAreTaken) {
  std::vector<LayerCost> layers(6);
  for (LayerCost& layer : layers) layer.forward = 1;
  const auto by = partition_by_counts(layers, std::vector<int64_t>{1, 3, 2}, {});
  BOOST_REQUIRE(by);
  BOOST_TEST(text(*by) == "0-0 x1, 1-3 x1, 4-5 x1");
  BOOST_TEST(by->time == 3.0);
  layers[1].layers = 5;  // a block that cannot be cut
  BOOST_TEST(layer_counts(layers, *by) == (std::vector<int64_t>{1, 7, 2}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(CountsThatDoNotFitAreRefused) {
  const std::vector<LayerCost> layers(6);
  const auto by = [&](std::vector<int64_t> counts) { return error_of(partition_by_counts(layers, counts, {})); };
  BOOST_TEST(by({3, 0, 3}) == "stage 1 has 0 layers; at least one is needed");
  BOOST_TEST(by({3, 4}) == "stage 1 with 4 layers ends beyond the model's 6 layers");
  BOOST_TEST(by({3, 2}) == "the stages' counts add up to 5 of the model's 6 layers");
}

BOOST_AUTO_TEST_CASE(ABetterCutIsFoundWhenAStageIsMeasuredSlow) {
  std::vector<LayerCost> layers(8);
  for (LayerCost& layer : layers) layer.forward = 1;
  const auto current = partition(layers, {.devices = 2});
  BOOST_REQUIRE(current);
  BOOST_TEST(!better_partition(layers, *current, std::vector<double>{4.1, 4}, 0.1).has_value());
  const auto better = better_partition(layers, *current, std::vector<double>{8, 4}, 0.1);
  BOOST_REQUIRE(better.has_value());
  BOOST_TEST(text(*better) == "0-2 x1, 3-7 x1");
  BOOST_TEST(better->time == 6.0);
}

BOOST_AUTO_TEST_CASE(AProfileGoesThereAndBack) {
  LayerProfile profile{.device = "a CPU", .micro_batch = 16};
  profile.layers = {{"fc1", 1, 0.1, 1e-9, 3, 4, 5, 6, 7}, {"block", 4, 1.0 / 3, 0, 0, 1e12, 0, 0}};
  const auto back = parse_profile_csv(profile_csv(profile), "p.csv");
  BOOST_REQUIRE_MESSAGE(back, error_of(back));
  BOOST_TEST(back->micro_batch == 16);
  BOOST_TEST(back->device == "a CPU");
  BOOST_TEST(profile_csv(*back) == profile_csv(profile));
}

BOOST_AUTO_TEST_CASE(ABadProfileIsRefusedWithItsPlace) {
  const std::string head =
      "layer,layers,forward_s,backward_input_s,backward_weight_s,output_bytes,kept_bytes,kept_input_bytes,"
      "parameter_bytes\n";
  const auto error = [](const std::string& text) { return error_of(parse_profile_csv(text, "p.csv")); };
  BOOST_TEST(error("fc1,1,1,2,3,4,5,6,7\n").starts_with("p.csv:1: the header should be"));
  BOOST_TEST(error(head + "fc1,1,2\n").starts_with("p.csv:2: this line has 3 columns, not the 9"));
  BOOST_TEST(error(head + "fc1,1,1,2,3,-4,5,6,7\n") == "p.csv:2: output_bytes is '-4'; a number from 0 is needed");
  BOOST_TEST(error(head + "fc1,1,inf,2,3,4,5,6,7\n") == "p.csv:2: forward_s is 'inf'; a number from 0 is needed");
  BOOST_TEST(error(head + "fc1,0,1,2,3,4,5,6,7\n") == "p.csv:2: layers is '0'; a number from 1 is needed");
  BOOST_TEST(error("# micro_batch 0\n" + head).starts_with("p.csv:1: micro_batch is no number from 1"));
  BOOST_TEST(error(head).starts_with("p.csv holds no layers"));
}

BOOST_AUTO_TEST_SUITE_END()
