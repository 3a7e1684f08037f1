#pragma once
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <troupe/ps/messages.h>

namespace troupe::sim {

/// One worker's part of one step of one slice, as it was stored.
struct Part {
  int64_t samples = 0;
  bool finite = true;
  std::vector<double> gradient;  ///< sum over the samples; empty where there are none
};

/// What a slice should hold, by step: first parameters plus the change of each step. Written to be read, with
/// doubles and without sharing anything with ps/param.
class ReferenceSlice {
 public:
  ReferenceSlice() = default;
  /// `first`: parameters of the whole layer to begin with.
  ReferenceSlice(const ps::Slice& slice, std::span<const float> first);
  /// `values`: of the slice, after so many updates.
  ReferenceSlice(const ps::Slice& slice, std::span<const float> values, int64_t updates);

  const ps::Slice& slice() const { return slice_; }

  /// Adds to step `step` -gradient x scale.
  void apply(ps::Step step, std::span<const double> gradient, double scale);
  /// What step `step` begins with: all changes of steps before it.
  std::vector<double> before(ps::Step step) const;
  const std::vector<double>& current() const { return current_; }
  int64_t updates() const { return updates_; }
  int64_t updates_before(ps::Step step) const;

  /// Steps that each worker has contributed, once each; false: it was there already.
  bool contribute(ps::WorkerId worker, ps::Step step) { return contributed_.insert({worker, step}).second; }
  bool has(ps::WorkerId worker, ps::Step step) const { return contributed_.count({worker, step}) > 0; }

  std::map<ps::Step, std::map<ps::WorkerId, Part>> pending;  ///< of sync steps that are not complete
  std::set<ps::Step> settled;                                ///< steps that are: sync, and all_reduce

 private:
  struct Change {
    std::vector<double> sum;
    int64_t updates = 0;
  };
  ps::Slice slice_;
  std::vector<double> initial_, current_;
  std::map<ps::Step, Change> changes_;
  std::set<std::pair<ps::WorkerId, ps::Step>> contributed_;
  int64_t updates_ = 0;
};

/// What the store of one server slot says, whoever serves it.
struct ReferenceServer {
  ps::Incarnation owner = 0;
  ps::Generation generation = 0;
  std::shared_ptr<const ps::Layout> layout;
  ps::Step base = 0;  ///< clocks count from here
  std::vector<ps::Incarnation> workers;
  std::map<ps::SliceId, ReferenceSlice> slices;
  /// A worker's newest read: for which step, and the updates it saw. Counts under ImmediateScale::staleness.
  std::map<std::pair<ps::WorkerId, ps::SliceId>, std::pair<ps::Step, int64_t>> reads;

  const ps::Policy& policy(const ps::Slice& slice) const { return layout->policies[slice.layer]; }
  /// The step that the slowest worker who is there owes; `from`: it is not before that.
  ps::Step slowest(ps::SliceId slice, ps::Step from = 0) const;
  /// Everybody who is there has contributed to this step.
  bool complete(const ReferenceSlice& slice, ps::Step step) const;
};

/// Empty where they agree, else the first difference: "element 3 is 4.5, should be 5".
std::string difference(std::span<const float> values, std::span<const double> expected);

}  // namespace troupe::sim
