#include <troupe/ps/control/coordinator_core.h>

#include <algorithm>
#include <set>

// How the workers of one host find each other for collectives (CollectiveId), and who has not joined in time.
namespace troupe::ps {
namespace {

// Of a worker without a device: processes add up in host memory by themselves (combining_transport.h).
bool adds_up(const std::string& device) { return device != "cpu"; }

}  // namespace

// Those of one process share its host, whatever it says of that.
std::vector<WorkerId> CoordinatorCore::on_host_of(WorkerId w) const {
  const std::string host = roster_.host_of(Role::worker, w);
  const auto home = roster_.home(Role::worker, w);
  std::vector<WorkerId> members;
  for (WorkerId x = 0; x < membership_.workers.size(); ++x) {
    if (membership_.workers[x] == 0) continue;
    const bool same_process = home && roster_.home(Role::worker, x) == home;
    const bool same_host = !host.empty() && roster_.host_of(Role::worker, x) == host;
    if (x == w || same_process || same_host) members.push_back(x);
  }
  return members;
}

void CoordinatorCore::on(Effects& out, const Envelope& envelope, const CollectiveId& said) {
  if (envelope.from.role != Role::worker || envelope.generation != membership_.generation) return;
  if (collectives_.generation != membership_.generation) collectives_ = {membership_.generation, now_ms(), {}};
  std::map<WorkerId, Collectives::Said>& all = collectives_.said;
  const WorkerId w = envelope.from.index;
  const std::vector<WorkerId> members = on_host_of(w);
  Collectives::Said& mine = all[w];
  mine.device = said.device;
  mine.joined = mine.joined || said.joined;
  if (said.joined) return send(out, envelope.from, CollectiveId{"", members, "", true});
  // Somebody moves, or is started again: members are about to be others, who are no group with that id.
  if (!spawning_.empty() || !homeless_.empty()) return;
  const bool news = mine.id.empty() && !said.id.empty() && members.front() == w;
  if (mine.id.empty()) mine.id = said.id;
  for (const WorkerId x : members)
    if (!all.contains(x)) return;  // it will say so, and whoever waits says it again
  for (const WorkerId x : members)
    if (all[x].device != mine.device)
      return fail_run(out, cat("worker ", w, " computes on ", mine.device, ", worker ", x, " of the same host on ",
                               all[x].device,
                               ": they add up nothing together; set parallel.device to one of them for all processes"));
  if (members.size() == 1 || !adds_up(mine.device))
    return send(out, envelope.from, CollectiveId{"", {w}, "", false});
  const std::string& id = all[members.front()].id;
  // In no sum is a step that a worker, before it was started again, may have pushed; nor one that was dealt before a
  // server was lost that kept nothing, since its verdict waits until all have done it (decide), and a member has done a
  // sum when the next weights come. No worker knows of either.
  Step first = 0;
  for (const WorkerId x : members)
    if (membership_.workers[x] > 1) first = std::max(first, slots_[x].next_step);
  for (const auto& [server, back] : reloaded_) first = std::max(first, back.since);
  const CollectiveId answer{"", members, id, false, first};
  if (id.empty()) return send(out, worker(members.front()), answer);
  if (!news) return send(out, envelope.from, answer);
  for (const WorkerId x : members) send(out, worker(x), answer);
}

// Of a group that is not complete, those who are furthest behind: the others wait for them.
std::set<WorkerId> CoordinatorCore::late_members() const {
  std::set<WorkerId> late;
  const auto progress = [this](WorkerId w) {
    const auto found = collectives_.said.find(w);
    if (found == collectives_.said.end()) return 0;
    return found->second.joined ? 3 : found->second.id.empty() ? 1 : 2;
  };
  for (const auto& [w, said] : collectives_.said) {
    const std::vector<WorkerId> members = on_host_of(w);
    if (members.size() == 1 || !adds_up(said.device)) continue;
    const int slowest = progress(std::ranges::min(members, {}, progress));
    if (slowest == 3) continue;
    for (const WorkerId x : members)
      if (progress(x) == slowest) late.insert(x);
  }
  return late;
}

void CoordinatorCore::judge_collectives(Effects& out) {
  if (collectives_.generation != membership_.generation || collectives_.said.empty()) return;
  const bool changing = !spawning_.empty() || !homeless_.empty() || !unacknowledged_.empty();
  if (changing) collectives_.since_ms = now_ms();  // another generation is on its way, and another group
  if (now_ms() - collectives_.since_ms < options_.join_timeout_ms) return;
  const std::set<WorkerId> late = late_members();
  if (late.empty()) return;
  std::string who;
  for (const WorkerId w : late) {
    const auto home = roster_.home(Role::worker, w);
    who += cat(who.empty() ? "" : ", ", "worker ", w, home ? cat(" on ", roster_.describe(*home)) : "");
  }
  fail_run(out, cat(who, late.size() == 1 ? " has" : " have", " not joined the devices of the same host within ",
                    static_cast<double>(options_.join_timeout_ms) / 1000,
                    " s: its log says what it does; what stands between the devices NCCL tells with NCCL_DEBUG=INFO"));
}

}  // namespace troupe::ps
