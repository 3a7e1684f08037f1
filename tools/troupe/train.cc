#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <iostream>
#include <mutex>
#include <thread>

#include <troupe/actors/experiment.h>
#include <troupe/ps/metrics/human.h>
#include <troupe/ps/metrics/run_folder.h>

#include "commands.h"

using namespace troupe;

namespace {

struct TrainArguments {
  ConfigArguments config;
  ExperimentOptions options;
};

/// Ctrl-C and SIGTERM: the first asks the run to end at the next step boundary, the second ends the process at
/// once. A handler may only write to a pipe; a thread reads it.
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
  Console() : terminal_(::isatty(STDOUT_FILENO)), printer_(terminal_, columns(), 0, now()) {}

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
  static double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  static int columns() {
    winsize size{};
    return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
  }

  std::mutex mutex_;
  bool terminal_;
  ps::ProgressPrinter printer_;
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
  const std::string& run = arguments.options.replay.empty() ? arguments.options.resume : arguments.options.replay;
  if (config.path.empty() && run.empty())
    return fail(ErrorKind::invalid, "troupe train needs a CONFIG (or --resume RUN, or --replay RUN)");
  if (config.path.empty()) config.path = run + "/config.resolved.toml";
  auto loaded = load(config);
  if (!loaded || arguments.options.replay.empty()) return loaded;
  loaded->config.debug.record = false;
  return loaded;
}

int train(TrainArguments arguments) {
  if (!arguments.options.resume.empty() && !arguments.options.replay.empty())
    return report({ErrorKind::invalid, "--resume and --replay exclude each other"});
  const auto config = load_for(arguments);
  if (!config) return report(config.error());

  Console console;
  arguments.options.stamp = time_stamp();
  arguments.options.progress = [&](const ps::Progress& progress, bool last) { console.progress(progress, last); };
  arguments.options.log = [&](ps::LogLevel level, const std::string& who, const std::string& text) {
    console.log(level, who, text);
  };
  auto experiment = Experiment::prepare(*config, arguments.options);
  if (!experiment) return report(experiment.error());
  std::cout << (*experiment)->layer_table() << "run folder: " << (*experiment)->folder() << "\n\n" << std::flush;

  Interrupts interrupts([&] {
    console.line("stopping at the next step boundary, with a checkpoint; once more: at once");
    (*experiment)->stop();
  });
  const auto summary = (*experiment)->run();
  if (!summary) return report(summary.error());
  std::cout << '\n' << ps::summary_text(*summary) << "run folder: " << (*experiment)->folder() << std::endl;
  return summary->exit_code;
}

}  // namespace

void add_train(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("train", "Train what a config describes, in this process");
  auto arguments = std::make_shared<TrainArguments>();
  add_config_arguments(*command, arguments->config);
  command->get_option("CONFIG")->required(false);
  command->add_option("--run-dir", arguments->options.run_dir,
                      "Folder for everything the run leaves behind; new or empty. Default: runs/NAME-<time>")
      ->type_name("DIR");
  command->add_option("--resume", arguments->options.resume,
                      "Go on from the newest valid checkpoint of this run, in its folder (or --run-dir).\n"
                      "Without CONFIG, with its config")
      ->type_name("RUN");
  command->add_option("--replay", arguments->options.replay,
                      "Repeat this run (recorded with debug.record = true) bit for bit, in a new folder")
      ->type_name("RUN");
  command->callback([arguments, &exit_code] { exit_code = train(*arguments); });
}
