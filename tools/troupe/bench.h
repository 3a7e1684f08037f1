#pragma once
#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <troupe/actors/run.h>
#include <troupe/kernels/nn/gradient_source.h>

#include "commands.h"

/// What the benchmarks share: timing, and runs that are timed. All print ratios of things measured in turn in one
/// process, because absolute figures drift with what else the machine does.

/// One function a benchmark, one file a function; as in commands.h.
void add_bench_overhead(CLI::App& bench, int& exit_code);
void add_bench_push(CLI::App& bench, int& exit_code);
void add_bench_pull(CLI::App& bench, int& exit_code);
void add_bench_many(CLI::App& bench, int& exit_code);
void add_bench_policies(CLI::App& bench, int& exit_code);
void add_bench_scaling(CLI::App& bench, int& exit_code);
void add_bench_network(CLI::App& bench, int& exit_code);
void add_bench_gemm(CLI::App& bench, int& exit_code);
void add_bench_ops(CLI::App& bench, int& exit_code);
void add_bench_h2d(CLI::App& bench, int& exit_code);
void add_bench_all_reduce(CLI::App& bench, int& exit_code);
void add_bench_overlap(CLI::App& bench, int& exit_code);
void add_bench_step(CLI::App& bench, int& exit_code);

/// Seconds on the monotonic clock.
double now_s();
/// Seconds that all threads of this process have computed.
double cpu_s();
double median(std::vector<double> values);

/// Runs all of `measure` in turn, `repetitions` times; what they returned, by measure.
std::vector<std::vector<double>> alternate(int repetitions, const std::vector<std::function<double()>>& measure);

/// "overhead 3.1 %, target at most 5 %: met".
std::string verdict(const std::string& what, double value, double target, bool at_least, const std::string& unit);

/// The steady speed of a run: of `steps` steps after `warm_steps` that are not counted.
struct Timing {
  int64_t warm_steps = 20;
  int64_t steps = 200;
};
struct Speed {
  double samples_per_second = 0;
  double cpu_s_a_step = 0;  ///< computed by all threads
  double wait_share = 0;    ///< of the workers' time: waiting for weights
  troupe::ps::RunResult result;
};
/// Trains without tests and checkpoints. Throws std::runtime_error where the run fails.
Speed measure_speed(troupe::ClusterParts parts, const Timing& timing);

/// The parts of the run that a config describes, without its folder, metrics and checkpoints. They share one data set
/// and may be used often.
troupe::Result<troupe::ClusterParts> parts_of(const troupe::ps::RunConfig& config);

/// A source that computes nothing: every step takes `step_time` of sleep and gives the same gradients.
class SyntheticSource final : public troupe::GradientSource {
 public:
  using WeightsSeen = std::function<void(std::span<const troupe::Tensor>)>;

  struct Options {
    std::chrono::microseconds step_time{0};
    bool fresh = false;        ///< every step's gradients in memory of their own, as an all-reduce sums in place
    WeightsSeen weights_seen;  ///< called in every backward pass, with what the worker holds
  };
  SyntheticSource(std::vector<troupe::LayerSpec> layers, std::vector<troupe::Tensor> gradients, Options options);

  const std::vector<troupe::LayerSpec>& layers() const override { return layers_; }
  void initialize(size_t layer, uint64_t seed, std::span<float> values) override;
  troupe::StepStats backward(const troupe::Batch& batch, std::span<const troupe::Tensor> weights,
                             const GradientReady& ready) override;
  troupe::StepStats evaluate(std::span<const uint32_t>, std::span<const troupe::Tensor>) override { return {}; }
  int64_t train_samples() const override { return int64_t{1} << 30; }
  int64_t test_samples() const override { return 0; }

 private:
  std::vector<troupe::LayerSpec> layers_;
  std::vector<troupe::Tensor> gradients_;
  Options options_;
};

/// `count` layers of `elements` parameters each, and one gradient for each of them.
std::vector<troupe::LayerSpec> synthetic_layers(size_t count, int64_t elements);
std::vector<troupe::Tensor> synthetic_gradients(const std::vector<troupe::LayerSpec>& layers);

/// A run of synthetic sources under one policy, plain SGD: `workers` samples a step, one each.
troupe::ClusterParts synthetic_parts(size_t workers, uint32_t servers, troupe::ps::Policy policy,
                                     const std::vector<troupe::LayerSpec>& layers, std::chrono::microseconds step_time);
