#include <filesystem>
#include <fstream>
#include <iostream>

#include <troupe/ps/control/ask_coordinator.h>
#include <troupe/ps/metrics/run_status.h>

#include "commands.h"
#include "network_arguments.h"

using namespace troupe;

namespace {

struct AskArguments {
  std::string run;
  NetworkArguments network;
  bool json = false, prometheus = false;
  int64_t timeout_s = 5;
};

/// A run's folder names its coordinator.
Result<std::string> address_of(const std::string& run) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(run, ignored)) {
    if (run.find(':') != std::string::npos) return full_address(run);
    return fail(ErrorKind::missing,
                run + ": there is no such folder; name a run's folder, or its coordinator's HOST:PORT");
  }
  const std::string path = run + "/coordinator.address";
  std::ifstream file(path);
  std::string address;
  if (!std::getline(file, address) || address.empty())
    return fail(ErrorKind::missing, cat(path, ": is not there: the run lives in one process, or is over"));
  return address;
}

Result<std::string> ask(const AskArguments& arguments, const ps::Message& question) {
  const auto address = address_of(arguments.run);
  if (!address) return tl::unexpected<Error>(address.error());
  auto options = network_options(arguments.network, "client", {});
  if (!options) return tl::unexpected<Error>(options.error());
  options->home = *address;
  auto network = ps::NetworkTransport::open(std::move(*options));
  if (!network) return tl::unexpected<Error>(network.error());

  const ps::Endpoint self{ps::Role::client, 0, static_cast<uint32_t>(random_number() | 1)};
  const auto answer = ps::ask_coordinator(**network, self, question, std::chrono::seconds(arguments.timeout_s));
  (*network)->close();
  if (answer) return answer;
  return fail(ErrorKind::failed, cat(*address, " did not answer within ", arguments.timeout_s,
                                     " s: the run is over, the address is another's, or its keys are others"));
}

std::shared_ptr<AskArguments> add_ask(CLI::App& command) {
  auto arguments = std::make_shared<AskArguments>();
  command.add_option("RUN", arguments->run, "The run's folder, or its coordinator's address")->required();
  add_network_arguments(command, arguments->network, false);
  command.add_option("--timeout", arguments->timeout_s, "Seconds to wait for an answer")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  return arguments;
}

int show(const AskArguments& arguments, const ps::Message& question) {
  const auto answer = ask(arguments, question);
  if (!answer) return report(answer.error());
  const Result<std::string> text = arguments.json         ? *answer + "\n"
                                   : arguments.prometheus ? ps::status_prometheus(*answer)
                                                          : ps::status_text(*answer);
  if (!text) return report(text.error());
  std::cout << *text << std::flush;
  return kOk;
}

}  // namespace

void add_status(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("status", "Show who is alive in a run, how far each is, and what waits");
  const auto arguments = add_ask(*command);
  CLI::Option* json = command->add_flag("--json", arguments->json, "As one JSON object");
  command
      ->add_flag("--prometheus", arguments->prometheus,
                 "In Prometheus' text format, as metrics.listen serves it at /metrics")
      ->excludes(json);
  command->callback([arguments, &exit_code] { exit_code = show(*arguments, ps::StatusRequest{}); });
}

void add_stop(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("stop", "End a run at its next step boundary, with a checkpoint");
  const auto arguments = add_ask(*command);
  command->callback([arguments, &exit_code] { exit_code = show(*arguments, ps::StopRequest{}); });
}
