#pragma once
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <caf/all.hpp>

#include <troupe/kernels/base/result.h>
#include <troupe/ps/control/reload.h>
#include <troupe/ps/control/stage_core.h>
#include <troupe/ps/control/worker_core.h>
#include <troupe/ps/transport/transport.h>

/// What goes through mailboxes. Between the actors of a run there is one signature, the envelope: which
/// messages exist and what they mean is said in ps/messages.h, once. The rest is between an actor and its own
/// executors and timers.
namespace troupe {

using tick_atom = caf::atom_constant<caf::atom("tick")>;

/// What an executor tells the worker that gave it a task.
struct GradientDone {
  ps::Step step = 0;
  ps::LayerId layer = 0;
  Tensor gradient;
  double sum_of_squares = 0;
  bool finite = true;
};
struct BackwardDone {
  ps::Step step = 0;
  StepStats stats;
  double compute_s = 0, wait_s = 0;
};
struct EvaluateDone {
  StepStats stats;
  double compute_s = 0;
};
struct ReduceDone {
  ps::Step step = 0;
  ps::LayerId layer = 0;
  Tensor gradient;
  double sum_of_squares = 0;
  bool finite = true;
};
struct ApplyDone {
  ps::Step step = 0;
  std::vector<std::pair<ps::LayerId, ps::SliceState>> layers;
};
/// What Fetch asked for.
struct FetchDone {
  std::vector<std::pair<ps::LayerId, ps::SliceState>> layers;
};
/// What MakeGroup and JoinGroup asked for: the id that was made, or is being joined with; and the joined group.
struct GroupKnown {
  ps::Generation generation = 0;
  std::string id;
};
struct GroupJoined {
  ps::Generation generation = 0;
  ps::Step from = 0;
};
/// A stage's: its own tasks, each with what it gave and how long it took.
struct StageTaskDone {
  ps::StageTask task;
  Tensor output;
  StepStats stats;
  double compute_s = 0;
};
/// A layer's sum over the micro-batches of a stage.
struct StageSum {
  uint64_t work = 0;  ///< its number
  ps::LayerId layer = 0;
  Tensor sum;
};
/// Rows that a piece of work reads of the layers by rows, by layer.
struct RowsDone {
  uint64_t work = 0;  ///< its number
  std::vector<Tensor> rows;
};
struct TaskFailed {
  std::string what;
};
using TaskDone = std::variant<GradientDone, BackwardDone, EvaluateDone, ReduceDone, ApplyDone, FetchDone, GroupKnown,
                              GroupJoined, ps::HostSum, ps::HostWeights, StageTaskDone, StageSum, RowsDone, TaskFailed>;
using TaskDonePtr = std::shared_ptr<const TaskDone>;

/// What a server hears from the executor that made its store's events safe, from the device and the queue of a shard
/// that lives on one (serving.h), and a replica from the node that has it become the server.
struct CommitDone {
  Status status;
};
struct DeviceDone {
  Status status;
};
struct ServingOver {
  std::string why;  ///< empty: it was replaced
};
struct TakeOver {
  ps::Endpoint server;
};
using ServerControl = std::variant<CommitDone, DeviceDone, ServingOver, TakeOver>;
using ServerControlPtr = std::shared_ptr<const ServerControl>;

/// What whoever writes and reads checkpoints tells the coordinator, and what a program asks of it.
struct CheckpointDone {
  Status status;
};
struct ReloadDone {
  ps::Endpoint server;
  Result<ps::Reload> read;
};
struct StartRun {};
struct StopRun {};
struct ChangePolicies {
  std::vector<ps::UpdateRule> rules;
};
/// The transport's connection to a node broke.
struct LinkLost {
  uint32_t node = 0;
};
using Control = std::variant<StartRun, CheckpointDone, ReloadDone, StopRun, ChangePolicies, LinkLost>;
using ControlPtr = std::shared_ptr<const Control>;

/// What a node made of the run's config, and how it makes actors now.
struct Prepared {
  ps::Ready ready;
  /// Under the generation of the order.
  std::function<caf::actor(const ps::Spawn&, ps::Generation)> spawn;
};
/// What a process tells its node: it is prepared (or why it cannot be), or wants to leave the run.
struct PrepareDone {
  Result<Prepared> prepared;
};
struct LeaveRun {};
using NodeControl = std::variant<PrepareDone, LeaveRun>;
using NodeControlPtr = std::shared_ptr<const NodeControl>;

}  // namespace troupe

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::ps::EnvelopePtr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::TaskDonePtr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::ControlPtr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::NodeControlPtr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::ServerControlPtr)

namespace troupe {

using ServerActor =
    caf::typed_actor<caf::reacts_to<ps::EnvelopePtr>, caf::reacts_to<ServerControlPtr>, caf::reacts_to<tick_atom>>;
using ReplicaActor = ServerActor;  // which becomes a server's
using NodeActor =
    caf::typed_actor<caf::reacts_to<ps::EnvelopePtr>, caf::reacts_to<NodeControlPtr>, caf::reacts_to<tick_atom>>;
using WorkerActor =
    caf::typed_actor<caf::reacts_to<ps::EnvelopePtr>, caf::reacts_to<TaskDonePtr>, caf::reacts_to<tick_atom>>;
using CoordinatorActor =
    caf::typed_actor<caf::reacts_to<ps::EnvelopePtr>, caf::reacts_to<ControlPtr>, caf::reacts_to<tick_atom>>;

}  // namespace troupe
