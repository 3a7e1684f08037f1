#include <ctime>
#include <filesystem>
#include <functional>
#include <iostream>
#include <mutex>

#include <tools/launch/cores.h>
#include <troupe/actors/experiment.h>
#include <troupe/ps/metrics/run_folder.h>

#include "commands.h"
#include "console.h"
#include "interrupts.h"
#include "launching.h"
#include "sampling.h"

using namespace troupe;

namespace {

constexpr const char* kFooter = R"(
Examples:
  troupe train configs/fashion_mnist.toml
  troupe train configs/sync.toml --set train.epochs=1 --set parallel.workers=4 --run-dir /tmp/first
  troupe train configs/sync.toml --set parallel.workers=4 --processes 4
  troupe train configs/async.toml --set debug.record=true --run-dir /tmp/recorded
  troupe train --replay /tmp/recorded
  troupe train --resume /tmp/first --set train.epochs=2
  troupe train --recover /tmp/spread                  its nodes live, its coordinator does not

Ctrl-C, SIGTERM or a closed terminal ends the run at the next step boundary, with a checkpoint (exit code 130); a
second one ends it at once.

What a run leaves in its folder:
  config.resolved.toml   every setting and where its value came from
  metrics.csv, .jsonl    a row after every metrics.every_steps steps and every evaluation
  log.txt                what happened, with the time
  checkpoints/           the newest checkpoint.keep of them; see troupe ckpt --help
  summary.json           accuracy, loss, speed, and each layer's traffic and staleness
  journal/               with --listen, until the run is over: what --recover needs
  record/                with debug.record, what --replay needs)";

struct TrainArguments {
  ConfigArguments config;
  ExperimentOptions options;
  NetworkArguments network;  ///< with `listen`, other processes make up the run
  int64_t nodes = 0;
  std::string announce;
  int64_t processes = 0;  ///< of this machine that make up the run; 0: this one alone
  LaunchArguments launch;
  std::string recover;       ///< folder of a run whose coordinator is to be started again
};

/// What an interrupt ends, and the network reports to: the experiment, as soon as there is one.
class Stop {
 public:
  explicit Stop(Console& console) : console_(console) {}
  void ask() {
    std::lock_guard lock(mutex_);
    asked_ = true;
    console_.line(experiment_ ? "stopping at the next step boundary, with a checkpoint; once more: at once"
                              : "stopping before the run begins; once more: at once");
    if (experiment_) experiment_->stop();
  }
  bool asked() const {
    std::lock_guard lock(mutex_);
    return asked_;
  }
  void attach(Experiment* experiment) {
    std::scoped_lock lock(mutex_, writing_);
    experiment_ = experiment;
    if (asked_ && experiment_) experiment_->stop();
  }
  void link_lost(uint32_t node) {
    std::lock_guard lock(mutex_);
    if (experiment_) experiment_->link_lost(node);
  }
  /// May wait for a disk or a terminal: others, who must not, do not wait for it.
  void refused(const ps::Refusal& refusal) {
    std::lock_guard lock(writing_);
    if (experiment_) experiment_->warn(describe(refusal));
    else console_.log(ps::LogLevel::warning, "coordinator", describe(refusal));
  }

 private:
  Console& console_;
  mutable std::mutex mutex_, writing_;
  bool asked_ = false;
  Experiment* experiment_ = nullptr;  // written with both
};

std::string time_stamp() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &local);
  return text;
}

/// --resume and --replay bring a config of their own.
Result<ps::LoadedConfig> load_for(const TrainArguments& arguments) {
  ConfigArguments config = arguments.config;
  const bool replay = !arguments.options.replay.empty();
  const std::string& run = replay ? arguments.options.replay : arguments.options.resume;
  const char* option = replay ? "--replay " : "--resume ";
  std::error_code ignored;
  if (config.path.empty() && run.empty())
    return fail(ErrorKind::invalid, "troupe train needs a CONFIG (or --resume RUN, or --replay RUN)");
  if (!run.empty() && !std::filesystem::is_directory(run, ignored))
    return fail(ErrorKind::missing,
                cat(option, run, ": there is no such folder; name a run's, as in runs/NAME-<time>"));
  if (config.path.empty()) {
    config.path = run + "/config.resolved.toml";
    if (!std::filesystem::exists(config.path, ignored))
      return fail(ErrorKind::missing, cat(option, run, ": is not a run's folder: it has no config.resolved.toml"));
  }
  auto loaded = load(config);
  if (loaded && replay) loaded->config.debug.record = false;
  return loaded;
}

/// A port that was chosen is kept: nodes look for the coordinator there.
std::string with_port_of(const std::string& listen, const std::string& address) {
  if (!listen.ends_with(":0")) return listen;
  return listen.substr(0, listen.size() - 1) + address.substr(address.rfind(':') + 1);
}

ps::RunStatus::Connections connections_of(const ps::NetworkCounters& counters) {
  ps::RunStatus::Connections own{counters.queued_messages(), counters.queued_bytes(), {}};
  for (size_t i = 0; i < ps::kRefusalReasons; ++i)
    if (counters.refused[i] > 0) own.refused[ps::name_of(static_cast<ps::RefusalReason>(i))] = counters.refused[i];
  return own;
}

/// The network of a run of several processes, of which this one coordinates.
Result<std::shared_ptr<ps::NetworkTransport>> spread(TrainArguments& arguments, const ps::RunConfig& config,
                                                     Stop& stop) {
  if (arguments.nodes < 1) return fail(ErrorKind::invalid, "--listen needs --nodes N, how many the run begins with");
  auto options = network_options(arguments.network, "coordinator", config.network);
  if (!options) return tl::unexpected<Error>(options.error());
  options->run = arguments.options.recovery ? arguments.options.recovery->head().run : random_number();
  options->on_peer_lost = [&stop](uint32_t node) { stop.link_lost(node); };
  options->on_refused = [&stop](const ps::Refusal& refusal) { stop.refused(refusal); };
  const uint64_t run = options->run;
  auto network = ps::NetworkTransport::open(std::move(*options));
  if (!network) return network;
  std::error_code ignored;
  const NetworkArguments& given = arguments.network;
  arguments.options.spread = ExperimentOptions::Spread{
      .nodes = arguments.nodes,
      .run = run,
      .network = {with_port_of(given.listen, (*network)->address().address), given.advertise,
                  given.keys.empty() ? "" : std::filesystem::absolute(given.keys, ignored).string(), given.insecure},
      .transport = *network,
      .set_routes = [network = *network](const ps::Routes& routes) { network->set_routes(routes); },
      .connections = [network = *network] { return connections_of(network->counters()); }};
  return network;
}

/// Where the coordinator is reached: in its run's folder, for `troupe status`, and for whoever started it.
Status announce(const TrainArguments& arguments, const std::string& address, const std::string& folder) {
  TROUPE_TRY(ps::replace_file(folder + "/coordinator.address", address + "\n"));
  if (arguments.announce.empty()) return {};
  return ps::replace_file(arguments.announce, cat(address, "\n", folder, "\n"));
}

/// Takes hold of the run, and fills in what its coordinator was started with where nothing else is said now.
Result<ps::LoadedConfig> recover(TrainArguments& arguments) {
  if (!arguments.config.path.empty() || !arguments.config.overrides.empty() || arguments.nodes > 0 ||
      !arguments.options.run_dir.empty() || !arguments.options.resume.empty() || !arguments.options.replay.empty())
    return fail(ErrorKind::invalid, "--recover goes on with the run as it is: it takes neither CONFIG, --set, --nodes, "
                                    "--run-dir, --resume nor --replay");
  auto found = Recovery::find(arguments.recover);
  if (!found) return fail("--recover " + arguments.recover, found.error());
  arguments.options.recovery = std::move(*found);
  const ps::JournalHead& head = arguments.options.recovery->head();
  NetworkArguments& network = arguments.network;
  if (network.listen.empty()) network.listen = head.network.listen;
  if (network.advertise.empty()) network.advertise = head.network.advertise;
  if (network.keys.empty()) network.keys = head.network.keys;
  network.insecure = network.insecure || head.network.insecure;
  arguments.nodes = head.nodes;
  ps::ConfigInput input;
  input.file_name = "the run's config";
  input.file_text = head.config;
  return ps::load_config(input);
}

/// What the model has learnt, for people to read, where the config asks for it.
void print_sample(const ps::RunConfig& config, const std::string& folder) {
  if (config.model.kind != "gpt" || config.metrics.sample_tokens == 0) return;
  SampleRequest request;
  request.path = folder;
  request.options.tokens = config.metrics.sample_tokens;
  std::cout << "the model goes on from a new line (more: troupe sample " << folder << "):" << std::endl;
  if (const auto written = write_sample(request, std::cout); !written)
    std::cerr << "warning: no sample: " << written.error().message << std::endl;
}

struct CloseAtEnd {
  const std::shared_ptr<ps::NetworkTransport>& network;
  ~CloseAtEnd() {
    if (network) network->close();
  }
};

/// Whatever kind of error it is, nothing was begun.
int report_not_begun(const Error& error) { return report(error) == kInterrupted ? kInterrupted : kBadUsage; }

/// In several processes, which this one starts and watches.
int train_in_processes(const TrainArguments& arguments, const ps::RunConfig& config) {
  if (arguments.nodes > 0 || !arguments.options.replay.empty())
    return report({ErrorKind::invalid, "--processes excludes --nodes and --replay"});
  LaunchArguments launch = arguments.launch;
  launch.config = arguments.config;
  launch.run_dir = arguments.options.run_dir;
  launch.resume = arguments.options.resume;
  launch.network = arguments.network;
  auto prepared = prepare_launch(launch, config);
  if (!prepared) return report(prepared.error());
  // A worker of several threads wants more than one core.
  const auto cores = config.parallel.threads_per_worker > 1 ? std::vector<int>{} : launch::usable_cores();
  return run_launch(std::move(*prepared), launch.dry_run, [&](const launch::LaunchRequest& request) {
    return launch::plan_here(request, static_cast<int>(arguments.processes), cores);
  });
}

int train(TrainArguments arguments) {
  if (const auto tied = tie_to_launcher(arguments.network); !tied) return report(tied.error());
  if (!arguments.options.resume.empty() && !arguments.options.replay.empty())
    return report({ErrorKind::invalid, "--resume and --replay exclude each other"});
  const auto config = arguments.recover.empty() ? load_for(arguments) : recover(arguments);
  if (!config) return report(config.error());
  if (arguments.processes > 0) return train_in_processes(arguments, config->config);

  Console console;
  Stop stop(console);
  std::unique_ptr<Experiment> experiment;
  Interrupts interrupts([&stop] { stop.ask(); });
  arguments.options.cancelled = [&stop] { return stop.asked(); };
  arguments.options.stamp = time_stamp();
  arguments.options.progress = [&](const ps::Progress& progress, bool last) { console.progress(progress, last); };
  arguments.options.log = [&](ps::LogLevel level, const std::string& who, const std::string& text) {
    console.log(level, who, text);
  };
  std::shared_ptr<ps::NetworkTransport> network;
  const CloseAtEnd closes{network};  // whatever happens: it reports to `stop`, and the options hold it longer
  if (!arguments.network.listen.empty()) {
    auto opened = spread(arguments, config->config, stop);
    if (!opened) return report_not_begun(opened.error());
    network = std::move(*opened);
  }
  auto prepared = Experiment::prepare(*config, arguments.options);
  if (!prepared) return report_not_begun(prepared.error());
  experiment = std::move(*prepared);
  std::cout << experiment->layer_table() << "run folder: " << experiment->folder() << "\n\n" << std::flush;

  if (network) {
    const std::string address = network->address().address;
    if (auto told = announce(arguments, address, experiment->folder()); !told) return report_not_begun(told.error());
    if (arguments.recover.empty())
      console.line(cat("waiting for ", arguments.nodes, " nodes: troupe node --join ", address));
    else
      console.line(cat("going on as the coordinator at ", address));
  }
  console.begin(experiment->first_step());
  stop.attach(experiment.get());
  const auto summary = experiment->run();
  if (!summary) return report_not_begun(summary.error());
  stop.attach(nullptr);
  if (network) network->close();
  console.flush();
  std::cout << '\n' << ps::summary_text(*summary) << "run folder: " << experiment->folder() << std::endl;
  if (summary->exit_code == kOk) print_sample(config->config, experiment->folder());
  return summary->exit_code;
}

}  // namespace

void add_train(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("train", "Train what a config describes, in this process or some of this machine");
  command->footer(kFooter);
  auto arguments = std::make_shared<TrainArguments>();
  add_config_arguments(*command, arguments->config);
  command->get_option("CONFIG")->required(false);
  command
      ->add_option("--run-dir", arguments->options.run_dir,
                   "Folder for everything the run leaves behind; new or empty. Default: runs/NAME-<time>")
      ->type_name("DIR");
  command
      ->add_option("--resume", arguments->options.resume,
                   "Go on from the newest valid checkpoint of this run, in its folder or --run-dir, with\n"
                   "CONFIG or the run's own config. The number of workers and servers may be another")
      ->type_name("RUN");
  command
      ->add_option("--replay", arguments->options.replay,
                   "Repeat this run, recorded with debug.record = true, bit for bit in a new folder, with\n"
                   "the run's own config or one that differs only in names and reports")
      ->type_name("RUN");
  command
      ->add_option("--recover", arguments->recover,
                   "Go on as the coordinator of this run, whose coordinator has died while its nodes live: at the\n"
                   "address at which it was, unless --listen names another under which they find it")
      ->type_name("RUN");
  add_network_arguments(*command, arguments->network);
  command
      ->add_option("--nodes", arguments->nodes,
                   "With --listen: this process only coordinates, and the run begins when so many have joined it")
      ->check(CLI::Range(int64_t{1}, int64_t{4096}))
      ->type_name("N");
  command
      ->add_option("--announce", arguments->announce,
                   "With --listen: a file to write once nodes may join: the address, then the run's folder")
      ->type_name("FILE");
  CLI::Option* processes =
      command
          ->add_option(
              "--processes", arguments->processes,
              "Train in so many processes of this machine, which this one starts and watches. Logs of each are\n"
              "in the run's folder")
          ->check(CLI::Range(int64_t{1}, int64_t{4096}))
          ->type_name("N");
  for (CLI::Option* option : add_launch_arguments(*command, arguments->launch)) option->needs(processes);
  command->callback([arguments, &exit_code] { exit_code = train(*arguments); });
}
