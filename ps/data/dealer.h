#pragma once
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <troupe/kernels/base/result.h>
#include <troupe/ps/ids.h>
#include <troupe/ps/messages.h>

namespace troupe::ps {

struct DealerOptions {
  int64_t train_samples = 0;
  int64_t epochs = 1;        ///< 0: only `max_steps` ends the run
  int64_t max_steps = 0;     ///< 0: only `epochs` ends the run; with both whichever comes first
  int64_t global_batch = 1;  ///< samples of one step of all workers
  /// By slot: its size is the number of workers, its sum the global batch. Where several workers make up a replica
  /// (Layout::stages) each of them has the replica's batch, which counts once.
  std::vector<int64_t> worker_batch;
  int64_t stages = 1;        ///< workers of a replica, all of which get the same work
  bool vacancies = false;    ///< a batch of 0 is a slot that nobody fills now; else it is an error
  bool lockstep = true;  ///< Layout::lockstep()
};

/// Equal parts; what does not divide goes to the lower ranks.
std::vector<int64_t> equal_split(int64_t global_batch, int64_t workers);

/// What a checkpoint keeps of a dealer. It says nothing of workers, so that any number of them can go on:
/// every sample before (epoch, begin) has been trained on, except those in `returned`.
struct DealerState {
  int64_t train_samples = 0;
  int64_t epoch = 0;
  int64_t begin = 0;                  ///< in the epoch's order
  Step step = 0;                      ///< every worker's next
  std::vector<SampleRange> returned;  ///< ascending, apart
  bool operator==(const DealerState&) const = default;
};

/// One piece of work for one worker.
struct Deal {
  Step step = 0;
  /// Samples dealt before this step / global batch: what learning-rate schedules follow.
  Step schedule_step = 0;
  int64_t step_samples = 0;  ///< lockstep: of all workers together; else range.count
  SampleRange range;         ///< count may be 0 under lockstep; never crosses an epoch's end
  bool operator==(const Deal&) const = default;
};

/// Says who trains on which samples: the coordinator's part of the data path. Samples are positions in an
/// epoch's order (`Sampler`); every position of every epoch is dealt once, whatever the batch sizes.
///
/// Under lockstep a step's samples are a pure function of the step: contiguous, cut by worker batch; an
/// epoch's short last batch is cut in proportion (some workers may get 0 samples). Otherwise each request
/// takes the next worker_batch[w] positions, and an epoch's short rest goes to whoever asks: faster workers
/// train on more. For n = 10, batches {4, 2}:
///
///   lockstep   step 0: w0 [0,4) w1 [4,6)   step 1: w0 [6,8) w1 [8,10)   step 2: next epoch
///   on demand  w0 [0,4)  w1 [4,6)  w1 [6,8)  w0 [8,10)   whoever asks takes what is next
///
/// The stages of a replica get the same pieces, each when it asks.
///
/// A plain object for one thread. Nothing here says that work happened: `completed` does.
class Dealer {
 public:
  /// Senseless numbers, more workers than samples, batches that do not add up, and a state of another data
  /// set are errors that name every term.
  static Result<Dealer> make(DealerOptions options, std::optional<DealerState> state = {});

  /// The worker's next piece; none when it has no more (others may still have).
  std::optional<Deal> next(WorkerId worker);
  /// What `next` would give.
  std::optional<Deal> peek(WorkerId worker) const;
  /// What `next` would give was dealt before: to an actor that this one replaces, or to another stage of its replica.
  bool repeats(WorkerId worker) const;
  /// A step without samples, so that a worker's clock moves where others wait for it. On demand only.
  Deal idle(WorkerId worker);
  void completed(WorkerId worker, Step step);
  /// The worker's actor was replaced in its slot: what it had not completed is dealt to the slot again, same
  /// steps and samples, so that servers recognise what they have already taken. All stages of a replica are replaced
  /// together, and repeat what one of them had not completed.
  void restart(WorkerId worker);
  /// Steps that will be dealt to the slot once more.
  std::set<Step> repeated_steps(WorkerId worker) const;
  /// The slot is gone: what it had not completed goes to whoever asks next. On demand only; under lockstep
  /// make a new dealer from `state()` with the workers that remain.
  void give_back(WorkerId worker);

  /// Everything is dealt and completed.
  bool done() const;
  /// Work that was dealt and not completed counts as not done.
  DealerState state() const;
  int64_t samples_dealt() const;
  /// Of the whole run, from its first step: the steps of learning-rate schedules.
  Step total_schedule_steps() const;
  /// The run's last step + 1. Exact under lockstep, where an epoch's short last batch takes a step of its own;
  /// on demand as many whole batches as the samples make.
  Step total_steps() const;

  /// All of its state, for images of it (control/internal/image.h).
  template <class T>
  static auto fields(T& x) {
    return std::tie(x.options_, x.batch_end_, x.slots_, x.shared_, x.start_, x.cursor_, x.total_samples_);
  }

 private:
  struct Slot {
    Step next = 0;
    std::vector<Deal> outstanding;
    std::deque<Deal> again;  ///< to be dealt to this slot once more
    template <class T>
    static auto fields(T& x) { return std::tie(x.next, x.outstanding, x.again); }
  };

  Dealer(DealerOptions options, DealerState start);
  DealerState lockstep_position(Step step) const;
  std::optional<Deal> lockstep_deal(Step step) const;  ///< of all workers together
  SampleRange share(const SampleRange& all, WorkerId worker) const;
  std::optional<Deal> take(DealerState& cursor, int64_t at_most) const;
  std::optional<Deal> deal(WorkerId worker, DealerState& cursor) const;
  int64_t samples_before(const DealerState& position) const;
  Step furthest() const;
  size_t stages() const { return static_cast<size_t>(options_.stages); }
  size_t replica(WorkerId worker) const { return worker / stages(); }
  Step unfinished(size_t replica) const;
  void restart_replica(size_t replica);
  /// What its replica does at the worker's next step, where another stage has been told.
  const Deal* shared(WorkerId worker) const;
  void share_out(WorkerId worker, const Deal& deal);

  DealerOptions options_;
  std::vector<int64_t> batch_end_;  ///< by replica, running sum of worker_batch
  std::vector<Slot> slots_;
  std::vector<std::map<Step, Deal>> shared_;  ///< by replica of several stages: what not all have completed
  DealerState start_;   ///< what lockstep steps are counted from
  DealerState cursor_;  ///< on demand: what has been dealt; `step` unused
  int64_t total_samples_ = 0;
};

}  // namespace troupe::ps
