#pragma once
#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <set>

#include <caf/scheduler/test_coordinator.hpp>

#include <troupe/actors/cluster.h>
#include <troupe/actors/node.h>
#include <troupe/kernels/base/random.h>

#include "agenda.h"
#include "host_groups.h"
#include "message_text.h"
#include "oracle.h"
#include "simulation.h"

namespace troupe::sim {

using ps::Endpoint;
using ps::Envelope;
using ps::Role;

constexpr int64_t kRetryMs = 20;
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
constexpr const char* kCrash = "simulated crash";
constexpr size_t kCoordinatorProcess = 0;  // the others count from 1
constexpr Endpoint kOldCoordinator{Role::coordinator, 0, 99};  // nobody looks at the number; the oracle is not told

class Simulation;

/// The network as the actors of a process see it: what they say is heard by the oracle before it may be lost.
class Network final : public ps::Transport {
 public:
  Network(Simulation& simulation, size_t process) : simulation_(simulation), process_(process) {}
  void attach(const Endpoint& endpoint, Sink sink) override;
  void detach(const Endpoint& endpoint) override;
  void send(Envelope envelope) override;
  bool reliable() const override { return false; }

 private:
  Simulation& simulation_;
  size_t process_;
};

/// A process of a run over several, in its place.
struct Process {
  size_t number = 0, place = 0;
  std::shared_ptr<Network> network;
  NodeActor node;
  caf::strong_actor_ptr handle;  ///< the node's
  bool alive = true;
  int64_t paused_until_us = -1;
};

/// A coordinator that stands still, or did, while another has gone on in its place.
struct OldCoordinator {
  std::unique_ptr<ps::CoordinatorCore> core;  ///< what it knew then
  std::vector<ps::EnvelopePtr> mail;          ///< and has heard since
  int64_t stopped_us = 0, stopped_ms = 0;     ///< by the run's clock and by its own
  int ticks = 10;                             ///< it goes on for so many
};

/// A run in virtual time: everything that there is besides the actors themselves, one object because all of it turns
/// on one clock and one seed. Its parts are a file each: the loop (simulation.cc), the network (network.cc), what the
/// coordinator is made of and outlives it (coordinator_life.cc), mishaps (mishaps.cc), processes (hosts.cc).
class Simulation {
 public:
  Simulation(const Scenario& scenario, size_t trace);
  SimulationResult run();

  // coordinator_life.cc, for its journal: on a disk that outlives it. It crashes in the middle of a write when it is
  // to.
  bool journal_is_long() const { return journal_.size() > 20'000; }
  void begin_journal_anew(const ps::CoordinatorCore& core);
  void keep(const ps::CoordinatorInput& input);

  // network.cc
  void attach(size_t process, const Endpoint& endpoint, ps::Transport::Sink sink);
  void detach(size_t process, const Endpoint& endpoint);
  void send(size_t process, Envelope envelope);

 private:
  // simulation.cc
  void live();
  void heal();
  void hang();
  /// Somebody of the last membership who has not ended.
  std::optional<Endpoint> remaining() const;
  void step();
  /// To the earliest of: a message arrives, a task ends, a timer.
  void advance();
  void bury();
  caf::detail::test_actor_clock& clock() { return scheduler_->clock(); }
  int64_t to_us(caf::actor_clock::time_point t) const;
  void pass_to(int64_t us);
  int64_t next_timer_us();
  int64_t next_message_us() const { return wire_.empty() ? kNever : wire_.next_us(); }
  int64_t next_task_us() const { return agenda_.empty() ? kNever : agenda_.next_us(); }
  int64_t next_us();

  // network.cc
  /// Whoever spawns an actor attaches it next: it is the newest job. A node is attached again under its number, a
  /// replica as the server that it becomes.
  caf::strong_actor_ptr actor_of(size_t process, const Endpoint& endpoint) const;
  void note_incarnations(const ps::Membership& m);
  /// It was told that the run is over, or somebody else fills its slot, or nobody does.
  bool may_end(const Endpoint& who) const;
  void delivered(const Envelope& e);
  void heed(const Envelope& e);
  uint64_t bit_of(const Endpoint& who) const;
  bool is_cut(const Envelope& e) const;
  void partition(const Mishap& m);

  // coordinator_life.cc
  ClusterParts parts();
  /// What a process has begun to write ends with it.
  std::shared_ptr<Executor> checkpoint_writer();
  std::unique_ptr<ps::CoordinatorCore> core_of_journal(ps::CoordinatorOptions options);
  void recover_coordinator();
  void leave_old_coordinator();
  bool knows_of_successor(const Endpoint& who, const OldCoordinator& old) const;
  void wake(const std::shared_ptr<OldCoordinator>& old);
  void go_on(const std::shared_ptr<OldCoordinator>& old);

  // mishaps.cc
  void befall(const Mishap& m);
  std::optional<Endpoint> newest(Role role, uint32_t slot) const;
  void replaced(const Endpoint& who);
  void crash(std::optional<Endpoint> who);
  void cut_off(std::optional<Endpoint> who, int64_t for_us);
  /// The coordinator hears that `who` has ended, until it says that it has heard; `who` lives on.
  void give_up(std::optional<Endpoint> who);
  void report_zombie(const Endpoint& who);
  /// With its server's, the one copy that there was got lost; or every worker did.
  bool had_to_fail(const std::string& why) const;
  Endpoint newest_server(ps::ServerId s) const;

  // hosts.cc
  size_t first_hosts() const { return static_cast<size_t>(scenario_.coordinator.roster.nodes); }
  bool lives(size_t process) const { return process == kCoordinatorProcess || processes_[process - 1]->alive; }
  Process* process_in(size_t place);
  void start_missing(size_t place);
  void start_process(size_t place);
  JoinParts join_parts(Process& process);
  Prepared prepared(const Process& process);
  /// All that lives in it ends, and says nothing more.
  void end_process(Process& process);
  void pause(Process& process, int64_t for_us);
  void leave(uint32_t place);
  std::vector<size_t> runnable_jobs() const;

  template <class F>
  void note(F&& text) {
    if (trace_ == 0) return;
    lines_.push_back(cat("  ", agenda_.now_us, " us  ", text()));
    if (lines_.size() > trace_) lines_.pop_front();
  }
  std::string text() const {
    std::string all;
    for (const std::string& line : lines_) all += line + "\n";
    return all;
  }

  const Scenario& scenario_;
  uint64_t run_seed_;
  Oracle oracle_;
  Random random_, network_random_;
  Agenda agenda_;
  ps::SimulatedTransport wire_;
  ps::SimulatedTransport::Counts faulty_;  // until it was healed
  std::shared_ptr<Network> network_;
  HostGroups host_groups_;
  std::vector<std::shared_ptr<ps::ShardStore>> stores_;
  std::vector<std::shared_ptr<bool>> current_;  // by worker slot: not replaced

  caf::actor_system_config config_;
  std::set<Endpoint> told_to_end_;
  std::map<std::pair<Role, uint32_t>, ps::Incarnation> newest_incarnation_, empty_since_;
  caf::scheduler::test_coordinator* scheduler_ = nullptr;
  caf::actor_clock::time_point start_;
  std::unique_ptr<Cluster> cluster_;
  std::map<Endpoint, caf::strong_actor_ptr> attached_;
  std::set<Endpoint> dead_, replaced_, zombies_, unreachable_;

  caf::actor_system* system_ = nullptr;
  std::vector<std::unique_ptr<Process>> processes_;  // by number, from 1
  bool begun_ = false;                               // somebody was told to start an actor
  size_t known_hosts_ = 0;                           // places that somebody was ever in
  std::set<size_t> left_, disturbed_;                // places; processes that may be taken for dead
  std::set<size_t> leavers_;                         // processes that wanted to leave
  std::map<Endpoint, size_t> homes_;                 // process of everybody who was ever attached
  std::map<caf::actor_id, size_t> owners_;
  std::map<caf::actor_id, caf::actor_addr> everybody_;  // who was ever attached
  std::map<Endpoint, Endpoint> take_overs_;          // server, the replica that it was
  std::vector<std::optional<std::pair<Endpoint, Endpoint>>> synced_;  // by server: it, and the replica equal to it
  std::vector<const Mishap*> cuts_;

  std::optional<ps::CheckpointRequest> checkpoint_;
  size_t trace_;
  std::deque<std::string> lines_;
  std::map<Endpoint, std::string> last_heard_, last_said_;  // if traced
  std::vector<int64_t> seen_;                               // messages delivered, by kind
  std::deque<const Mishap*> due_;
  bool healed_ = false, stopped_ = false, failed_ = false;
  std::vector<std::byte> journal_, image_;  // what was told since the image was taken; empty: none
  int64_t coordinator_crashes_us_ = -1;  // at its next input, to be away for so long; negative: it does not
  int64_t coordinator_life_ = 0;
  int64_t old_rests_us_ = 0;              // the next one to be replaced only stands still, for so long; 0: it dies
  std::vector<std::shared_ptr<OldCoordinator>> old_;
  std::map<Endpoint, ps::Generation> heard_;  // the newest, of who minds
  int64_t events_ = 0;
  uint64_t hash_ = 1469598103934665603;
};

}  // namespace troupe::sim
