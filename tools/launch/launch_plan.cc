#include "launch_plan.h"

#include <unistd.h>

#include <algorithm>

#include <troupe/kernels/base/text.h>

#include "route.h"
#include "shell_quote.h"

namespace troupe::launch {
namespace {

using Words = std::vector<std::string>;

/// The address without scheme, port and brackets: "[::1]:0" is "::1".
std::string host_of(const std::string& address) {
  const auto scheme = address.find("://");
  std::string host = scheme == std::string::npos ? address : address.substr(scheme + 3);
  host = host.substr(0, host.rfind(':'));
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return host;
}

Words security_words(const LaunchRequest& request) {
  Words words;
  if (!request.keys.empty()) words.insert(words.end(), {"--keys", request.keys});
  if (request.insecure_network) words.push_back("--insecure-network");
  return words;
}

Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// `begin` is what it trains: a config and for how many nodes, or a run to recover.
Command coordinator_command(const LaunchRequest& request, const Words& begin, const std::string& listen) {
  const Words network = {"--listen", listen, "--announce", request.announce_file};
  return {.argv = Words{request.troupe, "train"} + begin + network + security_words(request) + Words{"--death-fd", "3"},
          .death_fd = 3};
}

/// Where others must reach the coordinator from other machines, they must reach the nodes too.
Words node_words(const LaunchRequest& request, const std::string& troupe, int place, const std::string& address,
                 int death_fd) {
  Words words = {troupe, "node", "--join", address, "--place", std::to_string(place)};
  if (!on_loopback(request.listen)) words.insert(words.end(), {"--listen", "*:0"});
  for (const std::string& setting : request.node_settings) words.insert(words.end(), {"--set", setting});
  return words + security_words(request) + Words{"--death-fd", std::to_string(death_fd)};
}

/// With a coordinator on this machine, for `nodes` nodes in all.
LaunchPlan with_coordinator(const LaunchRequest& request, int nodes) {
  LaunchPlan plan;
  plan.announce_file = request.announce_file;
  plan.coordinator =
      coordinator_command(request, request.train + Words{"--nodes", std::to_string(nodes)}, request.listen);
  plan.recover = [request](const Announcement& said) {
    return coordinator_command(request, {"--recover", said.run_folder}, said.address);
  };
  return plan;
}

std::string this_host() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

Command local_node(const LaunchRequest& request, const NodePlan& node, const std::string& address) {
  return {.argv = node_words(request, request.troupe, node.place, address, 3), .death_fd = 3};
}

}  // namespace

LaunchPlan plan_here(const LaunchRequest& request, int processes, const std::vector<int>& cores) {
  LaunchPlan plan = with_coordinator(request, processes);
  for (int place = 0; place < processes; ++place) plan.nodes.push_back({place, this_host()});
  const bool bind = !cores.empty() && cores.size() <= static_cast<size_t>(processes);
  plan.node = [request, cores, bind](const NodePlan& node, const std::string& address) {
    Command command = local_node(request, node, address);
    const size_t turn = static_cast<size_t>(node.place) % std::max<size_t>(1, cores.size());
    if (bind) command.argv.insert(command.argv.end(), {"--core", std::to_string(cores[turn])});
    return command;
  };
  return plan;
}

LaunchPlan plan_hosts(const LaunchRequest& request, const std::vector<Host>& hosts) {
  std::vector<Host> of_place;
  for (const Host& host : hosts) of_place.insert(of_place.end(), static_cast<size_t>(host.slots), host);
  LaunchPlan plan = with_coordinator(request, static_cast<int>(of_place.size()));
  for (const Host& host : of_place) plan.nodes.push_back({static_cast<int>(plan.nodes.size()), host.name, true});
  plan.node = [request, of_place](const NodePlan& node, const std::string& address) {
    const auto words = node_words(request, request.remote_troupe, node.place, address, 0);
    return over_ssh(request.ssh, of_place[static_cast<size_t>(node.place)], words);
  };
  return plan;
}

LaunchPlan plan_place(const LaunchRequest& request, const Place& place, const std::string& logs_folder) {
  LaunchPlan plan;
  if (place.rank == 0) {
    plan = with_coordinator(request, place.size);
  } else {
    plan.address = place.rendezvous;
    plan.logs_folder = logs_folder;
  }
  plan.nodes.push_back({place.rank, this_host()});
  plan.node = [request](const NodePlan& node, const std::string& address) {
    return local_node(request, node, address);
  };
  return plan;
}

Result<std::string> listen_for(const SshOptions& ssh, const std::vector<Host>& hosts) {
  for (const Host& host : hosts) {
    const auto address = address_behind(ssh, host);
    if (!address) return tl::unexpected(address.error());
    auto own = own_address_towards(*address);
    if (!own) return fail(host.where, own.error());
    if (!is_loopback(*own) && *own != *address) return with_port(*own, 0);
  }
  return std::string("127.0.0.1:0");
}

Result<std::string> listen_for(const Place& place) {
  const auto colon = place.rendezvous.rfind(':');
  if (place.rendezvous.empty()) return std::string("127.0.0.1:0");
  if (colon == std::string::npos || colon + 1 == place.rendezvous.size())
    return fail(ErrorKind::invalid, cat(place.rendezvous, ": is no HOST:PORT"));
  if (on_loopback(place.rendezvous)) return place.rendezvous;
  return cat("*", place.rendezvous.substr(colon));
}

bool on_loopback(const std::string& address) { return address.starts_with("ipc://") || is_loopback(host_of(address)); }

std::string dry_run(const LaunchPlan& plan) {
  std::string text;
  if (!plan.coordinator.argv.empty()) text += shell_quoted(plan.coordinator.argv) + '\n';
  for (const NodePlan& node : plan.nodes)
    text += shell_quoted(plan.node(node, plan.address.empty() ? "ADDRESS" : plan.address).argv) + '\n';
  return text;
}

}  // namespace troupe::launch
