#include <tools/launch/environment.h>
#include <tools/launch/hostfile.h>

#include <sstream>

#include <troupe/kernels/base/text.h>

#include "launching.h"

using namespace troupe;
using namespace troupe::launch;

namespace {

constexpr const char* kFooter = R"(
Examples:
  troupe launch configs/sync.toml --hosts hosts.txt --keys run.keys
  troupe launch configs/sync.toml -H node1:2,node2:2 --keys run.keys --dry-run
  srun --ntasks 4 troupe launch configs/sync.toml --keys run.keys
  mpirun -n 4 troupe launch configs/sync.toml

A hostfile has one host a line, with the number of nodes that it takes:
  node1 slots=4
  ada@node2:2222 slots=2     user and port of its sshd
  [fd00::8]:2222             one slot

Over ssh: the coordinator runs here, the nodes on the hosts, by your own ssh, which must not need to ask for
anything. The program, the working folder and the keys (scp -rp) must be there at the same paths, or where
--remote-troupe and --remote-dir say.

Without hosts: every process finds its place in its environment; rank 0 has the coordinator. The first of these that
is set counts: the command line (--rank, --size, --coordinator), TROUPE_RANK, TROUPE_SIZE and TROUPE_COORDINATOR,
torchrun (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT), Open MPI (OMPI_COMM_WORLD_RANK, ..._SIZE), PMI (PMI_RANK,
PMI_SIZE), Slurm (SLURM_PROCID, SLURM_NTASKS, SLURM_STEP_NODELIST), Kubernetes (JOB_COMPLETION_INDEX, TROUPE_NODES).
Where they meet: TROUPE_COORDINATOR=HOST:PORT, else what the launcher's own variables say.

The exit code is that of the first failure that could not be mended; a table tells what happened.)";

struct Arguments {
  LaunchArguments common;
  std::string hosts_file, host_list;
  int processes_per_host = 0;
  std::string ssh = "ssh", remote_troupe, remote_dir;
  std::string rank, size, coordinator;
};

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream in(text);
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

Result<std::vector<Host>> hosts_of(const Arguments& arguments) {
  if (!arguments.hosts_file.empty() && !arguments.host_list.empty())
    return fail(ErrorKind::invalid, "--hosts and -H exclude each other");
  auto hosts =
      arguments.hosts_file.empty() ? parse_host_list(arguments.host_list) : read_hostfile(arguments.hosts_file);
  if (hosts && arguments.processes_per_host > 0)
    for (Host& host : *hosts) host.slots = arguments.processes_per_host;
  return hosts;
}

int over_hosts(const Arguments& arguments, PreparedLaunch launch) {
  LaunchRequest& request = launch.request;
  const auto hosts = hosts_of(arguments);
  if (!hosts) return report(hosts.error());
  request.ssh.program = words_of(arguments.ssh);
  if (request.ssh.program.empty()) return report({ErrorKind::invalid, "--ssh: names no program"});
  if (!arguments.remote_troupe.empty()) request.remote_troupe = arguments.remote_troupe;
  if (!arguments.remote_dir.empty()) request.ssh.folder = arguments.remote_dir;
  if (arguments.common.network.listen.empty()) {
    const auto listen = listen_for(request.ssh, *hosts);
    if (!listen) return report(listen.error());
    request.listen = *listen;
  }
  return run_launch(std::move(launch), arguments.common.dry_run,
                    [&](const LaunchRequest& settled) { return plan_hosts(settled, *hosts); });
}

/// The command line stands above the environment.
Result<Place> place_of(const Arguments& arguments) {
  auto variables = environment();
  const bool command_line = !arguments.rank.empty() || !arguments.size.empty();
  if (command_line) {
    variables["TROUPE_RANK"] = arguments.rank;
    variables["TROUPE_SIZE"] = arguments.size;
  }
  if (!arguments.coordinator.empty()) variables["TROUPE_COORDINATOR"] = arguments.coordinator;
  auto place = place_from_environment(variables);
  if (!place) return fail(command_line ? "--rank, --size" : "environment", place.error());
  if (!*place)
    return fail(ErrorKind::invalid,
                "no hosts (--hosts FILE, -H a:2,b:2), and nothing in the environment says which process of "
                "how many this is; on this machine alone it is troupe train CONFIG --processes N");
  return std::move(**place);
}

int in_place(const Arguments& arguments, PreparedLaunch launch) {
  const auto place = place_of(arguments);
  if (!place) return report(place.error());
  if (arguments.common.network.listen.empty()) {
    const auto listen = listen_for(*place);
    if (!listen) return report(listen.error());
    launch.request.listen = *listen;
  }
  launch.options.keeper.nodes_elsewhere = place->size - 1;
  return run_launch(std::move(launch), arguments.common.dry_run, [&](const LaunchRequest& settled) {
    return plan_place(settled, *place, arguments.common.run_dir);
  });
}

int launch_run(const Arguments& arguments) {
  const auto loaded = load(arguments.common.config);
  if (!loaded) return report(loaded.error());
  auto launch = prepare_launch(arguments.common, loaded->config);
  if (!launch) return report(launch.error());
  const bool hosts = !arguments.hosts_file.empty() || !arguments.host_list.empty();
  return hosts ? over_hosts(arguments, std::move(*launch)) : in_place(arguments, std::move(*launch));
}

}  // namespace

void add_launch(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("launch", "Train on many hosts: over ssh, or under srun, mpirun, Kubernetes");
  command->footer(kFooter);
  auto arguments = std::make_shared<Arguments>();
  add_config_arguments(*command, arguments->common.config);
  command->add_option("--hosts", arguments->hosts_file, "Hostfile")->type_name("FILE");
  command->add_option("-H", arguments->host_list, "Hosts in short: host:slots,host:slots")->type_name("LIST");
  command->add_option("--processes-per-host", arguments->processes_per_host, "Instead of the slots of each host")
      ->check(CLI::Range(1, kMostSlots));
  command
      ->add_option("--run-dir", arguments->common.run_dir,
                   "Folder for everything the run leaves behind; new or empty. Default: runs/NAME-<time>")
      ->type_name("DIR");
  command->add_option("--ssh", arguments->ssh, "The ssh to call, with options of its own: 'ssh -F FILE'")
      ->capture_default_str();
  command->add_option("--remote-troupe", arguments->remote_troupe, "This program on the hosts. Default: the same path")
      ->type_name("PATH");
  command->add_option("--remote-dir", arguments->remote_dir, "Working folder on the hosts. Default: the same as here")
      ->type_name("DIR");
  command->add_option("--rank", arguments->rank, "Which process this is, from 0, over the environment");
  command->add_option("--size", arguments->size, "Of how many");
  command->add_option("--coordinator", arguments->coordinator, "Where rank 0's coordinator listens")
      ->type_name("HOST:PORT");
  command
      ->add_option("--listen", arguments->common.network.listen,
                   "HOST:PORT of the coordinator. Default: one that all hosts reach, on a free port")
      ->type_name("ADDRESS");
  add_network_arguments(*command, arguments->common.network, false);
  add_launch_arguments(*command, arguments->common);
  command->callback([arguments, &exit_code] { exit_code = launch_run(*arguments); });
}
