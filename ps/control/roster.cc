#include <troupe/ps/control/roster.h>

#include <algorithm>

#include <troupe/kernels/base/text.h>

namespace troupe::ps {
namespace {

constexpr uint32_t kMostNodes = 4096;

std::string sentence(const LayerSpec& layer) {
  std::string text = cat(layer.name, " with ", layer.count, " parameters");
  const char* separator = ": ";
  for (const ParamSpec& param : layer.params) {
    text += cat(separator, param.name, " ", param.shape);
    separator = ", ";
  }
  if (layer.row_width > 0) text += ", by rows";
  return text;
}

}  // namespace

Roster::Roster(RosterOptions options) : options_(std::move(options)) {
  if (!local()) return;
  Member here;
  here.state = Member::State::ready;
  here.node = options_.local;
  here.name = "this process";
  members_[here.node.index] = here;
}

void Roster::set_now_ms(int64_t now) {
  if (began_ms_ >= 0 && now - now_ms_ > options_.lease_ms) {
    stood_still_ms_ = now - now_ms_;
    back_ms_ = now_ms_ = now;
    excuse_silence();
  }
  now_ms_ = now;
}

// ---- who is there ----------------------------------------------------------------------------------------------

void Roster::handle(Effects& out, const Envelope& envelope, const std::vector<Routes::Place>& places) {
  if (local() || envelope.from.role != Role::node) return;
  if (const auto* hello = std::get_if<Hello>(&envelope.body)) return on_hello(out, envelope, *hello);
  const auto found = members_.find(envelope.from.index);
  if (found == members_.end() || found->second.node != envelope.from || found->second.state == Member::State::gone) {
    // It was taken for dead, and what it held has gone to others.
    out.say.push_back(
        {envelope.from, Rejected{"the run goes on without this process: it was not heard of for too long"}});
    return;
  }
  Member& member = found->second;
  member.heard_ms = now_ms_;
  member.suspect_until_ms = -1;
  if (const auto* ready = std::get_if<Ready>(&envelope.body)) {
    on_ready(out, member, *ready);
  } else if (const auto* beat = std::get_if<Heartbeat>(&envelope.body)) {
    member.last = *beat;
    out.say.push_back({member.node, HeartbeatAck{beat->number}});
    if (beat->routes < routes_version_ && member.state != Member::State::preparing) {
      --routes_version_;  // said again, not a new one
      out.say.push_back({member.node, next_routes(places)});
    }
  } else if (const auto* leave = std::get_if<Leave>(&envelope.body)) {
    if (leave->gone) {
      lose(out, member, "it ended");
    } else if (member.state == Member::State::ready) {
      member.state = Member::State::leaving;
      out.news.push_back(cat(describe(member.node), " leaves: what it holds goes to others"));
      out.leaving.push_back(member.node);
    }
  }
}

uint32_t Roster::free_index(int64_t place) const {
  const auto taken = [&](uint32_t index) {
    const auto found = members_.find(index);
    return found != members_.end() && found->second.state != Member::State::gone;
  };
  if (place >= 0 && place < kMostNodes) return static_cast<uint32_t>(place);
  uint32_t index = 0;
  while (taken(index)) ++index;
  return index;
}

void Roster::on_hello(Effects& out, const Envelope& envelope, const Hello& hello) {
  if (envelope.from.index != kUnassigned) return;
  for (const auto& [index, member] : members_) {
    if (member.hello != envelope.from) continue;
    Welcome again = options_.welcome;
    again.node = member.node;
    again.lease_ms = options_.lease_ms;
    out.say.push_back({envelope.from, std::move(again)});
    return;
  }
  const uint32_t index = free_index(hello.place);
  if (index >= kMostNodes) {
    out.say.push_back({envelope.from, Rejected{cat("the run has ", kMostNodes, " nodes, the most there can be")}});
    return;
  }
  Member member;
  member.node = {Role::node, index, 1};
  if (const auto before = members_.find(index); before != members_.end()) {
    lose(out, before->second, cat("its place was taken by ", hello.name));
    member.node.incarnation = before->second.node.incarnation + 1;
  }
  member.hello = envelope.from;
  member.name = hello.name;
  member.address = hello.address;
  member.address.node = index;
  member.takes_workers = hello.takes_workers;
  member.takes_servers = hello.takes_servers;
  member.heard_ms = now_ms_;
  members_[index] = member;
  Welcome welcome = options_.welcome;
  welcome.node = member.node;
  welcome.lease_ms = options_.lease_ms;
  out.say.push_back({envelope.from, std::move(welcome)});
}

std::string Roster::difference(const Ready& ready) const {
  if (!ready.config_hash.empty() && ready.config_hash != options_.config_hash)
    return cat("its config is another: hash ", ready.config_hash, ", the run's is ", options_.config_hash,
               "; start the node without a config, or with the run's config.resolved.toml");
  if (ready.layers.size() != options_.layers.size())
    return cat("its model has ", ready.layers.size(), " layers, the run's ", options_.layers.size());
  for (size_t i = 0; i < ready.layers.size(); ++i) {
    const std::string theirs = sentence(ready.layers[i]), ours = sentence(options_.layers[i]);
    if (theirs != ours) return cat("layer ", i, " of its model is ", theirs, "; in the run it is ", ours);
  }
  if (ready.train_samples != options_.train_samples || ready.test_samples != options_.test_samples)
    return cat("its data has ", ready.train_samples, " training and ", ready.test_samples, " test samples, the run's ",
               options_.train_samples, " and ", options_.test_samples);
  return {};
}

void Roster::on_ready(Effects& out, Member& member, const Ready& ready) {
  out.say.push_back({member.node, HeartbeatAck{0}});
  if (member.state != Member::State::preparing) return;
  if (const std::string why = difference(ready); !why.empty()) {
    out.say.push_back({member.node, Rejected{why}});
    out.events.push_back(cat(describe(member.node), " was refused: ", why));
    member.state = Member::State::gone;
    return;
  }
  member.state = Member::State::ready;
  out.news.push_back(cat(describe(member.node), " joined"));
  out.changed = true;
}

void Roster::link_lost(uint32_t node) {
  const auto found = members_.find(node);
  if (local() || found == members_.end() || found->second.suspect_until_ms >= 0) return;
  found->second.suspect_until_ms = now_ms_ + 2 * heartbeat_ms();
}

void Roster::excuse_silence() {
  for (auto& [index, member] : members_) {
    member.heard_ms = now_ms_;
    member.suspect_until_ms = -1;
  }
}

void Roster::lose(Effects& out, Member& member, const std::string& why) {
  if (member.state == Member::State::gone) return;
  member.state = Member::State::gone;
  out.lost.push_back({member.node, cat(describe(member.node), ": ", why)});
}

void Roster::tick(Effects& out) {
  if (local()) return;
  if (began_ms_ < 0) began_ms_ = now_ms_;
  for (auto& [index, member] : members_) {
    if (member.state == Member::State::gone) continue;
    const int64_t silent_ms = now_ms_ - member.heard_ms;
    // Reading its data may take a node longer than a lease; it is heard of when it is ready.
    const bool expired = silent_ms > options_.lease_ms && member.state != Member::State::preparing;
    if (member.state == Member::State::leaving && load(member.node) == 0) out.say.push_back({member.node, Finish{}});
    if (member.suspect_until_ms >= 0 && now_ms_ > member.suspect_until_ms)
      lose(out, member, "its connection broke, and it has not been heard of since");
    else if (expired)
      lose(out, member, cat("it has not been heard of for ", silent_ms, " ms"));
  }
  const bool just_back = back_ms_ >= 0 && now_ms_ - back_ms_ < 3 * options_.lease_ms;
  if (begun_ && just_back && !out.lost.empty() && all_gone())
    out.failure = cat("this coordinator stood still for ", stood_still_ms_, " ms, and no node has answered it since: ",
                      "another process may have gone on in its place; if none has, train --recover goes on");
  if (!begun_ && !complete() && now_ms_ - began_ms_ > options_.start_timeout_ms)
    out.failure = cat("the run did not begin within ", options_.start_timeout_ms / 1000, " s: ", missing());
}

bool Roster::complete() const {
  int64_t count = 0;
  bool workers = false, servers = false;
  for (const auto& [index, member] : members_) {
    if (member.state != Member::State::ready) continue;
    ++count;
    workers = workers || member.takes_workers;
    servers = servers || member.takes_servers;
  }
  return count >= options_.nodes && workers && servers;
}

std::string Roster::missing() const {
  std::string absent;
  int64_t count = 0;
  bool workers = false, servers = false;
  for (uint32_t place = 0; place < options_.nodes; ++place) {
    const auto found = members_.find(place);
    const bool here = found != members_.end() && found->second.state == Member::State::ready;
    count += here;
    if (here) workers = workers || found->second.takes_workers, servers = servers || found->second.takes_servers;
    if (here) continue;
    const bool preparing = found != members_.end() && found->second.state == Member::State::preparing;
    absent += cat(absent.empty() ? "" : ", ", "node ", place,
                  preparing ? cat(" (", found->second.name, " prepares)") : std::string());
  }
  std::string text = cat(count, " of ", options_.nodes, " nodes have joined");
  if (!absent.empty()) text += "; missing: " + absent;
  if (absent.empty() && !workers) text += "; none of them takes workers";
  if (absent.empty() && !servers) text += "; none of them takes servers";
  return text;
}

bool Roster::knows(const Endpoint& node) const {
  const auto found = members_.find(node.index);
  return found != members_.end() && found->second.node == node && found->second.state != Member::State::gone;
}

bool Roster::leaving(const Endpoint& node) const {
  return knows(node) && members_.at(node.index).state == Member::State::leaving;
}

std::string Roster::describe(const Endpoint& node) const {
  const auto found = members_.find(node.index);
  if (local() || found == members_.end()) return cat(node);
  return cat("node ", node.index, " (", found->second.name, ")");
}

std::vector<Endpoint> Roster::ready() const {
  std::vector<Endpoint> all;
  for (const auto& [index, member] : members_)
    if (member.state == Member::State::ready || member.state == Member::State::leaving) all.push_back(member.node);
  return all;
}

void Roster::describe_to(RunStatus& status, int64_t now_ms) const {
  static constexpr const char* kStates[] = {"preparing", "ready", "leaving", "gone"};
  for (const auto& [index, member] : members_) {
    RunStatus::Node node;
    node.node = index;
    node.name = member.name;
    node.state = kStates[static_cast<size_t>(member.state)];
    node.silent_ms = local() ? 0 : std::max<int64_t>(0, now_ms - member.heard_ms);
    node.queued_messages = member.last.queued_messages;
    node.queued_bytes = member.last.queued_bytes;
    node.refused_frames = member.last.refused_frames;
    for (const auto& [role, slot] : slots_of(member.node)) node.holds.push_back(cat(Endpoint{role, slot, 1}));
    status.nodes.push_back(std::move(node));
  }
}

bool Roster::all_gone() const {
  return local() || std::all_of(members_.begin(), members_.end(),
                                [](const auto& m) { return m.second.state == Member::State::gone; });
}

// ---- what lives where -------------------------------------------------------------------------------------------

bool Roster::takes(const Member& member, Role role, Member::State state) const {
  if (member.state != state) return false;
  return role == Role::worker ? member.takes_workers : member.takes_servers;
}

int64_t Roster::load(const Endpoint& node) const {
  return std::count_if(homes_.begin(), homes_.end(), [&](const auto& home) { return home.second == node; });
}

void Roster::place_all() {
  begun_ = true;
  std::vector<Endpoint> workers, servers;
  for (const auto& [index, member] : members_) {
    if (takes(member, Role::worker)) workers.push_back(member.node);
    if (takes(member, Role::server)) servers.push_back(member.node);
  }
  for (uint32_t w = 0; w < options_.workers && !workers.empty(); ++w)
    homes_[{Role::worker, w}] = workers[w % workers.size()];
  for (uint32_t s = 0; s < options_.servers && !servers.empty(); ++s)
    homes_[{Role::server, s}] = servers[servers.size() - 1 - s % servers.size()];
}

std::optional<Endpoint> Roster::place(Role role, uint32_t index, bool needed) {
  const SlotId slot{role, index};
  const Member* best = nullptr;
  const auto choose = [&](Member::State state) {
    for (const auto& [i, member] : members_)
      if (takes(member, role, state) && (!best || load(member.node) < load(best->node))) best = &member;
  };
  choose(Member::State::ready);
  if (!best && needed) choose(Member::State::leaving);
  const int64_t since = homeless_since_ms_.try_emplace(slot, now_ms_).first->second;
  const bool waits = !local() && best && load(best->node) > 0 && now_ms_ - since < options_.replace_ms;
  if (!best || waits) return {};
  homeless_since_ms_.erase(slot);
  return homes_[slot] = best->node;
}

std::optional<Endpoint> Roster::home(Role role, uint32_t index) const {
  const auto found = homes_.find({role, index});
  return found == homes_.end() ? std::nullopt : std::optional(found->second);
}

std::string Roster::host_of(Role role, uint32_t index) const {
  const auto node = home(role, index);
  const auto member = node ? members_.find(node->index) : members_.end();
  return member == members_.end() ? std::string() : member->second.address.host;
}

void Roster::vacate(Role role, uint32_t index) { homes_.erase({role, index}); }

void Roster::settle(Role role, uint32_t index, const Endpoint& node) { homes_[{role, index}] = node; }

bool Roster::has_room(Role role) const {
  return std::any_of(members_.begin(), members_.end(),
                     [&](const auto& m) { return takes(m.second, role) && load(m.second.node) == 0; });
}

std::vector<std::pair<Role, uint32_t>> Roster::slots_of(const Endpoint& node) const {
  std::vector<SlotId> slots;
  for (const auto& [slot, home] : homes_)
    if (home == node) slots.push_back(slot);
  return slots;
}

std::optional<Roster::Swap> Roster::imbalance(Role role) const {
  const Member* least = nullptr;
  for (const auto& [i, member] : members_)
    if (takes(member, role) && (!least || load(member.node) < load(least->node))) least = &member;
  if (!least) return {};
  std::optional<Swap> best;
  int64_t most = load(least->node) + 1;
  for (const auto& [slot, home] : homes_)
    if (slot.first == role && load(home) > most) {
      most = load(home);
      best = Swap{slot.second, least->node};
    }
  return best;
}

std::optional<Endpoint> Roster::beside(const Endpoint& other, Role role) const {
  const Member* best = nullptr;
  for (const auto& [i, member] : members_)
    if (member.node != other && takes(member, role) && (!best || load(member.node) < load(best->node)))
      best = &member;
  return best ? std::optional(best->node) : std::nullopt;
}

Routes Roster::next_routes(std::vector<Routes::Place> places) {
  Routes routes;
  routes.version = ++routes_version_;
  for (const auto& [index, member] : members_)
    if (member.state == Member::State::ready || member.state == Member::State::leaving) {
      routes.nodes.push_back(member.address);
      places.push_back({member.node, index});
    }
  routes.places = std::move(places);
  return routes;
}

}  // namespace troupe::ps
