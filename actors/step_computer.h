#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include <troupe/actors/reducer.h>
#include <troupe/actors/worker.h>
#include <troupe/kernels/base/trace.h>
#include <troupe/kernels/nn/gradient_measure.h>
#include <troupe/kernels/tensor/stream.h>
#include <troupe/ps/data/sampler.h>

namespace troupe {

/// What a worker's compute executor runs: the parts of its pieces of work, with the source of gradients, in the order
/// that WorkerCore gives them. For that executor's thread alone. Throws what the source throws.
class StepComputer {
 public:
  explicit StepComputer(const WorkerParts& parts);

  void prepare(const ps::Work& work);
  RowsDone find_rows(const ps::Work& work);
  void forward(const ps::Forward& task, const std::vector<Tensor>& weights);
  /// Each gradient is reported as it comes, or reduced with its bucket where the task names one (then `reducer` is not
  /// null); BackwardDone is the last that is reported.
  void backward(const ps::Backward& task, const std::vector<Tensor>& weights, Reducer* reducer,
                const Reducer::Report& report);
  EvaluateDone evaluate(const ps::Evaluate& task, const std::vector<Tensor>& weights);

 private:
  using Clock = std::chrono::steady_clock;
  class Outlet;

  /// The piece of work that was begun last.
  struct Running {
    uint64_t work = 0;  ///< its number
    std::vector<uint32_t> samples;
    Clock::duration computing{};
  };

  Batch batch(const ps::Work& work);
  /// As long as a device that is slower by so much would take.
  void slow_down();

  const std::shared_ptr<GradientSource> source_;
  MeasuringSource* const measuring_;  ///< `source_`, where it is one
  ps::Sampler sampler_;
  const uint64_t seed_;
  const uint32_t worker_;
  const SlowDown slow_down_;
  const bool measure_norm_;
  const Track track_;
  Stream stream_;
  Running running_;
  Clock::time_point idle_since_ = Clock::now();
};

}  // namespace troupe
