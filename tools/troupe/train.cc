#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <mutex>
#include <thread>

#include <troupe/actors/experiment.h>
#include <troupe/ps/metrics/human.h>
#include <troupe/ps/metrics/run_folder.h>

#include "commands.h"

using namespace troupe;

namespace {

constexpr const char* kFooter = R"(
Examples:
  troupe train configs/fashion_mnist.toml
  troupe train configs/sync.toml --set train.epochs=1 --set parallel.workers=4 --run-dir /tmp/first
  troupe train configs/async.toml --set debug.record=true --run-dir /tmp/recorded
  troupe train --replay /tmp/recorded
  troupe train --resume /tmp/first --set train.epochs=2

Ctrl-C, SIGTERM or a closed terminal ends the run at the next step boundary, with a checkpoint (exit code 130); a
second one ends it at once.

What a run leaves in its folder:
  config.resolved.toml   every setting and where its value came from
  metrics.csv, .jsonl    a row after every metrics.every_steps steps and every evaluation
  log.txt                what happened, with the time
  checkpoints/           the newest checkpoint.keep of them; see troupe ckpt --help
  summary.json           accuracy, loss, speed, and each layer's traffic and staleness
  record/                with debug.record, what --replay needs)";

struct TrainArguments {
  ConfigArguments config;
  ExperimentOptions options;
};

/// Ctrl-C, SIGTERM and a terminal that closes: the first asks the run to end at the next step boundary, the second
/// ends the process at once. A handler may only write to a pipe; a thread reads it.
class Interrupts {
 public:
  explicit Interrupts(std::function<void()> on_first) {
    if (::pipe(pipe_) != 0) throw std::runtime_error("cannot make a pipe");
    struct sigaction action {};
    action.sa_handler = [](int) {
      const ssize_t written = ::write(pipe_[1], "i", 1);
      (void)written;  // a full pipe holds enough of them
    };
    ::sigaction(SIGINT, &action, nullptr);
    ::sigaction(SIGTERM, &action, nullptr);
    if (::signal(SIGHUP, SIG_IGN) != SIG_IGN) ::sigaction(SIGHUP, &action, nullptr);  // under nohup it stays ignored
    ::signal(SIGPIPE, SIG_IGN);  // whoever reads the progress may go; the training goes on
    thread_ = std::thread([on_first = std::move(on_first)] {
      char byte = 0;
      for (int count = 0; ::read(pipe_[0], &byte, 1) == 1 && byte == 'i'; ++count) {
        if (count > 0) ::_exit(kInterrupted);
        on_first();
      }
    });
  }
  ~Interrupts() {
    ::signal(SIGINT, SIG_DFL);
    ::signal(SIGTERM, SIG_DFL);
    ::signal(SIGHUP, SIG_DFL);
    const ssize_t written = ::write(pipe_[1], "q", 1);
    (void)written;
    thread_.join();
    ::close(pipe_[0]);
    ::close(pipe_[1]);
  }

 private:
  static inline int pipe_[2] = {-1, -1};  // one a process, as signals are
  std::thread thread_;
};

/// Progress on standard output, the log's lines on standard error, neither in the middle of the other.
class Console {
 public:
  /// Progress is counted from here.
  void begin(int64_t first_step) {
    std::lock_guard lock(mutex_);
    printer_ = make_printer(first_step);
  }
  void progress(const ps::Progress& progress, bool last) {
    std::lock_guard lock(mutex_);
    std::cout << (last ? printer_.finish(progress, now()) : printer_.update(progress, now())) << std::flush;
  }
  void line(const std::string& text) {
    std::lock_guard lock(mutex_);
    std::cout << printer_.interrupt(text + "\n") << std::flush;
  }
  void log(ps::LogLevel level, const std::string& who, const std::string& text) {
    if (level == ps::LogLevel::info) return line(text);
    std::lock_guard lock(mutex_);
    std::cout << printer_.interrupt("") << std::flush;
    std::cerr << (level == ps::LogLevel::error ? "error: " : "warning: ") << who << ": " << text << std::endl;
  }

 private:
  static ps::ProgressPrinter make_printer(int64_t first_step) {
    return {::isatty(STDOUT_FILENO) != 0, columns(), first_step, now()};
  }
  static double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  static int columns() {
    winsize size{};
    return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
  }

  std::mutex mutex_;
  ps::ProgressPrinter printer_ = make_printer(0);
};

/// What an interrupt ends: the experiment, as soon as there is one.
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
    std::lock_guard lock(mutex_);
    experiment_ = experiment;
    if (asked_) experiment_->stop();
  }

 private:
  Console& console_;
  mutable std::mutex mutex_;
  bool asked_ = false;
  Experiment* experiment_ = nullptr;
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
    return fail(ErrorKind::missing, cat(option, run, ": there is no such folder; name a run's, as in runs/NAME-<time>"));
  if (config.path.empty()) {
    config.path = run + "/config.resolved.toml";
    if (!std::filesystem::exists(config.path, ignored))
      return fail(ErrorKind::missing, cat(option, run, ": is not a run's folder: it has no config.resolved.toml"));
  }
  auto loaded = load(config);
  if (loaded && replay) loaded->config.debug.record = false;
  return loaded;
}

/// Whatever kind of error it is, nothing was begun.
int report_not_begun(const Error& error) { return report(error) == kInterrupted ? kInterrupted : kBadUsage; }

int train(TrainArguments arguments) {
  if (!arguments.options.resume.empty() && !arguments.options.replay.empty())
    return report({ErrorKind::invalid, "--resume and --replay exclude each other"});
  const auto config = load_for(arguments);
  if (!config) return report(config.error());

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
  auto prepared = Experiment::prepare(*config, arguments.options);
  if (!prepared) return report_not_begun(prepared.error());
  experiment = std::move(*prepared);
  std::cout << experiment->layer_table() << "run folder: " << experiment->folder() << "\n\n" << std::flush;

  console.begin(experiment->first_step());
  stop.attach(experiment.get());
  const auto summary = experiment->run();
  if (!summary) return report_not_begun(summary.error());
  std::cout << '\n' << ps::summary_text(*summary) << "run folder: " << experiment->folder() << std::endl;
  return summary->exit_code;
}

}  // namespace

void add_train(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("train", "Train what a config describes, in this process");
  command->footer(kFooter);
  auto arguments = std::make_shared<TrainArguments>();
  add_config_arguments(*command, arguments->config);
  command->get_option("CONFIG")->required(false);
  command->add_option("--run-dir", arguments->options.run_dir,
                      "Folder for everything the run leaves behind; new or empty. Default: runs/NAME-<time>")
      ->type_name("DIR");
  command->add_option("--resume", arguments->options.resume,
                      "Go on from the newest valid checkpoint of this run, in its folder or --run-dir, with\n"
                      "CONFIG or the run's own config. The number of workers and servers may be another")
      ->type_name("RUN");
  command->add_option("--replay", arguments->options.replay,
                      "Repeat this run, recorded with debug.record = true, bit for bit in a new folder, with\n"
                      "the run's own config or one that differs only in names and reports")
      ->type_name("RUN");
  command->callback([arguments, &exit_code] { exit_code = train(*arguments); });
}
