#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <troupe/ps/control/bucket_filler.h>
#include <troupe/ps/messages.h>
#include <troupe/ps/param/optimizer.h>

namespace troupe::ps {

struct WorkerOptions {
  Endpoint self;                    ///< worker, slot, incarnation
  Endpoint coordinator{Role::coordinator, 0, 1};
  Generation since = 0;             ///< of the order to start it: no coordinator of an older one is heeded
  double clip_norm = 0;             ///< global norm of the mean gradient; 0: off
  bool skip_non_finite = false;     ///< else a NaN or Inf gradient ends the run
  /// Layers of other stages whose weights it needs, too (tied ones). Where they are all_reduced it applies their updates
  /// itself, as the owner does, from the same gradients.
  std::vector<LayerId> reads;
  int64_t bucket_bytes = 1 << 20;   ///< of all_reduce layers that are reduced together (buckets.h)
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
/// A worker that is one stage of its replica (Layout::stages) asks and answers for its own layers alone.
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
  Effects evaluated(const StepStats& stats, double compute_s);
  /// `sum_of_squares` is of the summed gradient.
  Effects reduced(Step step, LayerId layer, Tensor gradient, double sum_of_squares, bool finite);
  Effects applied_locally(Step step, LayerId layer, SliceState local);
  /// What Fetch asked for, in host memory.
  Effects fetched(std::vector<std::pair<LayerId, SliceState>> layers);

  /// Says again what has not been answered: every so often on a transport that loses messages.
  Effects tick();

  const Membership& membership() const { return membership_; }
  /// Weights of the step that runs, by layer; empty where they have not come. Copies may be held.
  const std::vector<Tensor>& weights() const { return weights_; }
  /// The group decides on every step (clipping, skipping), so gradients wait for the whole backward pass.
  bool holds_pushes() const { return options_.clip_norm > 0 || options_.skip_non_finite; }

 private:
  struct ParcelState {
    std::optional<Push> unacked;      ///< said, not acknowledged
    std::optional<Push> queued;       ///< behind it
    std::optional<Pull> pulling;      ///< said, not answered
    Step arrived_step = -1;           ///< step that `arrived` is for
    PullReply arrived;
  };
  struct OpenStep {                   ///< a step that is not done
    WorkDone done;
    int64_t missing = 0;              ///< acknowledgements and all_reduce layers, plus one until backward is done
  };

  const Layout& layout() const { return *membership_.layout; }
  uint32_t stage() const { return options_.self.index % layout().stages; }
  bool owns(LayerId layer) const { return layout().stage_of_layer(layer) == stage(); }
  bool borrows(LayerId layer) const;
  bool computes(LayerId layer) const { return owns(layer) || (borrows(layer) && policy(layer).mode == Mode::all_reduce); }
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
  void on(Effects& out, const Membership& membership, Generation generation);
  void forget_reads(const std::vector<Incarnation>& servers_before);
  void on(Effects& out, const Work& work);
  void on(Effects& out, const WorkDoneAck& ack);
  void on(Effects& out, const PushAck& ack);
  void on(Effects& out, const PullReply& reply);
  void on(Effects& out, const Refused& refused);
  void on(Effects& out, const Verdict& verdict);
  void on(Effects& out, const InstallAck& ack, ServerId server);

  void start(Effects& out);
  void begin(Effects& out);
  void begin_upload(Effects& out);
  void install(Effects& out, const std::vector<std::pair<LayerId, SliceState>>& layers);
  void pull(Effects& out, ParcelId parcel, Step step);
  void advance(Effects& out);
  void prepare(Effects& out) const;
  bool take_weights(LayerId layer);
  void push_everything(Effects& out);
  void push_ready_parcels(Effects& out, LayerId layer);
  void push(Effects& out, ParcelId parcel);
  void send_push(Effects& out, ParcelId parcel, Push push);
  std::vector<Bucket> buckets(const Work& work) const;
  ApplyLocal update_of(LayerId layer, const Work& work, Tensor gradient, double scale) const;
  void apply(Effects& out, LayerId layer, double scale, bool skip);
  void close(Effects& out, Step step);
  void end_current();
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

  uint64_t next_number_ = 1;                       ///< of the work asked for
  std::optional<Work> waiting_;                    ///< has come, does not run yet
  std::optional<Work> current_;
  std::map<Step, OpenStep> open_;
  std::map<uint64_t, WorkDone> unacked_done_;      ///< by number

  // The step that runs.
  std::vector<Tensor> weights_;                    ///< by layer
  size_t forwarded_ = 0;                           ///< layers given to Forward
  bool backward_given_ = false;
  std::vector<Tensor> gradients_;                  ///< by layer
  BucketFiller filler_;                            ///< of a stage
  double sum_of_squares_ = 0;
  std::vector<LayerId> non_finite_;

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
