#include <troupe/ps/messages.h>

namespace troupe::ps {

const char* name_of(const Message& message) {
  static constexpr const char* kNames[] = {
      "Push",     "PushAck",      "Pull",       "PullReply",  "Refused",  "Membership", "MembershipAck",
      "WorkRequest", "Work",      "WorkDone",   "WorkDoneAck", "Partial", "Verdict",    "Snapshot",
      "SnapshotReply", "Install", "InstallAck", "StatsRequest", "StatsReply", "Fault",  "Finish",
      "Down",     "DownAck",      "Spawn",      "SpawnAck",   "Hello",    "Welcome",    "Rejected",
      "Ready",    "Heartbeat",    "HeartbeatAck", "Routes",   "Leave",    "Replicate",  "ReplicateAck",
      "Synced",   "SyncedAck", "StatusRequest", "StatusReply", "StopRequest",
      "Activation", "ActivationAck", "CollectiveId"};
  static_assert(std::size(kNames) == std::variant_size_v<Message>);
  return kNames[message.index()];
}

}  // namespace troupe::ps
