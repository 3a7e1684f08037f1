#include "keeper.h"

#include <algorithm>

#include <troupe/kernels/base/text.h>

namespace troupe::launch {
namespace {

using Kind = Keeper::Effect::Kind;

constexpr int kRefused = 2;        // `troupe` ends so where nothing was begun
constexpr int kInterrupted = 130;  // and so after Ctrl-C
constexpr Moment kQuick{2000}, kFirstDelay{100}, kMostDelay{5000};

/// A process that dies again and again at once is given time: none, then 0.1 s, 0.2 s, ... 5 s.
Moment delay_after(int quick_ends) {
  if (quick_ends < 2) return Moment{0};
  return std::min(kMostDelay, kFirstDelay * (1 << std::min(quick_ends - 2, 6)));
}

std::string seconds_text(Moment time) { return cat(static_cast<double>(time.count()) / 1000, " s"); }

}  // namespace

Keeper::Keeper(const KeeperOptions& options) : options_(options), processes_(static_cast<size_t>(options.nodes) + 1) {}

Keeper::Effects Keeper::begin(Moment now) {
  Effects out;
  if (options_.coordinator) {
    start(kCoordinator, false, now, out);
  } else {
    phase_ = Phase::running;
    for (int i = 0; i < options_.nodes; ++i) start(i, false, now, out);
  }
  return out;
}

Keeper::Effects Keeper::announced(Moment now) {
  Effects out;
  process(kCoordinator).state = State::up;
  if (announced_ || phase_ == Phase::ending) return out;
  announced_ = true;
  phase_ = Phase::running;
  for (int i = 0; i < options_.nodes; ++i) start(i, false, now, out);
  return out;
}

void Keeper::answered(int index) {
  if (process(index).state == State::starting) process(index).state = State::up;
  process(index).answered = true;
}

void Keeper::joined(int index) { process(index).joined = true; }

void Keeper::start(int index, bool again, Moment now, Effects& out) {
  process(index).state = State::starting;
  process(index).since = now;
  process(index).joined = false;
  out.push_back({Kind::start, index, again});
}

Keeper::Effects Keeper::ended(int index, Incident incident, Moment now) {
  Effects out;
  if (incident.what.empty()) incident.what = process(index).given_up;
  const bool early = phase_ != Phase::ending;
  if (!early) {
    ended_late(index, incident, now);
  } else if (index == kCoordinator) {
    coordinator_ended(incident, now, out);
  } else {
    node_ended(index, incident, now, out);
  }
  return out;
}

void Keeper::coordinator_ended(Incident& incident, Moment now, Effects& out) {
  process(kCoordinator).state = State::gone;
  const bool decided = incident.what.empty() && !incident.ending.by_signal;
  if (!decided && incident.what.empty() && announced_) return replace_or_give_up(kCoordinator, incident, now, out);
  if (decided) coordinator_code_ = incident.ending.code;
  end_run(now + options_.leave, now + 2 * options_.leave);
  if (decided && (incident.ending.code == 0 || incident.ending.code == kInterrupted)) return;
  incident.done = Incident::Done::ended_the_run;
  incidents_.push_back(incident);
}

void Keeper::node_ended(int index, Incident& incident, Moment now, Effects& out) {
  process(index).state = State::gone;
  const bool refused = !incident.ending.by_signal && incident.ending.code == kRefused && !process(index).joined;
  if (!incident.what.empty() || refused || !process(index).answered) {
    give_up(incident, now);
  } else if (!incident.ending.ok()) {
    replace_or_give_up(index, incident, now, out);
  }
  if (!options_.coordinator && !any([](const Process& p) { return p.state != State::gone; }, 0)) phase_ = Phase::ending;
}

void Keeper::replace_or_give_up(int index, Incident& incident, Moment now, Effects& out) {
  Process& p = process(index);
  const bool others =
      options_.nodes_elsewhere > 0 || any([](const Process& q) { return runs(q) || q.state == State::waiting; }, 0);
  if (options_.on_loss == OnLoss::shrink && index != kCoordinator && others) {
    incident.done = Incident::Done::dropped;
    incidents_.push_back(incident);
    return;
  }
  const bool may = options_.on_loss == OnLoss::restart || (options_.on_loss == OnLoss::shrink && index == kCoordinator);
  if (!may || restarts_ >= options_.max_restarts) return give_up(incident, now);
  ++restarts_;
  p.quick_ends = now - p.since < kQuick ? p.quick_ends + 1 : 0;
  const Moment delay = delay_after(p.quick_ends);
  incident.done = Incident::Done::restarted;
  incidents_.push_back(incident);
  if (delay == Moment{0}) return start(index, true, now, out);
  p.state = State::waiting;
  p.since = now + delay;
}

/// The coordinator sees the loss too, and may end the run in its own words; it is asked to where it does not.
void Keeper::give_up(Incident& incident, Moment now) {
  incident.done = Incident::Done::ended_the_run;
  incidents_.push_back(incident);
  end_run(now + options_.leave, now + options_.leave + options_.grace);
}

/// The run is over already. What was asked to end, or killed, ends as that makes it.
void Keeper::ended_late(int index, Incident& incident, Moment now) {
  Process& p = process(index);
  p.state = State::gone;
  const bool coordinator = index == kCoordinator;
  if (coordinator) {
    if (!incident.ending.by_signal) coordinator_code_ = incident.ending.code;
    end_run(now + options_.leave, now + 2 * options_.leave);
  }
  if (incident.ending.ok()) return;
  const bool refusal = coordinator && !incident.ending.by_signal && incident.ending.code != kInterrupted;
  if (p.asked && !refusal) return;
  incident.done = interrupted_ && refusal ? Incident::Done::ended_the_run : Incident::Done::nothing;
  incidents_.push_back(incident);
}

void Keeper::end_run(std::optional<Moment> ask_at, Moment kill_at) {
  phase_ = Phase::ending;
  ask_at_ = ask_at;
  kill_at_ = kill_at_ ? std::min(*kill_at_, kill_at) : kill_at;
  for (Process& p : processes_)
    if (p.state == State::waiting) p.state = State::gone;
}

/// Nodes end when the coordinator says that the run is over; without one they are asked themselves.
void Keeper::ask(Effects& out) {
  const bool coordinator = runs(process(kCoordinator));
  for (int i = kCoordinator; i < options_.nodes; ++i) {
    if (!runs(process(i)) || coordinator != (i == kCoordinator)) continue;
    process(i).asked = true;
    out.push_back({Kind::ask, i});
  }
}

void Keeper::kill_all(Effects& out) {
  for (int i = kCoordinator; i < options_.nodes; ++i) {
    if (!runs(process(i))) continue;
    process(i).asked = true;
    out.push_back({Kind::kill, i});
  }
}

Keeper::Effects Keeper::interrupted(Moment now) {
  Effects out;
  const bool second = interrupted_;
  interrupted_ = true;
  // Whoever interrupts all launchers of a job at once, as Slurm does, interrupts the coordinator too, and its nodes
  // need not leave one by one; where this one alone is meant, its node does.
  const bool others_decide = !options_.coordinator && options_.nodes_elsewhere > 0;
  end_run(others_decide && !second ? std::optional(now + options_.grace / 3) : std::nullopt, now + options_.grace);
  if (second) {
    kill_all(out);
  } else if (!others_decide) {
    ask(out);
  }
  return out;
}

Keeper::Effects Keeper::tick(Moment now) {
  Effects out;
  for (int i = kCoordinator; i < options_.nodes; ++i) {
    Process& p = process(i);
    if (p.state == State::waiting && p.since <= now) start(i, true, now, out);
    if (p.state != State::starting || !p.given_up.empty() || p.since + options_.start_timeout > now) continue;
    p.given_up = cat(i == kCoordinator ? "did not begin to listen within " : "did not answer within ",
                     seconds_text(options_.start_timeout));
    out.push_back({Kind::kill, i});
  }
  if (ask_at_ && *ask_at_ <= now) {
    ask_at_.reset();
    ask(out);
  }
  if (kill_at_ && *kill_at_ <= now) {
    kill_at_.reset();
    kill_all(out);
  }
  return out;
}

std::optional<Moment> Keeper::next() const {
  std::optional<Moment> first;
  const auto consider = [&first](std::optional<Moment> at) {
    if (at && (!first || *at < *first)) first = at;
  };
  consider(ask_at_);
  consider(kill_at_);
  for (const Process& p : processes_) {
    if (p.state == State::waiting) consider(p.since);
    if (p.state == State::starting && p.given_up.empty()) consider(p.since + options_.start_timeout);
  }
  return first;
}

bool Keeper::any(bool (*holds)(const Process&), int from) const {
  return std::any_of(processes_.begin() + (from + 1), processes_.end(), holds);
}

bool Keeper::finished() const {
  return phase_ == Phase::ending && !any([](const Process& p) { return runs(p); }, kCoordinator);
}

int Keeper::exit_code() const {
  for (const Incident& incident : incidents_)
    if (incident.done == Incident::Done::ended_the_run) return incident.exit_code();
  if (coordinator_code_) return *coordinator_code_;
  return interrupted_ ? kInterrupted : 0;
}

}  // namespace troupe::launch
