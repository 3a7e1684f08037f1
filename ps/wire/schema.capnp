# The protocol of a Troupe run: everything its processes say to each other, and how it looks as bytes.
#
# Read top to bottom, this is the whole story. `ps/messages.h` declares the same messages for C++ and says what each
# is for and what makes it safe to lose, double or delay it; `ps/wire/codec.h` turns one into the other, and is the only
# code that knows this file.
#
# On the wire
# -----------
# One message is a list of frames. Over ZeroMQ they are the parts of a multipart message; in a file, one block
# (`ps/wire/pack.cc`).
#
#   frame 0        the head: 8 bytes XXH3-64 of all that follows in it (little-endian), then an `Envelope` in Cap'n
#                  Proto's standard stream framing. 112 bytes for an acknowledgement, 200 with a tensor.
#                  `tail -c +9 head | capnp decode ps/wire/schema.capnp Envelope` shows one to a person.
#   frames 1..n    the payloads: the elements of one tensor each, row-major, little-endian, nothing else. They are
#                  sent from where the tensor lies and read where they arrive: no byte of a payload is ever copied
#                  only to be framed.
#
# What a receiver does
# --------------------
# Every rule below is checked before memory is taken and before anybody acts on the message. What breaks one is dropped,
# counted and named in the log; the process lives on, and so does the sender's connection.
#
#  1. The head is not longer than the receiver's limit, its checksum is right, and its pointers stay inside it.
#  2. `protocol` is the receiver's own. Versions do not mix within a run, because a run is started from one build; the
#     number exists so that two builds say so instead of misunderstanding each other.
#  3. `run` is the receiver's run, or 0 where there is none yet (Hello, tools). Two jobs that reach the same port by
#     accident part here.
#  4. There is one descriptor a payload, in any order, and each payload is named by exactly one descriptor. Its dtype is
#     known, it has at most six dimensions, none negative, and their product times the size of an element is the
#     descriptor's `bytes` and the frame's length. The product is computed with overflow checks.
#  5. `checksum` is the XXH3-64 of the payload. Memory shared by two processes of a host was never on a wire: there the
#     sender leaves checksums out (`checked` false), and a receiver that wants them refuses such an envelope.
#  6. Each descriptor is used by exactly one field of the body.
#  7. Enumerants are known, steps lie within +-2^48, counters are not negative, layouts and shard images are
#     consistent in themselves. What depends on the receiver's state (its generation, its layout) is the business of
#     the actor that gets the message, which can answer with Refused.
#
# How this file may change
# ------------------------
# Fields and messages are added at the end, with the next free number, and are never renumbered or reused: a retired
# one keeps its place and a comment. Whoever changes the meaning of what is there raises kProtocolVersion. Recorded
# update logs hold these bytes, so an old file is read as long as its protocol number is.

@0xf6f9f31a377e1b34;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("troupe::ps::wire::schema");

struct Envelope {
  # One message on its way. Also nested, as the event of a Replicate: then `protocol`, `run`, `checked` and `tensors`
  # of the inner one are not used, and its body refers to the outer one's tensors.

  protocol @0 :UInt16;
  run @1 :UInt64;

  from :group {
    role @2 :Role;
    index @3 :UInt32;
    incarnation @4 :UInt32;
  }
  to :group {
    # One actor, not the slot that it fills: a message to incarnation 1 of server 0 never reaches incarnation 2.
    role @5 :Role;
    index @6 :UInt32;
    incarnation @7 :UInt32;
  }

  generation @8 :UInt64;
  # The membership that the sender knows. A receiver that knows a newer one does not obey.

  checked @9 :Bool;
  # The descriptors hold checksums.

  tensors @10 :List(TensorDescriptor);

  body :union {
    # In the order of ps/messages.h.

    # worker <-> server
    push @11 :Push;
    pushAck @12 :PushAck;
    pull @13 :Pull;
    pullReply @14 :PullReply;
    refused @15 :Refused;

    # coordinator -> everybody
    membership @16 :Membership;
    membershipAck @17 :MembershipAck;

    # worker <-> coordinator
    workRequest @18 :WorkRequest;
    work @19 :Work;
    workDone @20 :WorkDone;
    workDoneAck @21 :WorkDoneAck;
    partial @22 :Partial;
    verdict @23 :Verdict;

    # checkpoints, counters, the end
    snapshot @24 :Snapshot;
    snapshotReply @25 :SnapshotReply;
    install @26 :Install;
    installAck @27 :InstallAck;
    statsRequest @28 :StatsRequest;
    statsReply @29 :StatsReply;
    fault @30 :Fault;
    finish @31 :Finish;

    # node <-> coordinator
    down @32 :Down;
    downAck @33 :DownAck;
    spawn @34 :Spawn;
    spawnAck @35 :SpawnAck;
    hello @36 :Hello;
    welcome @37 :Welcome;
    rejected @38 :Rejected;
    ready @39 :Ready;
    heartbeat @40 :Heartbeat;
    heartbeatAck @41 :HeartbeatAck;
    routes @42 :Routes;
    leave @43 :Leave;

    # server <-> its replica
    replicate @44 :Replicate;
    replicateAck @45 :ReplicateAck;
    synced @46 :Synced;
    syncedAck @47 :SyncedAck;

    # tools -> coordinator
    statusRequest @48 :StatusRequest;
    statusReply @49 :StatusReply;
    stopRequest @50 :StopRequest;

    # stage <-> stage
    activation @51 :Activation;
    activationAck @52 :ActivationAck;

    # worker <-> coordinator
    collectiveId @53 :CollectiveId;
  }
}

enum Role {
  coordinator @0;
  node @1;
  worker @2;
  server @3;
  replica @4;   # of the server with the same index
  client @5;    # a tool that asks
}

struct Endpoint {
  # An actor, where a message speaks of one.
  role @0 :Role;
  index @1 :UInt32;
  incarnation @2 :UInt32;
}

# ---- tensors --------------------------------------------------------------------------------------------------------

struct TensorDescriptor {
  bytes @0 :UInt64;         # length of the payload frame
  checksum @1 :UInt64;      # XXH3-64 of the payload; 0 where the envelope is not `checked`
  frame @2 :UInt32;         # which payload, counted from 0: frame 1 of the message is payload 0
  dtype @3 :DType;
  shape @4 :List(Int64);    # row-major; no dimension is a scalar
}

enum DType {
  f32 @0;
  f64 @1;
  i32 @2;
  u8 @3;
  f16 @4;
  bf16 @5;
}

# In the messages below a tensor is a UInt32, an index into Envelope.tensors. Unless said otherwise all are F32.

# ---- worker <-> server ----------------------------------------------------------------------------------------------

struct Push {
  # One worker's contribution of one step to one parcel, by (worker, incarnation, sequence) applied exactly once.
  sequence @0 :UInt64;
  step @1 :Int64;
  scheduleStep @2 :Int64;
  samples @3 :Int64;
  scale @4 :Float64;
  parcel @5 :UInt32;
  finite @6 :Bool;
  gradients @7 :List(UInt32);   # one a slice of the parcel; none where samples is 0
  rows @8 :List(UInt32);        # none, or the rows that the one gradient is of: see "rows" below
}

struct PushAck {
  sequence @0 :UInt64;
  step @1 :Int64;
  parcel @2 :UInt32;
}

struct Pull {
  step @0 :Int64;
  ticket @1 :UInt64;
  parcel @2 :UInt32;
  rows @3 :List(UInt32);        # none: the whole parcel; else the rows that are wanted
}

# Rows. A layer whose LayerSpec.rowWidth w is not 0 is one tensor [rows, w] of which a step touches few rows. Each of
# its slices begins and ends with a row and is a parcel of its own. `rows` is then a list of one tensor, I32 of one
# dimension: row numbers counted in the layer, each larger than the one before, all of them in the slice. The gradient
# of a Push, or the value of the PullReply, is F32 of as many times w elements: those rows, one behind the other. No
# row may be named, which counts as a step like any other push. Form (one tensor, I32, one dimension) is checked here;
# order, range and sizes against the layout by whoever has it, before memory is taken (ps/param/request_check.h).

struct SliceState {
  updates @0 :Int64;
  slice @1 :UInt32;
  values @2 :UInt32;
  state @3 :List(UInt32);       # in the optimizer's own order
}

struct PullReply {
  step @0 :Int64;
  ticket @1 :UInt64;
  lag @2 :Int64;
  parcel @3 :UInt32;
  values @4 :List(UInt32);
  state @5 :List(SliceState);
}

struct Refused {
  reason @0 :Reason;
  sequence @1 :UInt64;
  step @2 :Int64;
  parcel @3 :UInt32;
  detail @4 :Text;

  enum Reason {
    staleGeneration @0;
    staleIncarnation @1;
    malformed @2;
  }
}

# ---- membership and layout ------------------------------------------------------------------------------------------

struct Membership {
  # The whole state of the run's membership, and the same bytes for everybody. With some thousand slices it has some
  # hundred kilobytes; it is sent when it changes, not per step.
  generation @0 :UInt64;
  rebase @1 :Int64;
  hasRebase @2 :Bool;
  workers @3 :List(UInt32);     # incarnations by slot; 0: empty
  servers @4 :List(UInt32);
  replicas @5 :List(UInt32);    # by server; 0, or a shorter list: none
  layout @6 :Layout;
}

struct MembershipAck {}

struct Layout {
  servers @0 :UInt32;
  layers @1 :List(LayerSpec);
  policies @2 :List(Policy);    # by layer
  slices @3 :List(Slice);       # their number is their index
  parcels @4 :List(Parcel);     # so is theirs
  stages @5 :UInt32 = 1;
  stageOf @6 :List(UInt32);     # by layer; empty: one stage
}

struct LayerSpec {
  name @0 :Text;
  count @1 :Int64;              # elements
  params @2 :List(ParamSpec);
  rowWidth @3 :Int64;           # elements; 0: not by rows
}

struct ParamSpec {
  name @0 :Text;
  shape @1 :List(Int64);
  offset @2 :Int64;             # elements
  kind @3 :Kind;

  enum Kind {
    weight @0;
    bias @1;
    statistic @2;
  }
}

struct Policy {
  staleness @0 :Int64;          # steps
  mode @1 :Mode;

  enum Mode {
    allReduce @0;
    sync @1;
    ssp @2;
    async @3;
  }
}

struct Slice {
  begin @0 :Int64;              # elements [begin, end) of the layer
  end @1 :Int64;
  layer @2 :UInt32;
  server @3 :UInt32;
}

struct Parcel {
  server @0 :UInt32;
  priority @1 :UInt32;
  policy @2 :Policy;
  slices @3 :List(UInt32);
}

# ---- worker <-> coordinator -----------------------------------------------------------------------------------------

struct WorkRequest {
  number @0 :UInt64;
}

struct Work {
  number @0 :UInt64;
  step @1 :Int64;
  scheduleStep @2 :Int64;
  stepSamples @3 :Int64;
  epoch @4 :Int64;              # the work is samples [begin, begin + count) of the epoch's order
  begin @5 :Int64;
  count @6 :Int64;
  kind @7 :Kind;
  since @8 :Int64;              # the newest step that the replica began with nothing under way
  lossScale @9 :Float64 = 1;    # of the step's backward pass

  enum Kind {
    train @0;
    evaluate @1;
    upload @2;
  }
}

struct WorkDone {
  number @0 :UInt64;
  step @1 :Int64;
  lossSum @2 :Float64;          # may be NaN: the run decides what that means
  correct @3 :Int64;
  samples @4 :Int64;
  computeSeconds @5 :Float64;
  waitSeconds @6 :Float64;
  pushedBytes @7 :Int64;
  pulledBytes @8 :Int64;
  maxLag @9 :Int64;
  kind @10 :Work.Kind;
  nonFinite @11 :Text;
}

struct WorkDoneAck {
  number @0 :UInt64;
}

struct Partial {
  step @0 :Int64;
  sumOfSquares @1 :Float64;
  finite @2 :Bool;
  culprit @3 :Text;
}

struct Verdict {
  step @0 :Int64;
  scale @1 :Float64;
  skip @2 :Bool;
}

# ---- checkpoints, counters, the end ---------------------------------------------------------------------------------

struct Snapshot {
  round @0 :UInt64;
}

struct SnapshotReply {
  round @0 :UInt64;
  slices @1 :List(SliceState);
}

struct Install {
  round @0 :UInt64;
  slices @1 :List(SliceState);
}

struct InstallAck {
  round @0 :UInt64;
}

struct LayerCounters {
  pushes @0 :Int64;
  updates @1 :Int64;
  pushedBytes @2 :Int64;
  pulledBytes @3 :Int64;
  layer @4 :UInt32;
  lagHistogram @5 :List(Int64);
  delayHistogram @6 :List(Int64);
}

struct StatsRequest {
  round @0 :UInt64;
}

struct StatsReply {
  round @0 :UInt64;
  duplicatesDropped @1 :Int64;
  refused @2 :Int64;
  skippedSteps @3 :Int64;
  layers @4 :List(LayerCounters);
}

struct Fault {
  what @0 :Text;
}

struct Finish {}

# ---- node <-> coordinator -------------------------------------------------------------------------------------------

struct Down {
  who @0 :Endpoint;
  reason @1 :Text;
}

struct DownAck {
  who @0 :Endpoint;
}

struct Spawn {
  who @0 :Endpoint;
  takesOver @1 :Endpoint;       # null: nobody
  image @2 :ShardImage;         # null: from the server's store or its first parameters
}

struct SpawnAck {
  who @0 :Endpoint;
}

struct NodeAddress {
  node @0 :UInt32;
  address @1 :Text;             # "tcp://10.0.0.7:41234"
  publicKey @2 :Text;           # CurveZMQ, Z85, 40 characters; empty: the run has no keys
  host @3 :Text;                # equal on processes that can share memory
}

struct Hello {
  # The first message of a process, from a node endpoint of index 0xffffffff and a random incarnation.
  name @0 :Text;
  address @1 :NodeAddress;
  place @2 :Int64;
  takesWorkers @3 :Bool;
  takesServers @4 :Bool;
}

struct Welcome {
  node @0 :Endpoint;
  config @1 :Text;              # the run's resolved TOML
  resumeFrom @2 :Text;
  leaseMs @3 :Int64;
  run @4 :UInt64;               # the envelopes' run from now on
}

struct Rejected {
  reason @0 :Text;
}

struct Ready {
  layers @0 :List(LayerSpec);
  trainSamples @1 :Int64;
  testSamples @2 :Int64;
  configHash @3 :Text;
}

struct Heartbeat {
  number @0 :UInt64;
  queuedMessages @1 :Int64;
  queuedBytes @2 :Int64;
  refusedFrames @3 :Int64;
  routes @4 :UInt64;            # newest version that the node knows
}

struct HeartbeatAck {
  number @0 :UInt64;
}

struct Routes {
  version @0 :UInt64;
  nodes @1 :List(NodeAddress);
  places @2 :List(Place);

  struct Place {
    who @0 :Endpoint;
    node @1 :UInt32;
  }
}

struct Leave {
  gone @0 :Bool;                # its own actors have ended
}

# ---- a server and its replica ---------------------------------------------------------------------------------------

struct Replicate {
  # What the server is about to acknowledge, as its store holds it. Index 0 carries an image and no event, all others an
  # event and no image. An event is never a Replicate itself.
  index @0 :UInt64;
  event @1 :Envelope;
  image @2 :ShardImage;
}

struct ReplicateAck {
  index @0 :UInt64;
}

struct Synced {
  server @0 :Endpoint;
}

struct SyncedAck {
  server @0 :Endpoint;
}

struct ShardImage {
  # Everything a shard knows (ps/param/shard_image.h).
  membership @0 :Membership;
  workers @1 :List(Worker);
  parcels @2 :List(HeldParcel);
  slices @3 :List(SliceState);
  partial @4 :Partial;          # null: no verdict is awaited
  counters @5 :List(LayerCounters);
  duplicatesDropped @6 :Int64;
  refused @7 :Int64;
  skippedSteps @8 :Int64;

  struct Worker {
    highWater @0 :UInt64;
    installRound @1 :UInt64;
    above @2 :List(UInt64);
  }

  struct HeldParcel {
    version @0 :Int64;
    updates @1 :Int64;
    id @2 :UInt32;
    clock @3 :List(Int64);
    reads @4 :List(Read);
    pending @5 :List(Part);
    previous @6 :List(UInt32);
  }

  struct Read {
    step @0 :Int64;
    updates @1 :Int64;
  }

  struct Part {
    samples @0 :Int64;
    scheduleStep @1 :Int64;
    worker @2 :UInt32;
    finite @3 :Bool;
    gradients @4 :List(UInt32);
    rows @5 :List(UInt32);      # as in Push
  }
}

# ---- tools -> coordinator -------------------------------------------------------------------------------------------

struct StatusRequest {}

struct StatusReply {
  json @0 :Text;
}

struct StopRequest {}

# ---- stage <-> stage ------------------------------------------------------------------------------------------------

struct Activation {
  # What one stage of a replica hands to the next or the one before, for one micro-batch; the shape travels with it.
  step @0 :Int64;
  epoch @1 :Int64;              # the micro-batch is samples [begin, begin + count) of the epoch's order
  begin @2 :Int64;
  count @3 :Int64;
  microBatch @4 :UInt32;
  chunk @5 :UInt32;             # the part of the model that it is for, counted from the input
  kind @6 :Kind;
  tensors @7 :List(UInt32);     # any dtype

  enum Kind {
    forward @0;
    backward @1;
    tied @2;
  }
}

struct ActivationAck {
  step @0 :Int64;
  microBatch @1 :UInt32;
  chunk @2 :UInt32;
  kind @3 :Activation.Kind;
}

# ---- collectives between processes ----------------------------------------------------------------------------------

struct CollectiveId {
  retired0 @0 :UInt32;          # the stage
  id @1 :Data;                  # what the library that connects the members made; empty: asked for
  device @2 :Text;              # kind of the asking worker's; empty from the coordinator
  members @3 :List(UInt32);     # worker slots, ascending; empty from a worker
  joined @4 :Bool;              # of the worker that says it, or is answered
  first @5 :Int64;              # no sum of the group has an earlier step; 0 from a worker
}
