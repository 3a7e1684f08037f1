#include <tools/launch/cores.h>
#include <tools/launch/supervisor.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <iostream>
#include <optional>

#include <troupe/actors/blueprint.h>
#include <troupe/actors/node_run.h>
#include <troupe/ps/config/resolved.h>
#include <troupe/ps/metrics/trace_file.h>
#include <troupe/ps/transport/reach.h>

#include "commands.h"
#include "interrupts.h"
#include "network_arguments.h"

using namespace troupe;

namespace {

constexpr const char* kFooter = R"(
Examples:
  troupe train configs/sync.toml --listen 10.0.0.7:7000 --nodes 2 --keys keys     the coordinator, on one host
  troupe node --join 10.0.0.7:7000 --listen 10.0.0.8:0 --keys keys               a node, on another

A node gets the run's config from the coordinator and reads the data where the config says: on this host. Only what
[network] says of its connections it must know before: from CONFIG, --set network.KEY=VALUE or the environment; a launch
gives it. It ends with
the run; SIGTERM or Ctrl-C lets it leave before, once others hold what it held, a second one ends it at once.)";

struct NodeArguments {
  std::string join;
  ConfigArguments config;
  NetworkArguments network;
  std::string takes = "both";
  int64_t place = -1;
  int64_t give_up_s = 60;
  std::optional<int> core;
};

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

/// On SIGTERM: the run it leaves, as soon as there is one.
class Leaver {
 public:
  void leave() {
    std::lock_guard lock(mutex_);
    asked_ = true;
    if (run_) run_->leave();
  }
  void attach(NodeRun* run) {
    std::lock_guard lock(mutex_);
    run_ = run;
    if (run_ && asked_) run_->leave();
  }

 private:
  std::mutex mutex_;
  bool asked_ = false;
  NodeRun* run_ = nullptr;
};

/// The config that this host has, if it has one.
struct OwnConfig {
  std::string hash;  ///< empty: it has none
  ps::NetworkSection network;
};

/// Without CONFIG only what the transport is opened with can be said, before the run's config is known.
Result<OwnConfig> own_config(const ConfigArguments& arguments) {
  if (!arguments.path.empty()) {
    const auto own = load(arguments);
    if (!own) return tl::unexpected(own.error());
    return OwnConfig{ps::config_hash(own->config), own->config.network};
  }
  ps::ConfigInput input;
  input.overrides = arguments.overrides;
  for (const std::string& text : input.overrides)
    if (!text.starts_with("network."))
      return fail(ErrorKind::invalid, cat("--set ", text, ": a node without CONFIG takes the run's; of its own it can "
                                          "have network.* alone"));
  for (const auto& [name, value] : environment())
    if (name.starts_with("TROUPE_NETWORK__")) input.environment[name] = value;
  const auto own = ps::load_config(input);
  if (!own) return tl::unexpected(own.error());
  return OwnConfig{"", own->config.network};
}

/// The transport is open before the run's config comes, and keeps what it was opened with.
void warn_of_others(const std::vector<std::string>& own, const std::string& run_config) {
  ps::ConfigInput input;
  input.file_text = run_config;
  const auto loaded = ps::load_config(input);
  if (!loaded) return;  // `prepare` says it
  const auto wanted = transport_settings(loaded->config.network);
  if (wanted == own) return;
  const auto list = [](const std::vector<std::string>& settings) {
    std::string text;
    for (const std::string& setting : settings) text += cat(text.empty() ? "" : ", ", setting);
    return settings.empty() ? "the defaults" : text;
  };
  std::cerr << cat("warning: [network]: the run has ", list(wanted), ", this node was started with ", list(own),
                   ": give it the run's CONFIG, or --set\n")
            << std::flush;
}

/// Where the process writes what it did, if the run wants that.
struct NodeTrace {
  std::shared_ptr<const Trace> trace;
  std::string folder;
  uint32_t node = 0;

  void write() const {
    if (!trace) return;
    const std::string path = cat(folder, "/trace-node-", node, ".json");
    if (auto written = ps::write_trace(path, *trace, {node, cat("node ", node)}); !written)
      std::cerr << "warning: the trace was not written: " << written.error().message << std::endl;
  }
};

Result<ClusterParts> prepare(const ps::Welcome& welcome, NodeTrace& trace) {
  ps::ConfigInput input;
  input.file_name = "the run's config";
  input.file_text = welcome.config;
  auto config = ps::load_config(input);
  if (!config) return tl::unexpected<Error>(config.error());
  auto blueprint = Blueprint::make(*config, true);
  if (!blueprint) return tl::unexpected<Error>(blueprint.error());
  ClusterParts parts = (*blueprint)->parts();
  trace = {parts.trace, config->config.metrics.trace_folder, welcome.node.index};
  Blueprint::keep_promises(parts, config->config, true);
  if (welcome.resume_from.empty()) return parts;
  auto checkpoint = ps::Checkpoint::open_verified(ps::make_posix_files(), welcome.resume_from);
  if (!checkpoint)
    return fail(cat("the run goes on from ", welcome.resume_from,
                    ", which this host cannot read (nodes that take "
                    "servers need it; use a shared file system, or --takes workers)"),
                checkpoint.error());
  auto resumed = Blueprint::resume(parts, std::make_shared<const ps::Checkpoint>(std::move(*checkpoint)));
  if (!resumed) return tl::unexpected<Error>(resumed.error());
  return parts;
}

/// Of a coordinator that never answered: what can be found out about it.
std::string about(const std::string& address) {
  if (const auto reached = ps::try_to_reach(full_address(address), std::chrono::seconds(2)); !reached)
    return reached.error().message;
  return "something takes connections there, but is no coordinator of a run, is stopped, or has other keys";
}

int node(const NodeArguments& arguments) {
  if (const auto tied = tie_to_launcher(arguments.network); !tied) return report(tied.error());
  if (arguments.core)  // before there are other threads
    if (const auto bound = launch::bind_to_core(*arguments.core); !bound) return report(bound.error());
  const auto own = own_config(arguments.config);
  if (!own) return report(own.error());
  auto options = network_options(arguments.network, "node", own->network);
  if (!options) return report(options.error());
  options->home = full_address(arguments.join);
  options->on_refused = [](const ps::Refusal& refusal) {
    std::cerr << cat("warning: ", describe(refusal), "\n") << std::flush;
  };
  auto opened = ps::NetworkTransport::open(std::move(*options));
  if (!opened) return report(opened.error());
  const std::shared_ptr<ps::NetworkTransport> network = std::move(*opened);

  NodeRunParts parts;
  parts.hello = {cat(host_name(), ":", ::getpid()), network->address(), arguments.takes != "servers",
                 arguments.takes != "workers", arguments.place};
  parts.incarnation = static_cast<uint32_t>(random_number() | 1);
  parts.transport = network;
  parts.config_hash = own->hash;
  parts.give_up = std::chrono::seconds(arguments.give_up_s);
  const auto welcomed = std::make_shared<std::atomic<bool>>(false);
  parts.welcomed = [network, welcomed, settings = transport_settings(own->network)](const ps::Welcome& welcome) {
    *welcomed = true;
    warn_of_others(settings, welcome.config);
    network->set_run(welcome.run);
    network->set_self(welcome.node.index);
    std::cout << launch::kJoined << welcome.node << std::endl;
  };
  parts.set_routes = [network, begun = false](const ps::Routes& routes) mutable {
    network->set_routes(routes);
    // Nothing has a place before that.
    const bool placed =
        std::ranges::any_of(routes.places, [](const auto& place) { return place.who.role != ps::Role::node; });
    if (placed && !std::exchange(begun, true)) std::cout << launch::kBegun << std::endl;
  };
  parts.measure = [network] {
    const ps::NetworkCounters counters = network->counters();
    ps::Heartbeat beat;
    beat.queued_messages = counters.queued_messages();
    beat.queued_bytes = counters.queued_bytes();
    beat.refused_frames = counters.refused_in_all();
    return beat;
  };
  const auto trace = std::make_shared<NodeTrace>();
  parts.prepare = [trace](const ps::Welcome& welcome) { return prepare(welcome, *trace); };

  Leaver leaver;
  Interrupts interrupts([&leaver] { leaver.leave(); });
  const auto run = NodeRun::join(std::move(parts));
  leaver.attach(run.get());
  const Status ended = run->wait();
  leaver.attach(nullptr);
  network->close();
  trace->write();
  if (!ended) {
    Error error = fail("the run at " + arguments.join, ended.error()).value();
    if (error.kind == ErrorKind::missing && !*welcomed)
      error = {ErrorKind::failed, cat(error.message, ": ", about(arguments.join))};
    return report(error);
  }
  std::cout << "the run is over" << std::endl;
  return kOk;
}

}  // namespace

void add_node(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("node", "Join a run with this process: hold workers and servers of it");
  command->footer(kFooter);
  auto arguments = std::make_shared<NodeArguments>();
  command->add_option("--join", arguments->join, "Address of the run's coordinator")->required()->type_name("ADDRESS");
  add_config_arguments(*command, arguments->config);
  command->get_option("CONFIG")->required(false)->description(
      "The config that this host has: the run must have the same. Without it the run's is taken");
  arguments->network.listen = "127.0.0.1:0";
  add_network_arguments(*command, arguments->network);
  command->add_option("--takes", arguments->takes, "What it may hold")
      ->check(CLI::IsMember({"both", "workers", "servers"}))
      ->capture_default_str();
  command->add_option("--place", arguments->place, "Its number among the run's nodes, from 0: whoever had it is gone")
      ->check(CLI::Range(int64_t{0}, int64_t{4095}))
      ->type_name("N");
  command->add_option("--core", arguments->core, "Number of the core that it keeps to. Default: all that it may use")
      ->check(CLI::NonNegativeNumber)
      ->type_name("N");
  command->add_option("--give-up", arguments->give_up_s, "Seconds without a word of the coordinator, then it ends")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->callback([arguments, &exit_code] { exit_code = node(*arguments); });
}
