#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe::nn {

/// Decides which training steps are submitted kernel by kernel, which are captured as they are submitted, and which are
/// replayed from a capture: pure, for StepGraphs.
///
/// A captured step reads and writes the addresses that it was captured with, and its kernels have its numbers. So a
/// step is known by everything that its kernels were given and that may change: the caller lists it as numbers (how
/// many samples, where the weights of each layer lie, the loss scale). A policy that changes, a layer that leaves a
/// device, a last short batch: each gives other numbers, and with them another capture or none.
///
///     first seen .. kWarmSteps times   run        libraries choose their kernels, memory grows to what is needed
///     then                             capture
///     then                             replay
///
/// kMostSteps different steps are kept (optimizer steps may write weights to two places in turn); the one that was used
/// longest ago goes for a new one. Whoever has captured kMostCaptures times for less than kReplaysWorth replays each
/// gives up, with the reason: then steps are run, for good.
class GraphChoice {
 public:
  static constexpr int kWarmSteps = 2;
  static constexpr size_t kMostSteps = 4;
  static constexpr int64_t kMostCaptures = 8, kReplaysWorth = 4;

  using Step = std::vector<uint64_t>;
  enum class Action : uint8_t { run, capture, replay };
  struct Choice {
    Action action = Action::run;
    size_t slot = 0;                ///< below kMostSteps: where the capture is kept
    bool drops = false;             ///< what the slot held is of another step
  };

  /// The next step's. After `capture` its caller says whether it worked: `captured`, or `give_up`.
  Choice next(const Step& step);
  void captured(size_t slot);
  /// The capture cannot be replayed any more: the step is warmed up and captured again.
  void invalidate(size_t slot);
  void give_up(std::string why);

  /// Why steps are run for good; empty while they are not.
  const std::string& why_not() const { return why_not_; }
  int64_t replays() const { return replays_; }
  int64_t captures() const { return captures_; }

 private:
  struct Slot {
    Step step;
    int seen = 0;
    bool is_captured = false;
    uint64_t used = 0;  ///< when
  };

  Slot& find(const Step& step, Choice& choice);

  std::vector<Slot> slots_;
  uint64_t now_ = 0;
  int64_t captures_ = 0, replays_ = 0;
  std::string why_not_;
};

}  // namespace troupe::nn
