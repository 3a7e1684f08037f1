#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include <troupe/ps/ids.h>

namespace troupe::ps {

/// How far each worker has come: the number of steps it has contributed, which is also the next step it owes.
/// Empty slots do not count.
class VectorClock {
 public:
  explicit VectorClock(size_t workers = 0, Step start = 0) : steps_(workers, start), present_(workers, true) {
    find_slowest();
  }
  /// Goes on from another's; all are present.
  explicit VectorClock(std::vector<Step> steps) : steps_(std::move(steps)), present_(steps_.size(), true) {
    find_slowest();
  }

  size_t size() const { return steps_.size(); }
  Step at(WorkerId worker) const { return steps_[worker]; }
  const std::vector<Step>& steps() const { return steps_; }
  bool present(WorkerId worker) const { return present_[worker]; }
  void set_present(WorkerId worker, bool present);
  /// Worker has contributed all steps before `step`.
  void advance(WorkerId worker, Step step);
  /// All clocks continue from `step`.
  void rebase(Step step);
  /// New slots start where the slowest worker present is (at 0 when nobody is), so that they hold nobody back
  /// further than it does.
  void resize(size_t workers);
  /// The slowest worker present; the largest Step when nobody is.
  Step slowest() const { return slowest_; }

 private:
  void find_slowest();

  std::vector<Step> steps_;
  std::vector<bool> present_;
  Step slowest_ = 0;
  size_t at_slowest_ = 0;  // how many are there: with a thousand workers the minimum is not sought at every step
};

}  // namespace troupe::ps
