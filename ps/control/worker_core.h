#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <troupe/ps/control/bucket_filler.h>
#include <troupe/ps/messages.h>
#include <troupe/ps/param/optimizer.h>
#include <troupe/ps/param/rows.h>

namespace troupe::ps {

struct WorkerOptions {
  Endpoint self;                    ///< worker, slot, incarnation
  Endpoint coordinator{Role::coordinator, 0, 1};
  Generation since = 0;             ///< of the order to start it: no coordinator of an older one is heeded
  double clip_norm = 0;             ///< global norm of the mean gradient; 0: off
  bool skip_non_finite = false;     ///< else a NaN or Inf gradient ends the run
  /// Layers of other stages whose weights it needs, too (tied ones). Where they are all_reduced it applies their
  /// updates itself, as the owner does, from the same gradients.
  std::vector<LayerId> reads;
  int64_t bucket_bytes = 1 << 20;   ///< of all_reduce layers that are reduced together (buckets.h)
  /// A stage of an asynchronous pipeline: step t computes with the weights of step max(t - lag, Work::since), and up to
  /// lag + 1 steps are under way (weight_lag in schedule.h). Its layers are `sync`, and nothing asks for a verdict.
  Step weight_lag = 0;
  /// Where some of a run's workers may compute on devices, the kind of this one's: those of a host add up what is
  /// pushed of `host_layers`, as far as those are under sync. Empty, or with nobody to add up with, each pushes its
  /// own.
  std::string device;
  std::vector<LayerId> host_layers;
  /// The weights that follow are pulled by one of them and broadcast. Not where servers compute on the same devices:
  /// the others wait in a kernel, and memory that a server asks its device for may wait for that kernel.
  bool broadcasts = true;
};

/// A worker without its actor: which weights to ask for, when a layer range may run, what to push, what to say
/// again. It holds no thread, clock or source of gradients.
///
///   idle --Work--> pulling --weights of the next layers--> Forward... --all layers--> Backward
///     ^                                                                                  |
///     |        every push acknowledged, every all_reduce layer applied                   v gradients, last first
///     +------- WorkDone <------------------------------------------------------------ pushing
///
/// The pull of a parcel for step t+1 leaves right behind its push of step t, and the next piece of work is
/// asked for while this one runs, so that step t+1 begins while pushes of step t are still on their way.
///
/// Of a layer by rows it pulls and pushes those that the step's batch reads (a test reads all): that pull leaves when
/// the step's work has come and the push of the step before has left.
///
/// A worker that is one stage of its replica (Layout::stages) asks and answers for its own layers alone.
///
/// Of an asynchronous pipeline, it begins a step while earlier ones are computed. Which version of a layer a step reads
/// is a matter of arithmetic alone: the version that follows a push is pulled behind it and awaited before the next
/// push leaves, so that none is missed, and kept until the last step that reads it has begun.
///
/// Where the devices of a host add up gradients, the workers of a host are a group, another one each generation:
///
///   asked --all have, id--> joining --all have--> joined: from an agreed step on sums are pushed by the lowest worker,
///     ^                                             |      which cover the others (combined_push.h)
///     +-------------- new generation <--------------+
///
/// Until then no backward pass begins. What was under way in the old group everybody pushes alone: a server drops what
/// the sum, if that came to be stored, has in it. It knows the new generation before any worker does, and takes nothing
/// of the old one any more.
///
/// The weights that follow a sum the lowest pulls, and gives them to all through the group, in the order of the forward
/// pass (WorkerOptions::broadcasts; else each pulls for itself). So each member makes the same calls in the same order,
/// whichever of its threads is late:
///
///   sums of step t, as its gradients come | weights of t+1, once all those are done | sums of t+1, which needs them
///
/// Whoever has left the group pulls for itself what had not come. What had come, for a step that has begun, is brought
/// to host memory: that step may have no group, and gradients stay where the weights are. It is not read again, since
/// whoever follows a server that was lost may go on from older parameters. The group's first step each pulls for
/// itself, and a test always.
class WorkerCore {
 public:
  struct Effects {
    Outbox send;
    std::vector<Task> tasks;
    bool finished = false;  ///< told to end
  };

  /// `gradient_order` is the source's; empty: last layer first.
  WorkerCore(WorkerOptions options, const std::vector<LayerSpec>& layers, std::vector<size_t> gradient_order = {});

  Effects handle(const Envelope& envelope);

  /// Layer `layer`'s gradient of `step` is complete, and in none of Backward's buckets, or is not finite.
  /// `sum_of_squares` (of the gradient as it is) and `finite` are of this layer.
  Effects gradient_ready(Step step, LayerId layer, Tensor gradient, double sum_of_squares, bool finite);
  Effects backward_done(Step step, const StepStats& stats, double compute_s, double wait_s);
  /// Answers FindRows: by layer, empty but for those by rows.
  Effects rows_found(uint64_t work, std::vector<Tensor> rows);
  Effects evaluated(const StepStats& stats, double compute_s);
  /// `sum_of_squares` is of the summed gradient.
  Effects reduced(Step step, LayerId layer, Tensor gradient, double sum_of_squares, bool finite);
  Effects applied_locally(Step step, LayerId layer, SliceState local);
  /// What MakeGroup, JoinGroup and a bucket of `host` were answered with.
  Effects group_known(Generation generation, std::string id);
  Effects group_joined(Generation generation, Step from);
  Effects summed_on_host(const HostSum& sum);
  /// Answers Broadcast.
  Effects weights_given(const HostWeights& weights);
  /// What Fetch asked for, in host memory.
  Effects fetched(std::vector<std::pair<LayerId, SliceState>> layers);

  /// Says again what has not been answered: every so often on a transport that loses messages.
  Effects tick();

  const Membership& membership() const { return membership_; }
  /// Weights of a piece of work that runs, by layer; empty where they have not come. Copies may be held.
  const std::vector<Tensor>& weights(const Work& work) const;
  /// The group decides on every step (clipping, skipping), so gradients wait for the whole backward pass.
  bool holds_pushes() const { return options_.clip_norm > 0 || options_.skip_non_finite; }

 private:
  struct ParcelState {
    std::optional<Push> unacked;      ///< said, not acknowledged
    std::deque<Push> queued;          ///< behind it, or behind the answer to the pull of its own step
    bool held = false;                ///< `unacked` is a sum of several workers, which may not be said again
    Step stored = -1;                 ///< the last step known to be stored
    std::optional<Pull> pulling;      ///< said, not answered
    std::map<Step, PullReply> arrived;  ///< by the step that they are for: one, or as many as lag behind
  };
  /// A piece of work under way.
  struct Running {
    Work work;
    std::vector<Tensor> weights;      ///< by layer
    size_t forwarded = 0;             ///< layers given to Forward
    std::set<LayerId> again;          ///< of these, whose weights are to be in host memory before the backward pass
    std::map<LayerId, Tensor> kept;   ///< what a group that has ended gave, in host memory; empty: on its way there
    bool computes = false;            ///< all weights have come: given out to be computed
    std::vector<Tensor> gradients;    ///< by layer
    BucketFiller filler;              ///< of a stage
    double sum_of_squares = 0;
    std::vector<LayerId> non_finite;
  };
  struct OpenStep {                   ///< a step that is not done
    WorkDone done;
    int64_t missing = 0;              ///< acknowledgements and all_reduce layers, plus one until backward is done
  };

  /// The workers of this host, in this generation.
  struct HostGroup {
    enum class Phase : uint8_t { none, asked, joining, joined, alone };
    Phase phase = Phase::none;
    bool making = false;              ///< its id
    std::string id;                   ///< made here, or about to be joined with
    bool told = false;                ///< the coordinator knows that this worker has joined
    std::vector<WorkerId> members;
    Step from = 0;                    ///< the first step that they take together
  };
  /// The last step that a group sums.
  struct HostStep {
    struct Sum {
      Tensor gradient;
      int64_t samples = 0;
      bool finite = true, alone = false;
    };
    Work work;
    Generation generation = 0;
    std::vector<WorkerId> members;
    std::map<LayerId, Sum> sums;
    size_t broadcast = 0;             ///< of host_units_, the next step's weights: given out
    std::map<LayerId, Tensor> next;   ///< those that have come
  };

  const Layout& layout() const { return *membership_.layout; }
  uint32_t stage() const { return options_.self.index % layout().stages; }
  bool owns(LayerId layer) const { return layout().stage_of_layer(layer) == stage(); }
  bool borrows(LayerId layer) const;
  bool computes(LayerId layer) const {
    return owns(layer) || (borrows(layer) && policy(layer).mode == Mode::all_reduce);
  }
  bool computes(const Parcel& parcel) const { return layout().contributes(options_.self.index, parcel); }
  bool reads(LayerId layer) const { return owns(layer) || borrows(layer); }
  bool reads(const Parcel& parcel) const;
  Policy policy(LayerId layer) const { return layout().policies[layer]; }
  Endpoint server_of(ParcelId parcel) const;
  bool lowest() const;
  bool all_reduced() const;
  void send(Effects& out, Endpoint to, Message body) const;
  void to_coordinator(Effects& out, Message body) const { send(out, options_.coordinator, std::move(body)); }

  Status check(const Membership& membership) const;
  Status check_asynchronous(const Layout& layout) const;
  void on(Effects& out, const Membership& membership, Generation generation);
  void forget_reads(const std::vector<Incarnation>& servers_before);
  void on(Effects& out, const Work& work);
  void on(Effects& out, const WorkDoneAck& ack);
  void on(Effects& out, const PushAck& ack);
  void on(Effects& out, const PullReply& reply);
  void on(Effects& out, const Refused& refused);
  void on(Effects& out, const Verdict& verdict);
  void on(Effects& out, const InstallAck& ack, ServerId server);
  void on(Effects& out, const CollectiveId& answer);

  bool has_room() const;
  Running& running(Step step);
  Running& newest() { return running_.back(); }
  Step version_for(const Work& work) const;
  void start(Effects& out);
  void begin(Effects& out);
  void choose_host_layers();
  uint64_t group_plan() const;
  void regroup(Effects& out);
  bool group_undecided() const;
  void say_of_group(Effects& out) const;
  void begin_host_step(const Work& work);
  bool on_host(LayerId layer) const { return host_step_ && host_layers_.contains(layer); }
  bool on_host(const Parcel& parcel) const { return on_host(layout().slices[parcel.slices.front()].layer); }
  std::vector<size_t> layers_on_host() const;
  std::vector<Bucket> host_buckets(const Running& step) const;
  bool is_root() const { return host_step_ && host_step_->members.front() == options_.self.index; }
  bool comes_by_group(const Work& work, LayerId layer) const;
  void broadcast(Effects& out);
  std::optional<std::vector<Broadcast::Part>> parts_of(const std::vector<LayerId>& layers, Step step) const;
  void keep_given(Effects& out);
  void push_host_parcel(Effects& out, ParcelId parcel);
  Push host_push(ParcelId parcel, const HostStep::Sum& sum);
  void push_alone(Effects& out, ParcelId parcel, Push push);
  void confirm_stored(Effects& out, ParcelId parcel, Step arrived);
  void enqueue(Effects& out, ParcelId parcel, Push push);
  void begin_upload(Effects& out);
  void install(Effects& out, const std::vector<std::pair<LayerId, SliceState>>& layers);
  void pull(Effects& out, ParcelId parcel, Step step, Tensor rows = {});
  bool by_rows(ParcelId parcel) const { return ps::by_rows(layout(), layout().parcels[parcel]); }
  void find_rows(Effects& out, const Work& work);
  void pull_rows(Effects& out);
  Tensor rows_in(const Work& work, const Slice& slice) const;
  Tensor row_weights(const Work& work, LayerId layer) const;
  void advance(Effects& out);
  void prepare(Effects& out);
  bool take_weights(LayerId layer);
  bool take_given(LayerId layer);
  void push_everything(Effects& out, Running& step);
  void push_ready_parcels(Effects& out, Running& step, LayerId layer);
  void push(Effects& out, const Running& step, ParcelId parcel);
  void add_rows(Push& push, const Running& step, const Slice& slice) const;
  void send_pushes(Effects& out, ParcelId parcel);
  std::vector<Bucket> buckets(const Running& step) const;
  ApplyLocal update_of(LayerId layer, const Work& work, Tensor gradient, double scale) const;
  void apply(Effects& out, LayerId layer, double scale, bool skip);
  void close(Effects& out, Step step);
  void end(Step step);
  void finish_other_work(Effects& out, const StepStats& stats, double compute_s);

  WorkerOptions options_;
  std::vector<LayerSpec> layers_;
  std::vector<size_t> gradient_order_;
  Membership membership_;
  std::vector<Sequence> next_sequence_;            ///< by server
  std::vector<ParcelState> parcels_;
  std::vector<std::vector<ParcelId>> parcels_of_;  ///< by layer
  std::vector<std::vector<LayerId>> buckets_;      ///< all_reduce layers
  uint64_t next_ticket_ = 1;
  HostGroup host_;
  std::set<LayerId> host_layers_;                  ///< of WorkerOptions::host_layers, those that are summed
  std::vector<std::vector<LayerId>> host_buckets_, host_units_;  ///< summed and broadcast together
  std::optional<HostStep> host_step_;

  uint64_t next_number_ = 1;                       ///< of the work asked for
  std::optional<Work> waiting_;                    ///< has come, does not run yet
  std::deque<Running> running_;                    ///< ascending; the last may wait for weights
  /// By number of a piece of work, the rows that its batch reads, by layer; empty while they are looked for.
  std::map<uint64_t, std::vector<Tensor>> rows_;
  Step computed_ = -1;                             ///< the newest training step that was given out
  std::map<Step, OpenStep> open_;
  std::map<uint64_t, WorkDone> unacked_done_;      ///< by number

  // all_reduce layers, by layer.
  std::vector<SliceState> local_;                  ///< values empty: not pulled yet
  std::vector<Step> local_step_;                   ///< the step that the copy is the input of
  std::map<LayerId, Tensor> reduced_;              ///< of step reduce_work_.step, not given to ApplyLocal yet
  Work reduce_work_;
  double reduced_squares_ = 0;
  bool reduced_finite_ = true;
  std::optional<Partial> partial_;                 ///< said, verdict not come
  std::optional<Verdict> early_verdict_;           ///< came before the last reduction
  std::map<ServerId, Install> installing_;         ///< said, not acknowledged
};

}  // namespace troupe::ps
