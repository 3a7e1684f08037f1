#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <troupe/ps/messages.h>
#include <troupe/ps/pipeline/stage_order.h>
#include <troupe/ps/pipeline/stage_plan.h>

namespace troupe::ps {

struct StageOptions {
  Endpoint coordinator{Role::coordinator, 0, 1};
  Endpoint self;  ///< worker: stage `index mod stages` of replica `index / stages`
  StagePlan plan;
  bool strict = false;             ///< run the schedule's order to the letter, even where something else is ready
  int64_t evaluation_batch = 250;  ///< samples of a micro-batch without a way back
  int64_t stall_ms = 60'000;       ///< waiting longer for a neighbour is a fault; 0: for ever
  std::optional<DType> activations;  ///< what neighbours hand on must be in it
};

/// What a stage gives its executor to do: one action of the schedule. Tasks run in the order given.
struct StageTask {
  ActionKind kind = ActionKind::forward;  ///< forward, backward_input or backward_weight
  Work work;
  uint32_t micro_batch = 0, chunk = 0;
  SampleRange samples;             ///< of the micro-batch
  int64_t first_sample = 0;        ///< its place in the replica's batch
  Tensor input;                    ///< from the neighbour; empty at the model's ends
  std::vector<LayerId> gradients;  ///< complete behind this task: to be taken from the source
};

/// One stage of a pipeline without its actor: when which action may run, what goes to which neighbour, and when a
/// gradient is complete. It holds no thread, clock or source of gradients.
///
///   idle --begin--> running: actions in the schedule's order as their inputs come --all have run--> idle
///
/// What runs next is StageOrder's decision, the one that the simulator times: an action whose input is not there may be
/// overtaken by one that is ready, so that no stage idles while it may run something.
///
/// Of an asynchronous schedule (one update's micro-batches, made with a step at its end) the next step may begin while
/// earlier ones run: its forwards follow theirs, its backwards follow theirs, and no more micro-batches are held than
/// in 1F1B without a flush (stages - stage). Which weights each step has is its caller's decision (WorkerCore).
///
/// Where a tied layer is all_reduced, both of its stages keep its weights in step themselves: each gets the other's
/// part of the gradient, and reduces the sum with the same stage of the other replicas. Else only the owner gets a
/// part.
///
/// Activations travel at least once and are taken once; what comes early (from a stage that is ahead by a step) waits.
/// How many outputs can wait follows from the schedule: the stage that makes them keeps no more micro-batches whose
/// gradient it has not had. More than that, and what comes from the wrong stage, with another shape or dtype, or for a
/// step that cannot be, is a Fault that names the sender: peers decide neither memory nor what is computed.
///
/// Evaluations have step numbers of their own in messages: -1 the first of this incarnation, -2 the second. Nothing
/// comes back in them, so outputs are acknowledged when they are taken, and a stage is at most kTests of them ahead of
/// the next.
class StageCore {
 public:
  /// A layer's gradient: `sum`, to which the part of another stage in a tied layer is still to be added, where there is
  /// one. The owner's part is in `sum` on both stages, so that both get the same bits. Where `other` is, both tensors
  /// are the other stage's, too, and may only be read.
  struct Gradient {
    LayerId layer = 0;
    Tensor sum, other;
    uint64_t work = 0;  ///< its number
  };
  struct Effects {
    Outbox send;
    std::vector<StageTask> tasks;
    std::vector<Gradient> gradients;  ///< complete; in the order in which they became so
    std::vector<Work> done;           ///< have run; in their order
  };

  /// `schedule` has been checked.
  explicit StageCore(StageOptions options);

  /// The membership that the worker obeys: who the neighbours are. Before `begin`.
  void set_membership(std::shared_ptr<const Membership> membership, Generation generation);

  /// Runs a step or an evaluation; all weights are there. Behind others that run only of an asynchronous schedule.
  Effects begin(const Work& work);
  /// An Activation or its acknowledgement; others are not for a stage.
  Effects handle(const Envelope& envelope);
  /// A task has run: what it gave for the next chunk or the one before.
  Effects computed(const StageTask& task, Tensor output);
  /// A layer's sum over the micro-batches of this stage, in the piece of work with that number.
  Effects gradient(uint64_t work, LayerId layer, Tensor sum);
  /// Says again what has not been acknowledged.
  Effects tick() const;
  /// A Fault when nothing has moved for too long; once. Said every so often.
  Effects watch(int64_t now_ms);

  /// Who is waited for, in a sentence; empty when nobody is.
  std::string waits_for() const;

 private:
  /// One activation's place: step as in messages.
  struct Key {
    Step step = 0;
    Activation::Kind kind = Activation::Kind::forward;
    uint32_t chunk = 0, micro_batch = 0;
    auto operator<=>(const Key&) const = default;
  };
  /// Outputs of an evaluation for one chunk that the next stage has not taken.
  static constexpr int64_t kTests = 4;
  /// A piece of work under way.
  struct Run {
    Work work;
    Step key_step = 0;                      ///< in messages
    std::vector<SampleRange> micro;         ///< by micro-batch
    std::shared_ptr<const Schedule> list;   ///< the plan's, or one of forwards only
    StageOrder order;
    std::set<Key> taken = {};               ///< inputs of tasks given to the executor
    int64_t at_executor = 0;                ///< tasks given and not answered
    int64_t held = 0;                       ///< micro-batches between forward and backward_weight
    int64_t forwards_left = 0;
    std::map<uint32_t, uint32_t> weighted = {};  ///< by chunk: backward_weight tasks given
    std::map<LayerId, Tensor> sums = {};         ///< of layers that wait for the part of another stage
    std::map<LayerId, Gradient> complete = {};   ///< behind one that is not
    std::vector<LayerId> gradient_order = {};    ///< layers as gradients leave: the same on every replica
    size_t left = 0;                        ///< how many of them have left
  };

  uint32_t stages() const { return options_.plan.schedule->stages; }
  uint32_t stage() const { return options_.self.index % stages(); }
  uint32_t last_chunk() const { return options_.plan.schedule->chunks - 1; }
  bool here(uint32_t chunk) const { return options_.plan.schedule->stage_of[chunk] == stage(); }
  Endpoint holder(uint32_t chunk) const;
  uint32_t chunk_of(LayerId layer) const;
  std::vector<uint32_t> contributors(LayerId layer) const;

  bool asynchronous() const { return options_.plan.schedule->weights != WeightVersions::flushed; }
  Run plan(const Work& work) const;
  Run* run_of(Step key_step);
  Run* run_of_work(uint64_t number);
  void advance(Effects& out);
  std::optional<std::pair<Run*, Action>> next_action();
  std::optional<Key> input_of(const Run& run, const Action& action) const;
  std::optional<uint32_t> maker(const Key& key) const;
  bool has_room(const Run& run, const Action& action) const;
  int64_t most_waiting(const Key& key) const;
  std::string objection(const Run* run, const Key& key, const Activation& activation) const;
  void acknowledge(Effects& out, const Key& key, const Endpoint& to) const;
  void note_arrival(Run& run, const Key& key) const;
  void submit(Effects& out, Run& run, const Action& action);
  std::vector<LayerId> complete_after(Run& run, const Action& action) const;
  void hand_on(Effects& out, const Run& run, Activation::Kind kind, uint32_t chunk, uint32_t micro_batch,
               Tensor tensor);
  void add_tied(Effects& out, Run& run, LayerId layer);
  std::optional<uint32_t> reader(LayerId layer, bool on_this_stage) const;
  bool on_both(LayerId layer) const;
  std::vector<LayerId> gradient_order() const;
  bool is_complete(const Run& run, LayerId layer) const;
  void finish(Effects& out);
  void fault(Effects& out, std::string what);
  std::string describe(const Endpoint& worker) const;
  static const char* name_of(Activation::Kind kind);
  void moved(std::string what);

  StageOptions options_;
  std::map<uint32_t, int64_t> most_waiting_;  ///< by chunk that takes from another stage: its inputs in training
  std::shared_ptr<const Membership> membership_;
  Generation generation_ = 0;

  std::deque<Run> runs_;                    ///< in the order of their steps
  int64_t evaluations_done_ = 0;
  Step steps_done_ = -1;                    ///< training steps up to here are over

  std::map<Key, Activation> arrived_;
  std::map<Key, Envelope> unacknowledged_;

  std::deque<std::string> last_events_;
  int64_t moved_at_ms_ = -1, moves_ = 0, watched_moves_ = -1;
  bool failed_ = false;  ///< a Fault is on its way: the run ends
};

}  // namespace troupe::ps
