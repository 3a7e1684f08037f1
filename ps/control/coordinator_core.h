#pragma once
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <troupe/ps/control/run_result.h>
#include <troupe/ps/data/dealer.h>
#include <troupe/ps/messages.h>

namespace troupe::ps {

/// From `step` on, these rules decide instead of the run's first ones.
struct PolicyChange {
  Step step = 0;
  std::vector<UpdateRule> rules;
};

struct CoordinatorOptions {
  Endpoint self{Role::coordinator, 0, 1};
  Endpoint node{Role::node, 0, 1};
  std::vector<LayerSpec> layers;
  std::vector<Policy> policies;             ///< by layer
  LayoutOptions layout;
  DealerOptions dealer;                     ///< `lockstep` is worked out here
  std::optional<DealerState> resume;
  int64_t checkpoint_every_steps = 0;       ///< 0: none on the way
  bool checkpoint_at_end = true;
  int64_t evaluate_every_epochs = 0;        ///< 0: only at the end
  int64_t test_samples = 0;                 ///< 0: never evaluated
  std::vector<PolicyChange> changes;        ///< ascending steps
  double clip_norm = 0;
  bool skip_non_finite = false;
  int64_t max_restarts = 0;                 ///< of lost workers, all together
  bool servers_recover = false;             ///< their store outlives them: a lost server is started again
};

/// Everything a checkpoint holds, immutable: written while training goes on.
struct CheckpointRequest {
  Step step = 0;
  std::shared_ptr<const Layout> layout;
  std::vector<SliceState> slices;
  DealerState dealer;
  EvaluationReport evaluation;
};

/// The coordinator without its actor: membership, dealing of work, step boundaries (checkpoint, evaluation,
/// policy change, end), the group's verdict on a step, and what to do about actors that are lost.
///
///   joining servers -> joining workers -> running -> draining -> boundary duties, in order -> running
///        ^                                                        upload, snapshot, evaluate, |
///        +------------------ change of policy --------------------- change, statistics, ------+-> ended
///
/// Running, a worker that asks for work is dealt the next piece unless that lies beyond the next boundary;
/// then it is parked. When all are parked and nothing is outstanding, no push is in flight anywhere.
class CoordinatorCore {
 public:
  struct Effects {
    Outbox send;
    std::vector<StepReport> steps;
    std::vector<EvaluationReport> evaluations;
    std::vector<CheckpointRequest> checkpoints;
    std::vector<std::string> events;        ///< for the log, a sentence each
    std::optional<RunResult> finished;      ///< once
  };

  /// Senseless options are errors.
  static Result<std::unique_ptr<CoordinatorCore>> make(CoordinatorOptions options);

  /// Invites everybody. Servers and workers of incarnation 1 are expected to be there.
  Effects start();
  Effects handle(const Envelope& envelope);
  /// The last CheckpointRequest not yet answered for is on disk, or not.
  Effects checkpoint_written(const Status& status);
  /// Ends the run at the next step boundary, with a checkpoint.
  Effects stop();
  /// Ends the run now.
  Effects fail_run(std::string why);
  /// New policies from the next step boundary on.
  Effects change_policies(const std::vector<UpdateRule>& rules);
  /// Says again what has not been answered.
  Effects tick();

  const Membership& membership() const { return membership_; }

  /// Asynchronous work, in the order dealt, and the same order to be dealt again (a recorded run).
  struct Dealt {
    WorkerId worker = 0;
    Work work;
  };
  void on_dealt(std::function<void(const Dealt&)> observer) { dealt_observer_ = std::move(observer); }
  void replay(const std::vector<Dealt>& order);

 private:
  enum class Phase : uint8_t { joining_servers, joining_workers, running, duties, ended };
  enum class Duty : uint8_t { upload, snapshot, evaluate, change, await_writes, statistics, finish };
  struct Slot {
    uint64_t requested = 0;                 ///< number asked for and not answered; 0: none
    std::map<uint64_t, Work> outstanding;   ///< by number
    std::deque<Work> special;               ///< evaluate, upload: granted before anything else
    std::optional<Deal> parked;             ///< dealt but beyond the boundary
    bool exhausted = false;                 ///< the dealer has nothing more for it
    Step next_step = 0;
    std::deque<Work> replay;
  };

  explicit CoordinatorCore(CoordinatorOptions options, Dealer dealer);

  void on(Effects& out, const Envelope& envelope, const MembershipAck&);
  void on(Effects& out, const Envelope& envelope, const WorkRequest& request);
  void on(Effects& out, const Envelope& envelope, const WorkDone& done);
  void on(Effects& out, const Envelope& envelope, const Partial& partial);
  void on(Effects& out, const Envelope& envelope, const SnapshotReply& reply);
  void on(Effects& out, const Envelope& envelope, const StatsReply& reply);
  void on(Effects& out, const Envelope& envelope, const Down& down);
  void on(Effects& out, const Envelope& envelope, const SpawnAck& ack);

  bool current(const Endpoint& who) const;
  void send(Effects& out, Endpoint to, Message body) const;
  void invite(Effects& out);
  void invite_workers(Effects& out);
  Endpoint worker(WorkerId w) const { return {Role::worker, w, membership_.workers[w]}; }
  Endpoint server(ServerId s) const { return {Role::server, s, membership_.servers[s]}; }

  void grant_all(Effects& out);
  void grant(Effects& out, WorkerId w);
  std::optional<Work> next_work(WorkerId w);
  bool beyond_boundary(const Deal& deal) const;
  bool drained() const;
  void plan_duties(Effects& out);
  void next_duty(Effects& out);
  void start_evaluation(Effects& out);
  void apply_policy_change(Effects& out);
  void end(Effects& out, Outcome outcome);
  void account(Effects& out, WorkerId w, const WorkDone& done, const Work& work);
  void report(Effects& out, StepReport report);
  void lost_worker(Effects& out, WorkerId w, const std::string& reason);
  void lost_server(Effects& out, ServerId s, const std::string& reason);
  std::set<Endpoint> voters() const;

  CoordinatorOptions options_;
  Dealer dealer_;
  Phase phase_ = Phase::joining_servers;
  Membership membership_;
  std::set<Endpoint> unacknowledged_;       ///< of the membership
  std::set<Endpoint> spawning_;
  bool settled_ = false;                    ///< everybody has acknowledged a membership since the last rebase
  std::vector<Slot> slots_;

  std::deque<Duty> duties_;
  std::optional<Duty> duty_;                ///< under way
  uint64_t round_ = 0;                      ///< of snapshots and statistics
  std::map<ServerId, SnapshotReply> snapshots_;
  std::map<ServerId, StatsReply> statistics_;
  int64_t writing_ = 0;                     ///< checkpoints under way
  EvaluationReport evaluating_;
  int64_t evaluations_missing_ = 0;

  Step next_checkpoint_ = 0;                ///< boundary; the largest Step: none
  int64_t next_evaluation_ = 0;             ///< epoch; the largest: none
  Step stop_step_ = 0;                      ///< the largest: none
  bool stopping_ = false;
  std::optional<std::vector<Policy>> new_policies_;

  std::map<Step, std::map<Endpoint, Partial>> partials_;
  std::map<Step, Verdict> verdicts_;

  std::map<Step, std::pair<StepReport, int64_t>> open_reports_;  ///< lockstep: and how many workers are in
  StepReport gathering_;                    ///< else
  int64_t last_epoch_ = -1;
  RunResult result_;
  std::function<void(const Dealt&)> dealt_observer_;
};

}  // namespace troupe::ps
