#include <troupe/ps/transport/keys.h>

#include <iostream>

#include "commands.h"

using namespace troupe;

namespace {

int make(const std::string& folder) {
  if (const Status made = ps::make_keys(folder); !made) {
    report(made.error());
    return kBadUsage;  // nothing was begun
  }
  std::cout << folder << ": made the keys of a run\n"
            << "  public.keys      who may connect; every process needs it\n"
            << "  coordinator.key  secret, for the coordinator's process\n"
            << "  node.key         secret, for all other processes of the run\n"
            << "  client.key       secret, for people who use troupe status and troupe stop\n"
            << std::flush;
  return kOk;
}

}  // namespace

void add_keys(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("keys", "Make the keys with which the processes of a run know each other");
  command->footer(R"(
Processes that listen on other than loopback addresses need keys: connections are then encrypted (CurveZMQ), and only
keys in public.keys are let in, each for its role. Copy public.keys and one .key file to where a process runs, mode
0600. Nothing is overwritten and no secret is printed.

Example:
  troupe keys keys/)");
  auto folder = std::make_shared<std::string>();
  command->add_option("DIR", *folder, "The folder to write them to; made where it is not there")->required();
  command->callback([folder, &exit_code] { exit_code = make(*folder); });
}
