#pragma once
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <troupe/kernels/nn/gradient_source.h>
#include <troupe/kernels/tensor/tensor.h>
#include <troupe/ps/ids.h>
#include <troupe/ps/param/layout.h>

/// Everything actors of a run say to each other, one struct a message. Transports carry them inside an
/// `Envelope`; `ps/wire` (between processes) is the only other place that knows their fields.
///
/// Every message may be lost, doubled, delayed and overtaken. What makes that safe is named beside each.
namespace troupe::ps {

struct Envelope;
struct ShardImage;

// ---- worker <-> server ---------------------------------------------------------------------------------

/// One worker's contribution of one step to one parcel. Sent again until acknowledged; the server drops
/// copies by (worker, incarnation, sequence), and what a restarted worker repeats by (worker, parcel, step).
/// A worker has at most one unacknowledged push a parcel.
struct Push {
  Sequence sequence = 0;
  ParcelId parcel = 0;
  Step step = 0;
  Step schedule_step = 0;  ///< global progress, which learning-rate schedules follow
  int64_t samples = 0;     ///< 0: nothing to add, but the step counts (`gradients` is empty)
  /// One tensor a slice of the parcel, in its order: sums over the samples. Immutable.
  std::vector<Tensor> gradients;
  double scale = 1;        ///< global-norm clipping of an immediate push, worked out by the worker
  bool finite = true;      ///< false: some gradient of this worker's step holds NaN or Inf
  /// Of a parcel by rows, which holds one slice: whose gradients these are, i32[n], ascending, numbered as in the
  /// layer. Empty where `gradients` is, and for all other parcels.
  Tensor rows;
};

/// The push is stored and will survive what `[checkpoint] durability` says; it is or will be applied once.
struct PushAck {
  Sequence sequence = 0;
  ParcelId parcel = 0;
  Step step = 0;
};

/// Asks for the parameters that step `step` starts from. Answered when the policy allows it. Idempotent.
struct Pull {
  ParcelId parcel = 0;
  Step step = 0;
  uint64_t ticket = 0;  ///< comes back in the reply, so that a late reply is not taken for a newer one
  Tensor rows;          ///< of a parcel by rows: those wanted, as in a Push; empty: all of it
};

/// Optimizer state of one slice, in the optimizer's own order ("momentum"; "m", "v").
struct SliceState {
  SliceId slice = 0;
  Tensor values;               ///< parameters, f32[slice count]
  std::vector<Tensor> state;   ///< each f32[slice count]
  int64_t updates = 0;         ///< optimizer steps applied (bias correction, metrics)
};

struct PullReply {
  ParcelId parcel = 0;
  Step step = 0;               ///< of the Pull it answers, as is the ticket
  uint64_t ticket = 0;
  /// One a slice; the server's published version, shared and immutable. Of rows that were asked for: those, flat.
  std::vector<Tensor> values;
  int64_t lag = 0;             ///< steps by which the slowest worker is behind `step`: the read's staleness
  /// Only for all_reduce parcels, whose optimizer runs on the workers: their state as well.
  std::vector<SliceState> state;
};

/// The request was not taken and changed nothing.
struct Refused {
  enum class Reason : uint8_t {
    stale_generation,   ///< sent under an older layout: send again under the one that comes
    stale_incarnation,  ///< the sender has been replaced
    malformed,          ///< parcel, step, size or shape that cannot be: a bug or a foreign peer
  };
  Reason reason = Reason::malformed;
  std::string detail;
  Sequence sequence = 0;  ///< of the refused Push, else 0
  ParcelId parcel = 0;
  Step step = 0;
};

// ---- coordinator -> everybody: membership ---------------------------------------------------------------

/// The state of the run's membership; the higher generation wins. Sent until acknowledged.
struct Membership {
  Generation generation = 0;
  std::vector<Incarnation> workers;  ///< by slot; 0: empty slot
  std::vector<Incarnation> servers;
  std::shared_ptr<const Layout> layout;
  /// Set when everything stood still as the generation began (start, resume, policy change): all clocks and
  /// sync versions continue from this step.
  std::optional<Step> rebase;
  std::vector<Incarnation> replicas;  ///< by server; 0, or a shorter list: none
};
struct MembershipAck {};

// ---- worker <-> coordinator: work -----------------------------------------------------------------------

/// Samples [begin, begin + count) of an epoch's order (ps/data/sampler.h).
struct SampleRange {
  int64_t epoch = 0;
  int64_t begin = 0;
  int64_t count = 0;
  bool operator==(const SampleRange&) const = default;
};

/// "Give me my number-th piece of work"; numbers count from 1 an incarnation. Sent again until answered;
/// asking for a number again gives the same work.
struct WorkRequest {
  uint64_t number = 0;
};
struct Work {
  enum class Kind : uint8_t {
    train,     ///< one step
    evaluate,  ///< loss and accuracy on test samples [range.begin, +count)
    upload,    ///< write the all_reduce layers home to the servers, then report done
  };
  uint64_t number = 0;
  Kind kind = Kind::train;
  Step step = 0;
  Step schedule_step = 0;
  int64_t step_samples = 0;  ///< of all workers together; known under lockstep, else this worker's
  SampleRange range;         ///< count may be 0: the step counts all the same
  Step since = 0;            ///< nothing was under way in the replica when this step began, the newest of that kind: an
                             ///< asynchronous pipeline reads no older version of its weights
  double loss_scale = 1;     ///< by which the step's loss is multiplied for the backward pass, of all workers alike
};
/// All pushes of that piece of work are acknowledged. Sent again until acknowledged itself.
struct WorkDone {
  uint64_t number = 0;
  Work::Kind kind = Work::Kind::train;
  Step step = 0;
  StepStats stats;
  double compute_s = 0;  ///< executor time
  double wait_s = 0;     ///< waiting for weights
  int64_t pushed_bytes = 0, pulled_bytes = 0;
  int64_t max_lag = 0;   ///< largest staleness of this step's reads, steps
  std::string non_finite;  ///< "layer fc1" where the worker's own gradient held NaN or Inf
};
struct WorkDoneAck {
  uint64_t number = 0;
};

// ---- the group's decision on a step: clipping and non-finite gradients ------------------------------------

/// One member's part of the step's whole gradient: a server's (its sync slices, aggregated) or, for the
/// all_reduce layers, the lowest worker's. Sent again until the verdict comes.
struct Partial {
  Step step = 0;
  double sum_of_squares = 0;  ///< of the mean gradient
  bool finite = true;
  std::string culprit;        ///< "layer fc1, worker 2" where not finite
};
/// What everybody does with the step: skip it, or apply the gradient times `scale`.
struct Verdict {
  Step step = 0;
  bool skip = false;
  double scale = 1;
};

// ---- checkpoints and homes --------------------------------------------------------------------------------

/// Taken between steps, when no push is in flight; a server that still waits for a verdict answers when it has
/// come. Idempotent by round.
struct Snapshot {
  uint64_t round = 0;
};
struct SnapshotReply {
  uint64_t round = 0;
  std::vector<SliceState> slices;  ///< immutable: training goes on while they are written
};
/// The lowest worker brings all_reduce layers home. Idempotent.
struct Install {
  uint64_t round = 0;  ///< number of the Work that asked for it
  std::vector<SliceState> slices;
};
struct InstallAck {
  uint64_t round = 0;
};

/// Cumulative counters of a server, for metrics and the summary. Sent on request.
struct LayerCounters {
  LayerId layer = 0;
  int64_t pushes = 0, updates = 0;
  int64_t pushed_bytes = 0, pulled_bytes = 0;
  std::vector<int64_t> lag_histogram;    ///< pulls by staleness in steps; the last bin holds the rest
  std::vector<int64_t> delay_histogram;  ///< immediate pushes by updates that came between read and push
};
struct StatsRequest {
  uint64_t round = 0;
};
struct StatsReply {
  uint64_t round = 0;
  std::vector<LayerCounters> layers;
  int64_t duplicates_dropped = 0, refused = 0, skipped_steps = 0;
};

// ---- the end --------------------------------------------------------------------------------------------------

/// Something cannot go on (a non-finite gradient under `stop`, a failing step): the run ends with this.
struct Fault {
  std::string what;
};
/// The run is over; the receiver ends.
struct Finish {};

// ---- node <-> coordinator -------------------------------------------------------------------------------------

/// An actor of this node ended without being told to.
struct Down {
  Endpoint who;
  std::string reason;
};
struct DownAck {
  Endpoint who;
};
/// Start this actor in its slot. Idempotent by incarnation.
struct Spawn {
  Endpoint who;
  /// A server that goes on from the replica of its shard, which this node holds; the replica ends.
  std::optional<Endpoint> takes_over;
  /// A server that goes on from here; null: from its store or its first parameters.
  std::shared_ptr<const ShardImage> image;
};
struct SpawnAck {
  Endpoint who;
};

// ---- node <-> coordinator: joining, staying, leaving --------------------------------------------------------------

/// Where a process is reached.
struct NodeAddress {
  uint32_t node = 0;          ///< index of its node endpoint; unused in Hello
  std::string address;        ///< "tcp://10.0.0.7:41234", as peers reach it; empty: only over links it made itself
  std::string public_key;     ///< CurveZMQ, Z85, 40 characters; empty: the run has no keys
  std::string host;           ///< equal on processes that can share memory; empty: shares with nobody
};

/// "I want to be part of the run": the first message of a process. Its sender is a node endpoint of index
/// kUnassigned and a random incarnation, by which the answer finds it. Sent again until answered.
inline constexpr uint32_t kUnassigned = 0xffffffff;
struct Hello {
  std::string name;           ///< for people: "host:pid"
  NodeAddress address;
  bool takes_workers = true, takes_servers = true;
  int64_t place = -1;         ///< the launcher's number for it, by which slots are shared out; -1: none
};
/// The process is node `node` of the run; everything it needs to prepare. Idempotent.
struct Welcome {
  Endpoint node;              ///< its endpoint from now on
  uint64_t run = 0;           ///< names the run: frames of others are refused from now on
  std::string config;         ///< the run's resolved TOML
  std::string resume_from;    ///< checkpoint that the run began from; empty: none
  int64_t lease_ms = 0;       ///< whoever is not heard of for so long is taken for dead
};
/// The process is not wanted: another run, protocol, key or config, or no slot will be free. It ends with this text.
struct Rejected {
  std::string reason;
};
/// What the node made of the config, to be compared with the run's before it gets a slot. Sent again until a
/// HeartbeatAck with number 0 or Rejected comes.
struct Ready {
  std::vector<LayerSpec> layers;
  int64_t train_samples = 0, test_samples = 0;
  std::string config_hash;    ///< of its own config file, where it was started with one; else empty
};
/// "I am alive", every third of the lease.
struct Heartbeat {
  uint64_t number = 0;
  int64_t queued_messages = 0, queued_bytes = 0;  ///< waiting in its transport
  int64_t refused_frames = 0;                     ///< from peers that sent garbage
  uint64_t routes = 0;                            ///< newest version that it knows
};
struct HeartbeatAck {
  uint64_t number = 0;
};
/// Who is reached where. The highest version wins; sent before what depends on it.
struct Routes {
  struct Place {
    Endpoint who;
    uint32_t node = 0;
  };
  uint64_t version = 0;
  std::vector<NodeAddress> nodes;
  std::vector<Place> places;
};
/// The process wants to go (SIGTERM): what it holds is moved elsewhere. Sent again until Finish comes. Once its own
/// actors have ended after a Finish, it says so with `gone`, and is not waited for any more.
struct Leave {
  bool gone = false;
};

// ---- a server and the replica of its shard --------------------------------------------------------------------------

/// One event of a shard, as its store holds it, for its replica (endpoint: Role::replica, the server's index). Events
/// count from 1 a server incarnation; index 0 begins it, with the shard's image. Sent again until acknowledged.
struct Replicate {
  uint64_t index = 0;
  std::shared_ptr<const Envelope> event;   ///< null for index 0
  std::shared_ptr<const ShardImage> image;  ///< only with index 0
};
/// The replica holds everything up to `index`.
struct ReplicateAck {
  uint64_t index = 0;
};

/// The replica holds an image of this server incarnation and all that followed. To the coordinator; sent again
/// until acknowledged.
struct Synced {
  Endpoint server;
};
struct SyncedAck {
  Endpoint server;
};

// ---- tools -> coordinator -------------------------------------------------------------------------------------------

/// `troupe status`: answered with a JSON object.
struct StatusRequest {};
struct StatusReply {
  std::string json;
};
/// `troupe stop`: ends the run at the next step boundary, with a checkpoint. Answered with a StatusReply.
struct StopRequest {};

// ---- stage <-> stage ------------------------------------------------------------------------------------------------

/// What one stage of a replica hands to a neighbour for one micro-batch. Sent again until acknowledged; the receiver
/// drops copies by (step, micro-batch, chunk, kind), and acknowledges what belongs to a step that is over.
struct Activation {
  enum class Kind : uint8_t {
    forward,   ///< outputs of the chunk before `chunk`
    backward,  ///< d loss / d outputs of `chunk`
    tied,      ///< gradient of a tied layer, summed over the step's micro-batches, for `chunk`, which has the layer;
               ///< `micro_batch` is then the layer
  };
  Kind kind = Kind::forward;
  Step step = 0;
  uint32_t micro_batch = 0;
  uint32_t chunk = 0;           ///< the part of the model it is for, counted from the input
  SampleRange samples;          ///< of the micro-batch: must be the receiver's own
  std::vector<Tensor> tensors;  ///< immutable; their shapes may differ between micro-batches
};
struct ActivationAck {
  Activation::Kind kind = Activation::Kind::forward;
  Step step = 0;
  uint32_t micro_batch = 0;
  uint32_t chunk = 0;
};

// ---- collectives between processes ----------------------------------------------------------------------------------

/// How the workers of one host find each other, whose devices add up the gradients of all_reduce layers before one of
/// them says the sum to the servers. A worker says what kind of device it has. When all of its host have, the
/// coordinator asks the lowest for what the members need to join (ncclUniqueId), and hands it to all of them. Each says
/// the id when it begins to wait for the others, and then that it has joined: whoever has not can be named. Each
/// generation is another group. A worker says its part again until it has the answer.
///
///     worker 2 --{cuda}--> coordinator --{2 3, no id}--> worker 2 --{cuda, id}--> coordinator --{2 3, id}--> both
///     each --{cuda, id}--> coordinator, which says it again
///     each --{cuda, joined}--> coordinator --{2 3, joined}--> that one
struct CollectiveId {
  std::string device;             ///< "cuda", of the worker that asks; empty from the coordinator
  std::vector<WorkerId> members;  ///< ascending: their ranks; empty from a worker
  std::string id;                 ///< bytes; empty: asked for
  bool joined = false;            ///< of the worker that says it, or is answered
  Step first = 0;                 ///< no sum of the group has an earlier step; 0 from a worker
};

using Message = std::variant<Push, PushAck, Pull, PullReply, Refused, Membership, MembershipAck, WorkRequest, Work,
                             WorkDone, WorkDoneAck, Partial, Verdict, Snapshot, SnapshotReply, Install, InstallAck,
                             StatsRequest, StatsReply, Fault, Finish, Down, DownAck, Spawn, SpawnAck, Hello, Welcome,
                             Rejected, Ready, Heartbeat, HeartbeatAck, Routes, Leave, Replicate, ReplicateAck, Synced,
                             SyncedAck, StatusRequest, StatusReply, StopRequest, Activation, ActivationAck,
                             CollectiveId>;

/// One message on its way. `generation` is the sender's: a receiver that knows a newer one does not obey.
struct Envelope {
  Endpoint from, to;
  Generation generation = 0;
  Message body;
};

/// What a pure object wants sent, in order.
using Outbox = std::vector<Envelope>;

const char* name_of(const Message& message);

}  // namespace troupe::ps
