// What befalls whom, and which ends of a run that excuses.
#include "world.h"

namespace troupe::sim {
namespace {

constexpr int64_t kTakeOverUs = 5'000;  // until somebody goes on in the place of a coordinator that stands still

}  // namespace

void Simulation::befall(const Mishap& m) {
  if (healed_ || !cluster_) return;
  switch (m.kind) {
    case Mishap::Kind::crash_worker: return crash(newest(Role::worker, m.slot));
    case Mishap::Kind::crash_server: return crash(newest(Role::server, m.slot));
    case Mishap::Kind::zombie_worker: return give_up(newest(Role::worker, m.slot));
    case Mishap::Kind::zombie_server: return give_up(newest(Role::server, m.slot));
    case Mishap::Kind::cut_off_worker: return cut_off(newest(Role::worker, m.slot), m.for_us);
    case Mishap::Kind::cut_off_server: return cut_off(newest(Role::server, m.slot), m.for_us);
    case Mishap::Kind::change_policies:
      note([] { return std::string("policies are to change"); });
      return cluster_->change_policies(m.rules);
    case Mishap::Kind::stop:
      note([] { return std::string("the run is to stop"); });
      stopped_ = true;
      return cluster_->stop();
    case Mishap::Kind::crash_coordinator:
      coordinator_crashes_us_ = m.for_us;
      return;
    case Mishap::Kind::stop_coordinator:
      coordinator_crashes_us_ = kTakeOverUs;
      old_rests_us_ = m.for_us;
      return;
    case Mishap::Kind::crash_host:
      if (Process* victim = process_in(m.slot)) {
        note([&] { return cat("process ", victim->number, " crashes"); });
        disturbed_.insert(victim->number);
        end_process(*victim);
        left_.erase(m.slot);  // one that had not been let go is started again
        agenda_.at(agenda_.now_us + m.for_us, [this, place = m.slot] { start_missing(place); });
      }
      return;
    case Mishap::Kind::replace_host:
      if (Process* victim = process_in(m.slot)) {
        disturbed_.insert(victim->number);
        start_process(m.slot);
      }
      return;
    case Mishap::Kind::pause_host:
      if (Process* victim = process_in(m.slot)) pause(*victim, m.for_us);
      return;
    case Mishap::Kind::leave_host:
      for (uint32_t place = 0; place < scenario_.hosts.size(); ++place)
        if (place == m.slot || (m.group >> place & 1) != 0) leave(place);
      return;
    case Mishap::Kind::join_host:
      return start_process(m.slot);
    case Mishap::Kind::cut_hosts:
      return partition(m);
  }
}

void Simulation::leave(uint32_t place) {
  Process* leaver = process_in(place);
  if (!leaver) return;
  note([&] { return cat("process ", leaver->number, " wants to leave"); });
  leavers_.insert(leaver->number);
  left_.insert(leaver->place);
  stopped_ = true;  // nobody may be left for what it holds
  caf::anon_send(leaver->node, std::make_shared<const NodeControl>(LeaveRun{}));
}

std::optional<Endpoint> Simulation::newest(Role role, uint32_t slot) const {
  std::optional<Endpoint> who;
  for (const auto& [endpoint, handle] : attached_)
    if (endpoint.role == role && endpoint.index == slot) who = endpoint;
  return who;
}

void Simulation::replaced(const Endpoint& who) {
  replaced_.insert(who);
  if (who.role != Role::worker) return;
  *current_[who.index] = false;
  current_[who.index] = std::make_shared<bool>(true);
}

void Simulation::crash(std::optional<Endpoint> who) {
  if (!who) return;
  note([&] { return cat(*who, " crashes"); });
  disturbed_.insert(homes_.at(*who));
  const caf::strong_actor_ptr victim = attached_.at(*who);
  detach(homes_.at(*who), *who);
  dead_.insert(*who);
  replaced(*who);
  const caf::error why = caf::make_error(caf::sec::runtime_error, std::string(kCrash));
  victim->enqueue(nullptr, caf::make_message_id(), caf::make_message(caf::exit_msg{caf::actor_addr{}, why}), nullptr);
}

void Simulation::cut_off(std::optional<Endpoint> who, int64_t for_us) {
  if (!who) return;
  note([&] { return cat(*who, " is cut off"); });
  unreachable_.insert(*who);
  agenda_.at(agenda_.now_us + for_us, [this, who = *who] { unreachable_.erase(who); });
}

void Simulation::give_up(std::optional<Endpoint> who) {
  if (!who) return;
  note([&] { return cat(*who, " is given up"); });
  replaced(*who);
  zombies_.insert(*who);
  report_zombie(*who);
}

void Simulation::report_zombie(const Endpoint& who) {
  if (!zombies_.count(who)) return;
  wire_.send({scenario_.coordinator.node, scenario_.coordinator.self, 0, ps::Down{who, kCrash}});
  agenda_.at(agenda_.now_us + kRetryMs * 1000, [this, who] { report_zombie(who); });
}

bool Simulation::had_to_fail(const std::string& why) const {
  const auto says = [&](const char* text) { return why.find(text) != std::string::npos; };
  if (!scenario_.over_hosts() || disturbed_.empty()) return false;
  if (says("elastic.min_workers")) return true;
  // Cut off and paused, one after the other.
  const ps::CoordinatorOptions& c = scenario_.coordinator;
  if (!c.replicas && !c.servers_recover && !c.servers_reload && says("it has not been heard of for")) return true;
  if (!says("had not caught up")) return false;
  for (ps::ServerId s = 0; s < scenario_.servers(); ++s)
    if (why.find(cat("server ", s, " ended")) != std::string::npos && synced_[s])
      return disturbed_.count(homes_.at(synced_[s]->second)) > 0 || leavers_.count(homes_.at(synced_[s]->second)) > 0 ||
             synced_[s]->first != newest_server(s);
  return true;
}

Endpoint Simulation::newest_server(ps::ServerId s) const {
  Endpoint newest{Role::server, s, 1};
  for (const auto& [server, replica] : take_overs_)
    if (server.index == s) newest = server;
  return newest;
}

}  // namespace troupe::sim
