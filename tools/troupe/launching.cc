#include "launching.h"

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <iostream>
#include <set>
#include <sstream>

#include <troupe/kernels/base/parse.h>
#include <troupe/kernels/base/text.h>

using namespace troupe;
using namespace troupe::launch;

namespace {

/// A folder of this launch alone, gone with it.
class LaunchFolder {
 public:
  static Result<LaunchFolder> make() {
    std::error_code error;
    std::string name = (std::filesystem::temp_directory_path(error) / "troupe-launch-XXXXXX").string();
    if (error || ::mkdtemp(name.data()) == nullptr)
      return fail(ErrorKind::missing,
                  cat(name, ": cannot make this folder: ", std::strerror(errno), "; TMPDIR says where"));
    return LaunchFolder(std::move(name));
  }
  LaunchFolder(LaunchFolder&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  ~LaunchFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  LaunchFolder& operator=(LaunchFolder&&) = delete;

  const std::string& path() const { return path_; }

 private:
  explicit LaunchFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

Result<std::set<std::string>> shown(const std::string& list) {
  std::set<std::string> names;
  std::istringstream words(list);
  for (std::string word; std::getline(words, word, ',');) {
    if (word != "coordinator" && word != "none" && !number_from<uint16_t>(word))
      return fail(ErrorKind::invalid,
                  cat("--show ", list, ": ", word, " is neither coordinator, nor none, nor a node's number"));
    names.insert(word);
  }
  return names;
}

Moment moment(double seconds) { return Moment{static_cast<int64_t>(seconds * 1000)}; }

std::vector<std::string> train_words(const LaunchArguments& arguments) {
  std::vector<std::string> words;
  if (!arguments.config.path.empty()) words.push_back(arguments.config.path);
  for (const std::string& text : arguments.config.overrides) words.insert(words.end(), {"--set", text});
  if (!arguments.run_dir.empty()) words.insert(words.end(), {"--run-dir", arguments.run_dir});
  if (!arguments.resume.empty()) words.insert(words.end(), {"--resume", arguments.resume});
  return words;
}

OnLoss on_loss(const ps::RunConfig& config) {
  switch (config.elastic.on_loss) {
    case ps::OnLoss::restart: return OnLoss::restart;
    case ps::OnLoss::shrink: return OnLoss::shrink;
    case ps::OnLoss::fail: return OnLoss::fail;
  }
  return OnLoss::fail;
}

/// Others than this machine can connect: then with keys, or knowingly without.
Status check_security(const LaunchRequest& request) {
  if (on_loopback(request.listen) || request.insecure_network || !request.keys.empty()) return {};
  return fail(ErrorKind::invalid,
              cat("the coordinator would listen at ", request.listen,
                  ", where other machines reach it: make keys with "
                  "troupe keys and give them with --keys DIR, or say --insecure-network where you trust that network"));
}

}  // namespace

std::vector<CLI::Option*> add_launch_arguments(CLI::App& command, LaunchArguments& arguments) {
  const auto seconds = CLI::Range(0.001, 1e6);
  return {
      command
          .add_option("--start-timeout", arguments.start_timeout_s,
                      "Seconds in which the coordinator must listen and every host must answer.\n"
                      "Default: network.start_timeout_s")
          ->check(seconds),
      command
          .add_option(
              "--grace", arguments.grace_s,
              "Seconds from Ctrl-C or SIGTERM, in which the run writes a checkpoint, to the end of all processes")
          ->check(seconds)
          ->capture_default_str(),
      command
          .add_option("--show", arguments.show,
                      "Whose lines are shown: coordinator, numbers of nodes, or none. Default: everybody's.\n"
                      "The logs of the run have all of them")
          ->type_name("coordinator,0,2"),
      command.add_flag("--dry-run", arguments.dry_run,
                       "Print what would run, one line a process, and do nothing. ADDRESS: what the coordinator will\n"
                       "announce"),
  };
}

Result<PreparedLaunch> prepare_launch(const LaunchArguments& arguments, const ps::RunConfig& config) {
  PreparedLaunch launch;
  auto names = shown(arguments.show);
  if (!names) return tl::unexpected(names.error());
  launch.options.show = std::move(*names);
  KeeperOptions& keeper = launch.options.keeper;
  keeper.on_loss = on_loss(config);
  keeper.max_restarts = config.elastic.max_restarts;
  keeper.start_timeout = arguments.start_timeout_s > 0 ? moment(arguments.start_timeout_s)
                                                       : std::chrono::seconds(config.network.start_timeout_s);
  keeper.grace = moment(arguments.grace_s);

  std::error_code error;
  LaunchRequest& request = launch.request;
  request.troupe = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (error) return fail(ErrorKind::missing, "cannot find this program itself in /proc/self/exe: " + error.message());
  request.remote_troupe = request.troupe;
  request.train = train_words(arguments);
  if (!arguments.network.listen.empty()) request.listen = arguments.network.listen;
  if (!arguments.network.keys.empty()) request.keys = std::filesystem::absolute(arguments.network.keys, error).string();
  request.insecure_network = arguments.network.insecure;
  request.node_settings = transport_settings(config.network);
  request.ssh.connect_timeout = keeper.start_timeout;
  request.ssh.folder = std::filesystem::current_path(error).string();
  return launch;
}

int run_launch(PreparedLaunch launch, bool dry, const std::function<LaunchPlan(const LaunchRequest&)>& plan_of) {
  if (const auto safe = check_security(launch.request); !safe) return report(safe.error());
  const auto folder = LaunchFolder::make();
  if (!folder) return report(folder.error());
  launch.request.announce_file = folder->path() + "/announce";
  const LaunchPlan plan = plan_of(launch.request);
  if (dry) {
    std::cout << dry_run(plan) << std::flush;
    return kOk;
  }
  const auto code = supervise(plan, launch.options);
  return code ? *code : report(code.error());
}
