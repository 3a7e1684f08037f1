#pragma once
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include <troupe/ps/control/reload.h>
#include <troupe/ps/control/roster.h>
#include <troupe/ps/control/run_result.h>
#include <troupe/ps/data/dealer.h>
#include <troupe/ps/messages.h>
#include <troupe/ps/metrics/run_status.h>
#include <troupe/ps/param/loss_scale.h>

namespace troupe::ps {

struct CoordinatorOptions {
  Endpoint self{Role::coordinator, 0, 1};
  Endpoint node{Role::node, 0, 1};          ///< of a run in one process
  RosterOptions roster;                     ///< `nodes` and what is told to them; the rest is filled in
  OnLoss on_loss = OnLoss::restart;
  int64_t min_workers = 1;                  ///< with OnLoss::shrink the run ends below
  std::vector<LayerSpec> layers;
  std::vector<Policy> policies;             ///< by layer
  LayoutOptions layout;
  DealerOptions dealer;                     ///< `lockstep` is worked out here
  std::optional<DealerState> resume;
  int64_t checkpoint_every_steps = 0;       ///< 0: none on the way
  bool checkpoint_at_end = true;
  int64_t evaluate_every_epochs = 0;        ///< 0: only at the end
  int64_t test_samples = 0;                 ///< 0: never evaluated
  std::vector<PolicyChange> changes;        ///< ascending steps. Over several processes all_reduce means
                                            ///< sync: servers add up what no collective reaches
  double clip_norm = 0;
  bool skip_non_finite = false;             ///< dynamic loss scaling needs it
  LossScaling loss_scaling;
  bool stop_at_least_scale = true;          ///< an overflow at the least loss scale ends the run; else it is skipped
  std::optional<LossScale> resume_scale;    ///< where dynamic loss scaling goes on
  int64_t max_restarts = 0;                 ///< of lost workers and servers, all together, over the whole run
  bool servers_recover = false;             ///< their store outlives them: a lost server is started again
  bool servers_reload = false;              ///< it goes on from the newest checkpoint, and what it lost is reported
  bool replicas = false;                    ///< every server has one on another node, where there is one
  int64_t join_timeout_ms = 45'000;         ///< for workers to join the devices of their host, in each generation
  /// What the log says of the seconds that each stage has computed for; empty: nothing. Asked now and then.
  std::function<std::string(const std::vector<double>&)> judge_stages;
  std::function<RunStatus::Connections()> connections;  ///< of this process, for its status; empty: none
};

/// Everything a checkpoint holds, immutable: written while training goes on.
struct CheckpointRequest {
  Step step = 0;
  std::shared_ptr<const Layout> layout;
  std::vector<SliceState> slices;
  DealerState dealer;
  EvaluationReport evaluation;
  std::optional<LossScale> loss_scale;      ///< where it is dynamic
};

/// The coordinator without its actor: membership, dealing of work, step boundaries (checkpoint, evaluation,
/// policy change, end), the group's verdict on a step, and what to do about actors that are lost.
///
///   spawning, joining --all acknowledged--> running --all parked, nothing outstanding--> duties of the boundary,
///      ^                            ^                                                    in order: upload, evaluate,
///      |                            +----------------- done -------------------+         snapshot, change; at the end
///      |                                                                       |         also: await writes,
///      +-------------------------------------------- change -------------------+         statistics, finish -> ended
///
/// Running, a worker that asks for work is dealt the next piece unless that lies beyond the next boundary;
/// then it is parked. When all are parked and nothing is outstanding, no push is in flight anywhere. Servers may
/// still wait for the last step's verdict: a snapshot waits for it, and so does a change (`settle`).
class CoordinatorCore {
 public:
  struct Effects {
    Outbox send;
    std::vector<StepReport> steps;
    std::vector<EvaluationReport> evaluations;
    std::vector<CheckpointRequest> checkpoints;
    std::vector<ReloadRequest> reloads;     ///< each to be answered by `reloaded`, after what is written now
    std::vector<std::string> events;        ///< for the log, a sentence each: what somebody may have to look at,
    std::vector<std::string> news;          ///< and what went as it should
    std::optional<Routes> routes;           ///< for the coordinator's own transport, before anything is sent
    std::optional<RunResult> finished;      ///< once
  };

  /// Senseless options are errors.
  static Result<std::unique_ptr<CoordinatorCore>> make(CoordinatorOptions options);

  /// Has the actors of all slots started; when they are there, everybody is invited.
  Effects start();
  Effects handle(const Envelope& envelope);
  /// The connection to a node broke.
  void link_lost(uint32_t node) { roster_.link_lost(node); }
  /// Said before every call: the coordinator's clock. Any origin; it does not go back.
  void set_now_ms(int64_t now) { roster_.set_now_ms(now); }
  /// For `troupe status`.
  RunStatus status() const { return status(now_ms()); }
  RunStatus status(int64_t now_ms) const;
  /// From a client, and `handle` would leave everything as it is: a question, or a StopRequest while the run stops. A
  /// journal need not hold it, so that asking costs the run's successor nothing.
  bool only_asks(const Envelope& envelope) const;
  /// Nobody is left who has to hear that the run is over.
  bool all_gone() const { return phase_ == Phase::ended && roster_.all_gone(); }
  /// The last CheckpointRequest not yet answered for is on disk, or not.
  Effects checkpoint_written(const Status& status);
  /// What a ReloadRequest asked for; an error ends the run.
  Effects reloaded(const Endpoint& server, const Result<Reload>& read);
  /// Ends the run at the next step boundary, with a checkpoint.
  Effects stop();
  /// Ends the run now.
  Effects fail_run(std::string why);
  /// New policies from the next step boundary on.
  Result<Effects> change_policies(const std::vector<UpdateRule>& rules);
  /// Says again what has not been answered.
  Effects tick();
  /// Told to a core that has been told all that its predecessor was (journal.h), once, before anything else: it goes
  /// on from there.
  Effects recovered();
  /// How often that happened.
  int64_t recoveries() const;
  int64_t now_ms() const { return roster_.now_ms(); }
  int64_t begun_ms() const { return roster_.begun_ms(); }  ///< of its first tick

  /// All of its state as bytes, and a core that is in it: it does what this one would. The options are those that this
  /// one was made of. Without what was handed in (`on_dealt`, `replay`) and tensors of snapshots under way.
  std::vector<std::byte> image() const;
  static Result<std::unique_ptr<CoordinatorCore>> restore(CoordinatorOptions options,
                                                          std::span<const std::byte> image);

  const Membership& membership() const { return membership_; }

  /// To whom training work was dealt, in order; and that order again (a recorded run): with it, asynchronous
  /// workers get the same samples once more.
  struct Dealt {
    WorkerId worker = 0;
    bool idle = false;  ///< a step without samples
    bool operator==(const Dealt&) const = default;
  };
  void on_dealt(std::function<void(const Dealt&)> observer) { dealt_observer_ = std::move(observer); }
  void replay(const std::vector<Dealt>& order);

  /// All members that change while it lives: a new one belongs here, too.
  template <class T>
  static auto fields(T& x) {
    return std::tie(x.options_.changes, x.options_.dealer, x.dealer_, x.phase_, x.membership_, x.unacknowledged_,
                    x.workers_invited_, x.roster_, x.begun_, x.routes_changed_, x.spawning_, x.homeless_,
                    x.last_worker_, x.replicas_, x.moving_, x.reloaded_, x.once_immediate_, x.pieces_at_,
                    x.full_batch_, x.resizing_,
                    x.slots_, x.waiting_, x.outstanding_, x.duties_, x.round_, x.snapshots_, x.statistics_, x.writing_,
                    x.evaluating_, x.uploading_,
                    x.next_checkpoint_, x.next_evaluation_, x.stopping_, x.stop_step_, x.new_policies_, x.partials_,
                    x.collectives_, x.verdicts_, x.non_finite_, x.loss_scale_, x.scale_step_, x.scales_,
                    x.open_reports_, x.unreported_samples_, x.epoch_stats_, x.result_);
  }

 private:
  enum class Phase : uint8_t { joining, running, duties, ended };
  enum class Duty : uint8_t { upload, evaluate, settle, snapshot, change, await_writes, statistics, finish };
  struct Slot {
    uint64_t granted = 0;                   ///< last number answered
    std::map<uint64_t, Work> outstanding;   ///< by number
    std::deque<Work> special;               ///< evaluate, upload: granted before anything else
    bool parked = false;                    ///< what comes next lies beyond the boundary, or nothing does
    bool absent = false;                    ///< nobody fills it: the others go on alone
    Step next_step = 0;
    Step since = 0;                         ///< Work::since
    std::set<Step> repeated;                ///< in the reports, and done again for another stage's sake
    double compute_s = 0, wait_s = 0;       ///< of a piece of training work, lately
    template <class T>
    static auto fields(T& x) {
      return std::tie(x.granted, x.outstanding, x.special, x.parked, x.absent, x.next_step, x.since, x.repeated,
                      x.compute_s, x.wait_s);
    }
  };

  struct ReplicaSlot {
    Incarnation incarnation = 0;
    bool here = false;                      ///< ordered, and not lost since
    bool acknowledged = false;              ///< its node has started it
    bool said = false;                      ///< that there can be none
    std::optional<Endpoint> synced;         ///< the server that it is equal to
    template <class T>
    static auto fields(T& x) {
      return std::tie(x.incarnation, x.here, x.acknowledged, x.said, x.synced);
    }
  };

  /// How much had been dealt at some time: the furthest worker's steps, and pieces of training work of all workers.
  struct Progress {
    Step step = 0;
    int64_t pieces = 0;
    template <class T>
    static auto fields(T& x) { return std::tie(x.step, x.pieces); }
  };
  /// Dealt, and missing in what a server holds.
  struct Gap {
    Progress from, to;
    template <class T>
    static auto fields(T& x) { return std::tie(x.from, x.to); }
  };
  /// A server that was lost and goes on from a checkpoint.
  struct Reloaded {
    bool waits = false;                     ///< for its node to have started it
    bool reported = false;                  ///< what was lost
    Step since = 0;                         ///< takes part in synchronous steps from here on
    std::vector<Gap> gaps;                  ///< ascending
    template <class T>
    static auto fields(T& x) { return std::tie(x.waits, x.reported, x.since, x.gaps); }
  };

  CoordinatorCore(CoordinatorOptions options, Dealer dealer, Step start);

  void on(Effects& out, const Envelope& envelope, const MembershipAck&);
  void on(Effects& out, const Envelope& envelope, const WorkRequest& request);
  void on(Effects& out, const Envelope& envelope, const WorkDone& done);
  void on(Effects& out, const Envelope& envelope, const Partial& partial);
  void on(Effects& out, const Envelope& envelope, const SnapshotReply& reply);
  void on(Effects& out, const Envelope& envelope, const StatsReply& reply);
  void on(Effects& out, const Envelope& envelope, const Down& down);
  void on(Effects& out, const SpawnAck& ack);
  void on(Effects& out, const Envelope& envelope, const Synced& synced);
  void on(Effects& out, const Envelope& envelope, const CollectiveId& said);
  bool answer_client(Effects& out, const Envelope& envelope);
  void request_stop(Effects& out);

  void take(Effects& out, Roster::Effects effects);
  void begin(Effects& out);
  void lost_node(Effects& out, const Endpoint& node, const std::string& why);
  void spawn(Effects& out, const Endpoint& who, std::optional<Endpoint> takes_over = {});
  void place_homeless(Effects& out);
  void vacate(WorkerId w);
  void replace(Effects& out, WorkerId w);
  uint32_t stages() const { return options_.layout.stages; }
  void drop_worker(Effects& out, WorkerId w, const std::string& what);
  std::vector<WorkerId> absent() const;
  void resize_soon();
  void apply_resize(Effects& out);
  std::string begin_again() const;
  void promote(Effects& out, ServerId s);
  void move_to_replica(Effects& out, ServerId s);
  void reload(Effects& out, ServerId s);
  void reload_again(Effects& out);
  bool lacks_image(const Spawn& order) const;
  void report_loss(Effects& out, ServerId s, const Reload& read);
  void note_immediate(const std::vector<Policy>& policies);
  int64_t pieces_dealt() const;
  void relieve(Effects& out, const Endpoint& node);
  void rebalance(Effects& out);
  void move(Effects& out, Role role, uint32_t index, const Endpoint& to);
  void order_replicas(Effects& out);
  void lost_replica(Effects& out, ServerId s, const std::string& reason);
  void replica_started(Effects& out, const Endpoint& who);
  std::vector<Routes::Place> places() const;
  Effects finish(Effects out);

  bool current(const Endpoint& who) const;
  Endpoint worker(WorkerId w) const { return {Role::worker, w, membership_.workers[w]}; }
  Endpoint server(ServerId s) const { return {Role::server, s, membership_.servers[s]}; }
  Endpoint replica(ServerId s) const { return {Role::replica, s, replicas_[s].incarnation}; }
  const Layout& layout() const { return *membership_.layout; }
  void send(Effects& out, Endpoint to, Message body) const;
  void send_servers(Effects& out, const Message& body) const;

  void invite(Effects& out);
  void invite_workers(Effects& out);
  void grant_all(Effects& out);
  bool grant(Effects& out, WorkerId w);
  std::optional<Work> next_work(WorkerId w);
  std::optional<Deal> upcoming(WorkerId w) const;
  bool beyond_boundary(const Deal& deal) const;
  bool catches_up() const;
  int64_t dealer_epoch() const;
  bool awaits_snapshots() const {
    return !duties_.empty() && (duties_.front() == Duty::snapshot || duties_.front() == Duty::settle);
  }
  void repeat_requests(Effects& out) const;
  void take_lost_checkpoint_again(Effects& out);
  Step furthest() const;
  /// Where the run is, and where it will be with this piece, for what happens every so many steps: the step under
  /// lockstep; on demand, where workers' steps differ, the whole batches dealt.
  Step reached() const;
  Step reached(const Deal& deal) const { return layout().lockstep() ? deal.step : deal.schedule_step; }
  bool finished_dealing() const;
  bool drained() const;
  void settle(Effects& out);
  void plan_duties();
  void next_duty(Effects& out);
  void begin_duty(Effects& out);
  void start_evaluation();
  void fail_run(Effects& out, std::string why);
  void apply_change(Effects& out);
  void finish_workers(Effects& out) const;
  void end(Effects& out, Outcome outcome);
  void account(Effects& out, WorkerId w, const WorkDone& done, const Work& work);
  void close_report(Effects& out, Step key, Step step);
  void close_complete_reports(Effects& out);
  void close_last_report(Effects& out);
  void judge_stages(Effects& out) const;
  void lost_worker(Effects& out, WorkerId w, const std::string& reason);
  int64_t restarts_used() const;
  std::string restarts_text() const;
  bool may_restart(Effects& out, const std::string& what);
  void lost_server(Effects& out, ServerId s, const std::string& reason);
  bool takes_part(ServerId s, Step step) const;
  bool done_by_all(Step step) const;
  void heard_finite(Effects& out, Step step, bool finite);
  std::vector<WorkerId> on_host_of(WorkerId w) const;
  std::set<WorkerId> late_members() const;
  void judge_collectives(Effects& out);
  std::set<Endpoint> voters(Step step) const;
  void decide(Effects& out, Step step);
  void forget_foreign_partials();
  bool knows_scale(Step step) const;
  void rescale(Effects& out, const Verdict& verdict, const std::string& culprit);

  CoordinatorOptions options_;
  Dealer dealer_;
  Phase phase_ = Phase::joining;
  Membership membership_;
  std::set<Endpoint> unacknowledged_;       ///< of the membership
  bool workers_invited_ = false;            ///< servers first: a worker never knows a generation before them
  Roster roster_;
  bool begun_ = false;
  bool routes_changed_ = false;
  std::map<Endpoint, Spawn> spawning_;      ///< said, or to be said once there is a node for it
  std::set<Endpoint> homeless_;             ///< those of them that wait for a node
  std::vector<Incarnation> last_worker_;    ///< given in each slot
  std::vector<ReplicaSlot> replicas_;       ///< by server; empty in one process
  std::map<ServerId, Endpoint> moving_;     ///< servers whose replica takes over once it is equal, and its node
  std::map<ServerId, Reloaded> reloaded_;
  std::set<LayerId> once_immediate_;        ///< layers that take each push for itself, or have at some time
  std::map<Step, int64_t> pieces_at_;       ///< dealt before the last checkpoints
  std::vector<int64_t> full_batch_;         ///< by worker, when nobody is absent
  bool resizing_ = false;                   ///< at the next boundary the batch is shared out anew
  std::vector<Slot> slots_;
  std::set<WorkerId> waiting_;              ///< asked for their next piece of work
  int64_t outstanding_ = 0;                 ///< pieces of work dealt and not done, of all workers
  std::optional<std::deque<Dealt>> replay_;

  std::deque<Duty> duties_;                 ///< the first is under way
  uint64_t round_ = 0;                      ///< of snapshots and statistics
  std::map<ServerId, SnapshotReply> snapshots_;
  std::map<ServerId, StatsReply> statistics_;
  int64_t writing_ = 0;                     ///< checkpoints under way
  std::map<WorkerId, int64_t> evaluating_;  ///< answers missing, by whom
  int64_t uploading_ = 0;                   ///< answers missing

  Step next_checkpoint_;                    ///< schedule step; the largest: none
  int64_t next_evaluation_;                 ///< epoch; the largest: none
  bool stopping_ = false;
  Step stop_step_ = 0;                      ///< under lockstep, the first step not to be dealt
  std::optional<std::vector<Policy>> new_policies_;

  /// What workers have said of the group of their host, in one generation.
  struct Collectives {
    struct Said {
      std::string device, id;
      bool joined = false;
      template <class T>
      static auto fields(T& x) { return std::tie(x.device, x.id, x.joined); }
    };
    Generation generation = 0;
    int64_t since_ms = 0;                   ///< when the first spoke, or the last was still to come
    std::map<WorkerId, Said> said;
    template <class T>
    static auto fields(T& x) { return std::tie(x.generation, x.since_ms, x.said); }
  };
  Collectives collectives_;

  std::map<Step, std::map<Endpoint, Partial>> partials_;
  std::map<Step, Verdict> verdicts_;        ///< of the last steps
  std::set<Step> non_finite_;               ///< of them, as workers say that have done them
  LossScale loss_scale_;                    ///< of...
  Step scale_step_;                         ///< ...the first step without a verdict
  std::deque<std::pair<Step, double>> scales_;  ///< the last ones, and the steps that began with them

  struct OpenReport {
    StepReport report;
    std::set<WorkerId> done;                ///< lockstep: whose pieces are in it
    template <class T>
    static auto fields(T& x) { return std::tie(x.report, x.done); }
  };
  std::map<Step, OpenReport> open_reports_;
  int64_t unreported_samples_ = 0;          ///< on demand, completed since the last report
  std::map<int64_t, StepStats> epoch_stats_;  ///< of the last two epochs
  RunResult result_;
  std::function<void(const Dealt&)> dealt_observer_;
};

}  // namespace troupe::ps
