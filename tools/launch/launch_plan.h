#pragma once
#include <string>
#include <vector>

#include "environment.h"
#include "hostfile.h"
#include "ssh.h"
#include "supervisor.h"

namespace troupe::launch {

/// What all processes of a launch are told.
struct LaunchRequest {
  std::string troupe;                  ///< this program, absolute
  std::vector<std::string> train;      ///< what follows `troupe train`: CONFIG, --set, --run-dir, ...
  std::string listen = "127.0.0.1:0";  ///< of the coordinator: ADDRESS:PORT
  std::string keys;                    ///< the run's key folder, here and on the hosts; empty: none
  bool insecure_network = false;
  /// "network.shared_memory=false": what a node must know of the config before it hears of it from the coordinator.
  std::vector<std::string> node_settings;
  std::string announce_file;
  std::string remote_troupe;  ///< the program on the hosts
  SshOptions ssh;
};

/// The coordinator and `processes` nodes, all on this machine. Where that has no more `cores` (their numbers) than
/// nodes, each node keeps to one of them, in turns: so workers, which come first, do not meet on one while another is
/// idle, and what a process has in a cache stays there. No cores: nodes run where the system lets them.
LaunchPlan plan_here(const LaunchRequest& request, int processes, const std::vector<int>& cores);

/// The coordinator on this machine and a node for every slot of the hosts, host by host, over ssh.
LaunchPlan plan_hosts(const LaunchRequest& request, const std::vector<Host>& hosts);

/// The part of `place`: rank 0 has the coordinator and node 0, every other rank its node. `request.listen` is where the
/// coordinator listens; `logs_folder` is for the logs of a rank without one, and may be empty.
LaunchPlan plan_place(const LaunchRequest& request, const Place& place, const std::string& logs_folder);

/// Where the coordinator has to listen so that all hosts reach it: at the address of the interface that leads to the
/// first host that is another machine, or on the loopback where none is; any free port.
Result<std::string> listen_for(const SshOptions& ssh, const std::vector<Host>& hosts);
/// On which addresses rank 0 listens for `place`: loopback, or all interfaces at the rendezvous' port.
Result<std::string> listen_for(const Place& place);

/// Whether "HOST:PORT" or "tcp://HOST:PORT" is reached from this machine only.
bool on_loopback(const std::string& address);

/// What would run, quoted for a shell, one line a process. ADDRESS stands for what the coordinator announces.
std::string dry_run(const LaunchPlan& plan);

}  // namespace troupe::launch
