#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <troupe/ps/messages.h>
#include <troupe/ps/metrics/run_status.h>

namespace troupe::ps {

/// What happens when a worker is lost and may not simply be started again where it was.
enum class OnLoss : uint8_t {
  restart,  ///< its slot waits for a new process, then goes to another node
  shrink,   ///< the others go on without it, until a new node comes
  fail,     ///< the run ends
};

struct RosterOptions {
  /// Nodes that the run begins with; 0: it lives in one process, whose node is `local`.
  int64_t nodes = 0;
  Endpoint local{Role::node, 0, 1};
  uint32_t workers = 1, servers = 1;     ///< slots
  int64_t lease_ms = 3000;               ///< silence that counts as death
  int64_t start_timeout_ms = 60'000;     ///< for `nodes` to come
  int64_t replace_ms = 5000;             ///< a lost node's slots wait for a new process so long, then go to others
  Welcome welcome;                       ///< what a node needs to prepare; `node` and `lease_ms` are filled in
  std::vector<LayerSpec> layers;         ///< what every node must have made of it
  int64_t train_samples = 0, test_samples = 0;
  std::string config_hash;
};

/// Which processes are part of the run, and which of them every slot lives on. Plain object of the coordinator:
/// messages and the time go in, what to say and who was lost comes out.
///
///   Hello --> preparing --Ready, compared--> ready --lease over | link lost and silent | its place taken--> gone
///                |                             |
///                +--differs: Rejected          +--Leave--> leaving (gets no slot that another takes)
///
/// Slots: workers go round robin over the nodes that take workers, servers over those that take servers from the
/// other end, so that with as many nodes as slots each has its own. Lost ones go to a node that holds nothing, after
/// `replace_ms` to the one that holds least.
class Roster {
 public:
  struct Effects {
    std::vector<std::pair<Endpoint, Message>> say;
    std::vector<std::string> events, news;  ///< as CoordinatorCore::Effects
    /// Node; "node 2 (host:pid): why", of the process that is lost.
    std::vector<std::pair<Endpoint, std::string>> lost;
    std::vector<Endpoint> leaving;  ///< nodes that want to go
    bool changed = false;  ///< a node became ready: it may take slots, and routes are others
    std::string failure;   ///< the run cannot begin
  };

  explicit Roster(RosterOptions options);

  /// A clock that jumps by more than a lease is one of a process that stood still: all leases begin anew, and if nobody
  /// is heard of then, another may have gone on in its place.
  void set_now_ms(int64_t now);
  int64_t now_ms() const { return now_ms_; }
  /// Of the first tick, or now.
  int64_t begun_ms() const { return began_ms_ < 0 ? now_ms_ : began_ms_; }
  /// Hello, Ready, Heartbeat, Leave; anything else is ignored.
  void handle(Effects& out, const Envelope& envelope, const std::vector<Routes::Place>& places);
  /// The connection to a node broke: it has two heartbeats to show that it lives.
  void link_lost(uint32_t node);
  /// Nobody could be heard until now: all leases begin anew.
  void excuse_silence();
  /// Leases, and who has not come in time.
  void tick(Effects& out);

  /// Enough nodes to begin, and each kind of slot has one that takes it.
  bool complete() const;
  /// "2 of 4 nodes have joined; missing: places 1 and 3".
  std::string missing() const;

  /// Chooses a node for a slot; none while there is nobody. What is needed goes to a node that leaves where no other
  /// takes it: that one stays as long as it holds something.
  std::optional<Endpoint> place(Role role, uint32_t index, bool needed = false);
  /// For all slots at once, at the start.
  void place_all();
  /// Where it was placed.
  std::optional<Endpoint> home(Role role, uint32_t index) const;
  /// The host of the process that it was placed in, as NodeAddress says it; empty: it shares with nobody, or is
  /// nowhere.
  std::string host_of(Role role, uint32_t index) const;
  void vacate(Role role, uint32_t index);
  void settle(Role role, uint32_t index, const Endpoint& node);
  /// Some node that takes this role holds nothing.
  bool has_room(Role role) const;
  std::vector<std::pair<Role, uint32_t>> slots_of(const Endpoint& node) const;
  /// A node that takes this role, other than `other`: for what shall not be, or not stay, there.
  std::optional<Endpoint> beside(const Endpoint& other, Role role) const;
  /// A slot of the node that holds most of a role, and the node that holds at least two slots less in all.
  struct Swap {
    uint32_t slot = 0;
    Endpoint to;
  };
  std::optional<Swap> imbalance(Role role) const;

  bool knows(const Endpoint& node) const;
  bool leaving(const Endpoint& node) const;
  /// "worker 1 on node 2 (host:pid)": for sentences.
  std::string describe(const Endpoint& node) const;
  std::vector<Endpoint> ready() const;
  /// Fills in `nodes`.
  void describe_to(RunStatus& status) const;
  bool local() const { return options_.nodes == 0; }

  /// A new version of who is reached where.
  Routes next_routes(std::vector<Routes::Place> places);
  /// Who sends it home that all is over, and who has: the coordinator leaves last.
  bool all_gone() const;

  struct Member {
    enum class State : uint8_t { preparing, ready, leaving, gone };
    State state = State::preparing;
    Endpoint node;
    Endpoint hello;                ///< who it was before
    std::string name;
    NodeAddress address;
    bool takes_workers = true, takes_servers = true;
    int64_t heard_ms = 0;
    int64_t suspect_until_ms = -1;  ///< its link broke; -1: it did not
    Heartbeat last;
  };
  const std::map<uint32_t, Member>& members() const { return members_; }

  /// All of its state but the options, for images of it (internal/image.h).
  template <class T>
  static auto fields(T& x) {
    return std::tie(x.now_ms_, x.began_ms_, x.begun_, x.members_, x.homes_, x.homeless_since_ms_, x.routes_version_,
                    x.back_ms_, x.stood_still_ms_);
  }

 private:
  using SlotId = std::pair<Role, uint32_t>;

  void on_hello(Effects& out, const Envelope& envelope, const Hello& hello);
  void on_ready(Effects& out, Member& member, const Ready& ready);
  std::string difference(const Ready& ready) const;
  void lose(Effects& out, Member& member, const std::string& why);
  uint32_t free_index(int64_t place) const;
  bool takes(const Member& member, Role role, Member::State state = Member::State::ready) const;
  int64_t load(const Endpoint& node) const;
  int64_t heartbeat_ms() const { return options_.lease_ms / 10; }

  RosterOptions options_;
  int64_t now_ms_ = 0;
  int64_t began_ms_ = -1;
  bool begun_ = false;
  std::map<uint32_t, Member> members_;          ///< by node index; the newest of each
  std::map<SlotId, Endpoint> homes_;
  std::map<SlotId, int64_t> homeless_since_ms_;
  uint64_t routes_version_ = 0;
  int64_t back_ms_ = -1, stood_still_ms_ = 0;   ///< when it went on after that, and how long it had lasted; -1: never
};

}  // namespace troupe::ps
