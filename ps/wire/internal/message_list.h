#pragma once
/// Every message: its name in ps/messages.h, which is also that of its struct in schema.capnp and of its place in
/// the union there, and the constant that Cap'n Proto makes of it.
#define TROUPE_WIRE_MESSAGES(X)      \
  X(Push, PUSH)                      \
  X(PushAck, PUSH_ACK)               \
  X(Pull, PULL)                      \
  X(PullReply, PULL_REPLY)           \
  X(Refused, REFUSED)                \
  X(Membership, MEMBERSHIP)          \
  X(MembershipAck, MEMBERSHIP_ACK)   \
  X(WorkRequest, WORK_REQUEST)       \
  X(Work, WORK)                      \
  X(WorkDone, WORK_DONE)             \
  X(WorkDoneAck, WORK_DONE_ACK)      \
  X(Partial, PARTIAL)                \
  X(Verdict, VERDICT)                \
  X(Snapshot, SNAPSHOT)              \
  X(SnapshotReply, SNAPSHOT_REPLY)   \
  X(Install, INSTALL)                \
  X(InstallAck, INSTALL_ACK)         \
  X(StatsRequest, STATS_REQUEST)     \
  X(StatsReply, STATS_REPLY)         \
  X(Fault, FAULT)                    \
  X(Finish, FINISH)                  \
  X(Down, DOWN)                      \
  X(DownAck, DOWN_ACK)               \
  X(Spawn, SPAWN)                    \
  X(SpawnAck, SPAWN_ACK)             \
  X(Hello, HELLO)                    \
  X(Welcome, WELCOME)                \
  X(Rejected, REJECTED)              \
  X(Ready, READY)                    \
  X(Heartbeat, HEARTBEAT)            \
  X(HeartbeatAck, HEARTBEAT_ACK)     \
  X(Routes, ROUTES)                  \
  X(Leave, LEAVE)                    \
  X(Replicate, REPLICATE)            \
  X(ReplicateAck, REPLICATE_ACK)     \
  X(Synced, SYNCED)                  \
  X(SyncedAck, SYNCED_ACK)           \
  X(StatusRequest, STATUS_REQUEST)   \
  X(StatusReply, STATUS_REPLY)       \
  X(StopRequest, STOP_REQUEST)       \
  X(Activation, ACTIVATION)          \
  X(ActivationAck, ACTIVATION_ACK)   \
  X(CollectiveId, COLLECTIVE_ID)
