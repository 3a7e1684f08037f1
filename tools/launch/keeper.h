#pragma once
#include <optional>
#include <string>
#include <vector>

#include "incident.h"

namespace troupe::launch {

/// `elastic.on_loss`: what becomes of a node that ended before the run did.
enum class OnLoss { restart, shrink, fail };

struct KeeperOptions {
  bool coordinator = true;  ///< false: another launcher has it, and nodes find it by themselves
  int nodes = 0;            ///< that this launcher starts
  int nodes_elsewhere = 0;  ///< that others start
  OnLoss on_loss = OnLoss::restart;
  int64_t max_restarts = 3;     ///< of nodes and coordinator, all together
  Moment start_timeout{60000};  ///< for the coordinator to listen, and for a host to answer
  Moment grace{30000};          ///< from SIGTERM, in which a run drains and checkpoints, to SIGKILL
  Moment leave{3000};  ///< for those that stay when the run is over: once until SIGTERM, once more until SIGKILL
};

/// Decides which process of a run is started, asked to end and killed, and what the job ends with; it starts and kills
/// nothing itself. Told what happens and the time; returns what to do. Processes are numbers: kCoordinator, or a
/// node's from 0.
///
///     begin -> [starting] --announced--> [running] --coordinator ended, interrupted, a loss too many--> [ending]
///
/// A coordinator that ends by itself has decided how the run ends; one that a signal ends is started again, and nodes
/// go on meanwhile. A node that ends with 0 has left; one that ends with 2 before it has joined cannot, and could not
/// again.
class Keeper {
 public:
  static constexpr int kCoordinator = -1;

  struct Effect {
    enum class Kind { start, ask, kill } kind;  ///< ask: to drain and end
    int process;
    bool again = false;  ///< start: in place of one that ended
    bool operator==(const Effect&) const = default;
  };
  using Effects = std::vector<Effect>;

  explicit Keeper(const KeeperOptions& options);

  Effects begin(Moment now);
  /// The coordinator listens, for the first time or again.
  Effects announced(Moment now);
  /// The node's host has started it. One that ends without this when it is started first cannot be started.
  void answered(int process);
  /// The coordinator has welcomed the node.
  void joined(int process);
  /// `incident` says who, where and how; its `done` is decided here.
  Effects ended(int process, Incident incident, Moment now);
  /// SIGINT, SIGTERM: the first asks, the second kills.
  Effects interrupted(Moment now);
  /// Restarts that are due, and time-outs.
  Effects tick(Moment now);
  /// When `tick` has something to do next, if nothing else happens.
  std::optional<Moment> next() const;

  bool finished() const;
  /// That of the first failure that was not mended; 0 where there is none. Once finished.
  int exit_code() const;
  const std::vector<Incident>& incidents() const { return incidents_; }

 private:
  enum class Phase { starting, running, ending };
  enum class State { absent, waiting, starting, up, gone };
  struct Process {
    State state = State::absent;
    Moment since{};  ///< waiting: until then
    int quick_ends = 0;
    bool asked = false;
    bool answered = false;  ///< once
    bool joined = false;    ///< since it was last started
    std::string given_up;   ///< why
  };

  Process& process(int index) { return processes_[static_cast<size_t>(index + 1)]; }
  const Process& process(int index) const { return processes_[static_cast<size_t>(index + 1)]; }
  static bool runs(const Process& p) { return p.state == State::starting || p.state == State::up; }
  void start(int index, bool again, Moment now, Effects& out);
  void ask(Effects& out);
  void kill_all(Effects& out);
  void end_run(std::optional<Moment> ask_at, Moment kill_at);
  void coordinator_ended(Incident& incident, Moment now, Effects& out);
  void node_ended(int index, Incident& incident, Moment now, Effects& out);
  void ended_late(int index, Incident& incident, Moment now);
  void replace_or_give_up(int index, Incident& incident, Moment now, Effects& out);
  void give_up(Incident& incident, Moment now);
  bool any(bool (*holds)(const Process&), int from) const;

  KeeperOptions options_;
  Phase phase_ = Phase::starting;
  std::vector<Process> processes_;  ///< the coordinator first
  std::vector<Incident> incidents_;
  std::optional<Moment> ask_at_, kill_at_;
  std::optional<int> coordinator_code_;
  bool interrupted_ = false, announced_ = false;
  int64_t restarts_ = 0;
};

}  // namespace troupe::launch
