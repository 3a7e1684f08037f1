#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include <troupe/ps/control/coordinator_core.h>
#include <troupe/ps/control/stage_core.h>
#include <troupe/ps/param/shard.h>
#include <troupe/ps/transport/simulated_transport.h>

namespace troupe::sim {

/// What befalls one actor of a run, or what its owner asks of it.
struct Mishap {
  enum class Kind : uint8_t {
    crash_worker,   ///< it ends at once; its node tells the coordinator
    crash_server,   ///< the same; its store lives on
    zombie_worker,  ///< the coordinator hears that it ended, while it lives on
    zombie_server,
    cut_off_worker,  ///< what it says and what is said to it gets lost for `for_us`
    cut_off_server,
    change_policies,  ///< Cluster::change_policies
    stop,             ///< Cluster::stop
    crash_coordinator,  ///< while it writes its journal; another goes on from that after `for_us`
    crash_host,    ///< all that lives in the process ends unheard; after `for_us` another one joins in its place
    replace_host,  ///< another process takes the place of one that lives
    pause_host,    ///< nothing of it runs for `for_us`, what is said to it waits (SIGSTOP, CONT)
    leave_host,    ///< it wants to go (SIGTERM), and at once those of `group`
    join_host,     ///< one more comes
    stop_coordinator,  ///< it stands still, another goes on from its journal, and after `for_us` it goes on, too
    cut_hosts,     ///< what `group` says to the others gets lost for `for_us`, and unless `one_way` the other way round
  };
  Kind kind = Kind::crash_worker;
  uint32_t slot = 0;
  /// It happens when the `count`-th message with the index `after` in ps::Message is delivered; npos: at
  /// `at_us` of virtual time.
  size_t after = std::variant_npos;
  int64_t count = 1;
  int64_t at_us = 0;
  int64_t for_us = 0;
  std::vector<ps::UpdateRule> rules;  ///< of change_policies
  uint64_t group = 0;                 ///< of cut_hosts, leave_host: a bit a place; kCoordinatorBit
  bool one_way = false;

  static constexpr uint64_t kCoordinatorBit = uint64_t{1} << 63;
};

/// A place for a process of a run over several, and what whoever fills it takes.
struct Host {
  bool takes_workers = true, takes_servers = true;
};

/// A run and what happens to it: a pure function of a seed.
struct Scenario {
  uint64_t seed = 0;
  ps::CoordinatorOptions coordinator;
  ps::ImmediateScale immediate_scale = ps::ImmediateScale::none;
  bool shuffle = true;
  std::vector<std::vector<float>> first_values;  ///< parameters to begin with, by layer
  std::vector<bool> reads_weights;               ///< by layer: its gradients depend on the weights that were read
  double non_finite = 0;                         ///< probability that a worker's step holds a NaN
  ps::NetworkFaults network;
  std::vector<Mishap> mishaps;
  int64_t heal_us = 0;      ///< from here on the network is sound and no mishap begins
  double impatience = 0;    ///< probability that time goes on while actors still have mail
  bool all_reduce = false;  ///< some layer may be all-reduced: such a run does not outlive its workers
  size_t events_between_images = 0;  ///< of the servers' stores; 0: none
  bool resumes = false;     ///< another run goes on from its last checkpoint
  /// Of a run over several processes; empty: all in one. The first `coordinator.roster.nodes` begin, the rest may join.
  std::vector<Host> hosts;
  size_t host_size = 0;     ///< so many neighbouring places are of one host, whose devices add up; 0: nobody has any
  ps::StageOptions stage;   ///< where `coordinator.layout.stages` workers make up a replica

  uint32_t stages() const { return coordinator.layout.stages; }
  /// Stages that never flush: a step is computed with older weights.
  bool asynchronous() const { return stages() > 1 && stage.plan.schedule->weights != ps::WeightVersions::flushed; }
  /// By whose number its work is drawn.
  ps::WorkerId replica(ps::WorkerId worker) const { return worker / stages(); }
  bool computes(ps::WorkerId worker, ps::LayerId layer) const {
    return stages() == 1 || worker % stages() == coordinator.layout.stage_of[layer];
  }
  size_t workers() const { return coordinator.dealer.worker_batch.size(); }
  size_t servers() const { return coordinator.layout.servers; }
  bool over_hosts() const { return !hosts.empty(); }
  /// Servers keep what they promise in replicas, where there are any, and else nothing; not in logs.
  bool replicates() const { return over_hosts() && !coordinator.servers_recover; }
  /// The run goes on when the process in this place is lost.
  bool outlives(size_t place) const {
    const bool kept = coordinator.replicas || coordinator.servers_recover || coordinator.servers_reload;
    return kept || !hosts[place].takes_servers;
  }
  bool shrinks() const { return coordinator.on_loss == ps::OnLoss::shrink; }
  bool needs_verdict() const { return coordinator.clip_norm > 0 || coordinator.skip_non_finite; }
};

Scenario make_scenario(uint64_t seed);
/// The run that goes on from the last checkpoint of `first`, with other workers and servers.
Scenario make_resumed(const Scenario& first, const ps::CheckpointRequest& checkpoint);

/// Every decision of it, one a line.
std::string describe(const Scenario& scenario);

}  // namespace troupe::sim
