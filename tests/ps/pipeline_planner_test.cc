#include <boost/test/unit_test.hpp>

#include <cmath>

#include <troupe/ps/pipeline/collective_cost.h>
#include <troupe/ps/pipeline/memory_cost.h>
#include <troupe/ps/pipeline/planner.h>
#include <troupe/ps/pipeline/search_plans.h>

using namespace troupe;
using namespace troupe::ps;
using boost::test_tools::tolerance;

BOOST_AUTO_TEST_SUITE(pipeline_planner)

namespace {

/// arXiv 2104.04473: P = 12 l h^2 (1 + 13/(12 h) + (V+s)/(12 l h)), with tied weights and learned positions.
double transformer_parameters(const TransformerShape& shape) {
  const auto l = static_cast<double>(shape.layers), h = static_cast<double>(shape.width);
  const auto s = static_cast<double>(shape.context), v = static_cast<double>(shape.vocabulary);
  return 12 * l * h * h * (1 + 13 / (12 * h) + (v + s) / (12 * l * h));
}

/// The same: 96 B s l h^2 (1 + s/(6 h) + V/(16 l h)) for a training step of `batch` samples with full recomputation.
double transformer_step_flops(const TransformerShape& shape, double batch) {
  const auto l = static_cast<double>(shape.layers), h = static_cast<double>(shape.width);
  const auto s = static_cast<double>(shape.context), v = static_cast<double>(shape.vocabulary);
  return 96 * batch * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h));
}

/// arXiv 2104.04473, table 1: A100, sequences of 2048, a vocabulary of 51,200.
struct Published {
  double billions;
  int64_t heads, width, layers;
  uint32_t tensor, stages, devices;
  int64_t batch;
  double tflops;  ///< a device

  TransformerShape shape() const { return {layers, width, heads, 2048, 51200}; }
  Composition composition() const {
    Composition c{.stages = stages, .tensor = tensor, .recompute = Recompute::full};
    c.replicas = devices / stages / tensor;
    c.micro_batches = static_cast<uint32_t>(batch / c.replicas);
    return c;
  }
  double step_s() const {
    return transformer_step_flops(shape(), static_cast<double>(batch)) / (tflops * 1e12 * devices);
  }
};

const std::vector<Published> kPublished = {{1.7, 24, 2304, 24, 1, 1, 32, 512, 137},
                                           {7.5, 32, 4096, 36, 4, 1, 128, 512, 142},
                                           {39.1, 64, 8192, 48, 8, 2, 512, 1536, 138},
                                           {145.6, 96, 12288, 80, 8, 8, 1536, 2304, 148},
                                           {529.6, 128, 20480, 105, 8, 35, 2520, 2520, 163}};

Hardware a100s(double efficiency) {
  return {.name = "A100",
          .devices = 2560,
          .devices_per_node = 8,
          .memory_gb = 80,
          .peak_tflops = 312,
          .efficiency = efficiency,
          .memory_gb_per_s = 2039,
          .link_gb_per_s = 300,
          .network_gb_per_s = 25,
          .latency_us = 10};
}

Plan planned(const PlanTask& task, const Composition& composition) {
  auto result = plan(task, composition);
  BOOST_REQUIRE_MESSAGE(result, (result ? "" : result.error().message));
  return *result;
}

double step_of(const Published& row, double efficiency) {
  return planned({.model = transformer_load(row.shape()), .hardware = a100s(efficiency)}, row.composition()).step_s;
}

/// The efficiency with which the first row takes as long as published.
double fitted() {
  double low = 0.1, high = 1;
  for (int k = 0; k < 40; ++k) {
    const double middle = (low + high) / 2;
    (step_of(kPublished[0], middle) > kPublished[0].step_s() ? low : high) = middle;
  }
  return low;
}

/// Eight equal layers, one second a pass and sample each.
PlanTask toy(int64_t devices = 8) {
  PlanTask task;
  task.model.name = "toy";
  LayerProfile profile;
  for (int k = 0; k < 8; ++k) {
    task.model.layers.push_back(
        {.name = cat("l", k), .parameters = 1e6, .whole_bytes = 1e6, .weight_bytes = 5e5, .output_bytes = 1e5});
    profile.layers.push_back({.name = cat("l", k), .forward = 1, .backward_input = 1, .backward_weight = 1});
  }
  task.measured = profile;
  task.hardware = {.name = "toys",
                   .devices = devices,
                   .devices_per_node = devices,
                   .memory_gb = 1,
                   .link_gb_per_s = 1e6,
                   .latency_us = 1e-6};
  return task;
}

std::string error_of(const PlanTask& task, const Composition& composition) {
  const auto result = plan(task, composition);
  return result ? "" : result.error().message;
}

}  // namespace

BOOST_AUTO_TEST_CASE(ParametersOfTheTableAreCounted) {
  for (const Published& row : kPublished) {
    BOOST_TEST(std::round(transformer_parameters(row.shape()) / 1e8) == std::round(row.billions * 10), row.billions);
    BOOST_TEST(transformer_load(row.shape()).parameters() == transformer_parameters(row.shape()), tolerance(1e-12));
  }
}

BOOST_AUTO_TEST_CASE(FlopsOfAStepAreTheFormulas) {
  for (const Published& row : kPublished) {
    const auto batch = static_cast<double>(row.batch);
    // Forward, forward again but for the head, and twice that back.
    const ModelLoad load = transformer_load(row.shape());
    const double head = load.layers.back().forward_flops;
    const double flops = batch * (4 * load.forward_flops() - head);
    BOOST_TEST(flops == transformer_step_flops(row.shape(), batch), tolerance(1e-12));
  }
}

BOOST_AUTO_TEST_CASE(StepTimesAreTheTablesAfterOneFit) {
  const double efficiency = fitted();
  BOOST_TEST(efficiency > 0.6);
  BOOST_TEST(efficiency < 0.8);
  for (const Published& row : kPublished) {
    const double ratio = step_of(row, efficiency) / row.step_s();
    BOOST_TEST_MESSAGE(row.billions << " billion: " << ratio);
    BOOST_TEST(std::abs(ratio - 1) < 0.15, row.billions << " billion: " << ratio);
  }
}

BOOST_AUTO_TEST_CASE(TheTablesCompositionsFit) {
  for (const Published& row : kPublished) {
    const Plan p = planned({.model = transformer_load(row.shape()), .hardware = a100s(0.69)}, row.composition());
    BOOST_TEST(p.fits, row.billions << " billion need " << p.memory.total() / 1e9 << " GB");
    BOOST_TEST(p.tflops_a_device ==
                   transformer_step_flops(row.shape(), static_cast<double>(row.batch)) / p.step_s / row.devices / 1e12,
               tolerance(1e-9));
  }
}

BOOST_AUTO_TEST_CASE(ActivationsOfALayerAreTheTables) {
  const double s = 2048, h = 4096, a = 32, b = 3, t = 8;
  const LayerLoad block = transformer_load({1, 4096, 32, 2048, 51200}).layers[1];
  const auto kept = [&](uint32_t tensor, bool sequence, Recompute recompute) {
    return kept_bytes(block, b, {.tensor = tensor, .recompute = recompute, .sequence_parallel = sequence});
  };
  const double sbh = s * b * h;
  BOOST_TEST(kept(1, false, Recompute::none) == sbh * (34 + 5 * a * s / h), tolerance(1e-12));
  BOOST_TEST(kept(8, false, Recompute::none) == sbh * (10 + 24 / t + 5 * a * s / (h * t)), tolerance(1e-12));
  BOOST_TEST(kept(8, true, Recompute::none) == sbh * (34 / t + 5 * a * s / (h * t)), tolerance(1e-12));
  BOOST_TEST(kept(8, true, Recompute::selective) == sbh * 34 / t, tolerance(1e-12));
  BOOST_TEST(kept(8, true, Recompute::full) == 2 * sbh, tolerance(1e-12));
}

BOOST_AUTO_TEST_CASE(ZeroShardsStateAsPublished) {
  const double n = 64;
  BOOST_TEST(state_bytes(0, n).sum() == 16.0);
  BOOST_TEST(state_bytes(1, n).sum() == 4 + 12 / n, tolerance(1e-12));
  BOOST_TEST(state_bytes(2, n).sum() == 2 + 14 / n, tolerance(1e-12));
  BOOST_TEST(state_bytes(3, n).sum() == 16 / n, tolerance(1e-12));
}

BOOST_AUTO_TEST_CASE(CollectivesTakeWhatTheirFormulasSay) {
  const double m = 1e9, b = 1e10;
  BOOST_TEST(all_reduce_s(m, 4, b) == 0.15, tolerance(1e-12));
  BOOST_TEST(all_reduce_s(m, 1, b) == 0.0);
  BOOST_TEST(reduce_scatter_s(m, 4, b) == 0.075, tolerance(1e-12));
  BOOST_TEST(broadcast_s(m, 4, b) == 0.1, tolerance(1e-12));
  BOOST_TEST(servers_apart_s(m, 8, 2, b) == 0.4, tolerance(1e-12));
  BOOST_TEST(servers_apart_s(m, 8, 16, b) == 0.1, tolerance(1e-12));
  BOOST_TEST(servers_everywhere_s(m, 8, 0, b) == all_reduce_s(m, 8, b), tolerance(1e-12));
  BOOST_TEST(servers_everywhere_s(m, 8, 8, b) == servers_apart_s(m, 8, 8, b), tolerance(1e-12));
  for (int k = 1; k < 8; ++k)
    BOOST_TEST(servers_everywhere_s(m, 8, k, b) < std::min(all_reduce_s(m, 8, b), servers_apart_s(m, 8, k, b)));
}

BOOST_AUTO_TEST_CASE(BothBubblesAreTheClosedForms) {
  const Plan p = planned(toy(), {.stages = 4, .micro_batches = 8});
  BOOST_TEST(p.bubble_of_ideal == 3.0 / 8, tolerance(1e-6));
  BOOST_TEST(p.bubble_of_total == 3.0 / 11, tolerance(1e-6));
  BOOST_TEST(p.step_s == 11 * 6.0, tolerance(1e-3));
  double sum = 0;
  for (const TimeShare& share : p.shares) sum += share.seconds;
  BOOST_TEST(sum == p.step_s, tolerance(1e-9));
  BOOST_TEST(p.limit() == "computation as measured");
}

BOOST_AUTO_TEST_CASE(MemoryIsStateAndTheSchedulesPeak) {
  const Plan p = planned(toy(), {.stages = 4, .micro_batch = 2, .micro_batches = 8});
  BOOST_TEST(p.memory_stage == 0u);
  BOOST_TEST(p.memory.weights == 2e6 * 4, tolerance(1e-9));
  BOOST_TEST(p.memory.weights + p.memory.gradients + p.memory.optimizer == 2e6 * 16, tolerance(1e-9));
  BOOST_TEST(p.memory.activations == 4 * 2 * 2e6, tolerance(1e-9));  // micro-batches, samples, layers' bytes
  PlanTask small = toy();
  small.hardware.memory_gb = p.memory.total() / 1e9 * 0.999;
  const Plan too_much = planned(small, p.composition);
  BOOST_TEST(!too_much.fits);
  BOOST_TEST(too_much.limit() == "memory");
}

BOOST_AUTO_TEST_CASE(GivenCountsDecideTheCut) {
  PlanTask task = toy();
  task.counts = {1, 7};
  const Plan p = planned(task, {.stages = 2, .micro_batches = 4});
  BOOST_TEST(p.cut.stages[1].first == 1u);
  task.counts = {1, 6};
  BOOST_TEST(error_of(task, {.stages = 2}) == "the stages' counts add up to 7 of the model's 8 layers");
  task.counts = {1, 6, 1};
  BOOST_TEST(error_of(task, {.stages = 2}) == "3 counts of layers for 2 chunks");
}

BOOST_AUTO_TEST_CASE(ReplicasHideWhatTheyExchangeBehindBackwards) {
  PlanTask task = toy();
  task.hardware.link_gb_per_s = 4e-3;  // a second for 4e6 bytes
  const Plan one = planned(task, {.replicas = 1, .stages = 1, .micro_batches = 2});
  const Plan two = planned(task, {.replicas = 2, .stages = 1, .micro_batches = 2});
  BOOST_TEST(two.gradient_bytes == 8e6 * 4);
  BOOST_TEST(two.gradient_exchange_s == 8.0, tolerance(1e-6));
  BOOST_TEST(two.step_s - one.step_s == 8.0, tolerance(1e-3));  // one chunk has nothing to hide behind
  const Plan v = planned(task, {.replicas = 2, .stages = 1, .chunks = 2, .schedule = "zb-v", .micro_batches = 1});
  const Plan alone = planned(task, {.replicas = 1, .stages = 1, .chunks = 2, .schedule = "zb-v", .micro_batches = 1});
  BOOST_TEST(v.step_s - alone.step_s == 4.0, tolerance(1e-2));
}

BOOST_AUTO_TEST_CASE(SearchFindsTheFastestThatFits) {
  const auto best = search_plans(toy(), 64, 5);
  BOOST_REQUIRE_MESSAGE(best, (best ? "" : best.error().message));
  BOOST_TEST(best->size() == 5u);
  // 64 samples of 24 seconds on 8 devices: without a bubble, and with nothing to exchange worth speaking of.
  BOOST_TEST(best->front().step_s == 64 * 24 / 8.0, tolerance(1e-4));
  for (size_t k = 1; k < best->size(); ++k) BOOST_TEST((*best)[k - 1].step_s <= (*best)[k].step_s);
}

BOOST_AUTO_TEST_CASE(SearchTradesTimeForMemory) {
  PlanTask tight = toy();
  const auto free = search_plans(tight, 64, 1);
  tight.hardware.memory_gb = 0.0185;  // a layer's weights and their state are 0.016
  const auto best = search_plans(tight, 64, 1);
  BOOST_REQUIRE_MESSAGE(best, (best ? "" : best.error().message));
  BOOST_TEST(best->front().fits);
  BOOST_TEST(best->front().memory.total() <= 0.0185e9);
  BOOST_TEST(best->front().step_s > free->front().step_s);
}

BOOST_AUTO_TEST_CASE(WhenNothingFitsTheNearestIsNamed) {
  PlanTask tight = toy();
  tight.hardware.memory_gb = 1e-6;
  const auto none = search_plans(tight, 64, 1);
  BOOST_REQUIRE(!none);
  BOOST_TEST(none.error().message.starts_with("nothing fits: of all compositions of 8 devices, "),
             none.error().message);
  const auto odd = search_plans(toy(7), 1, 1);
  BOOST_TEST(odd.has_value());  // seven stages of one sample
}

BOOST_AUTO_TEST_CASE(AModelOf175BillionParametersIsPlannedOn1024Devices) {
  Hardware cluster = a100s(0.69);
  cluster.devices = 1024;
  const auto best =
      search_plans({.model = transformer_load({96, 12288, 96, 2048, 51200}), .hardware = cluster}, 1536, 3);
  BOOST_REQUIRE_MESSAGE(best, (best ? "" : best.error().message));
  BOOST_TEST(best->front().composition.devices() == 1024u);
  BOOST_TEST(best->front().tflops_a_device < 312 * 0.69);
}

BOOST_AUTO_TEST_CASE(WhatCannotBeIsRefused) {
  BOOST_TEST(error_of(toy(), {.stages = 9}).find("needs 9 devices, toys has 8") != std::string::npos);
  BOOST_TEST(error_of(toy(16), {.stages = 16}) ==
             "16 stages are more than the model's 8 layers; a stage needs at least one");
  BOOST_TEST(error_of(toy(), {.tensor = 2}) ==
             "tensor = 2: only a transformer's matrix products are split, this is toy");
  BOOST_TEST(error_of(toy(), {.stages = 4, .chunks = 2, .schedule = "interleaved", .micro_batches = 6})
                 .find("no multiple of 4 stages") != std::string::npos);
  const PlanTask gpt{.model = transformer_load({4, 128, 6, 128, 256}), .hardware = a100s(0.5)};
  BOOST_TEST(error_of(gpt, {.tensor = 4}) == "tensor = 4 does not divide the model's 6 heads of attention");
  BOOST_TEST(error_of(gpt, {.tensor = 16}).starts_with("tensor = 16"));
}

BOOST_AUTO_TEST_SUITE_END()
