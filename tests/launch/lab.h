#pragma once
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <tests/support/temp_folder.h>
#include <tools/launch/supervisor.h>

namespace troupe::launch::test {

using Words = std::vector<std::string>;

/// A launch of processes that do what their words say (fake_process.cc), in a folder of its own. Bounded in time by a
/// test that fails: supervise() itself returns when all have ended.
class Lab {
 public:
  Lab() {
    options.keeper.start_timeout = Moment{10000};
    options.keeper.grace = Moment{2000};
    options.keeper.leave = Moment{300};
    options.guard_patience = Moment{2500};
  }

  /// Announces, then does `words`. Words may name files of the folder as @NAME.
  void coordinator(Words words) { coordinator_ = std::move(words); }
  void recovered(Words words) { recovered_ = std::move(words); }
  void node(Words words) { nodes_.push_back(std::move(words)); }

  /// supervise() in a process of its own; its pid.
  pid_t start() {
    const LaunchPlan plan = make_plan();
    const pid_t pid = ::fork();
    if (pid != 0) return pid;
    for (const auto& [fd, name] : {std::pair(1, "out"), std::pair(2, "err")})
      ::dup2(::open((folder / name).c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600), fd);
    const auto code = supervise(plan, options);
    ::_exit(code ? *code : 99);
  }
  /// The exit code of the launcher, 128 + signal where one ended it.
  int wait(pid_t launcher) const {
    int status = 0;
    ::waitpid(launcher, &status, 0);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  int run() { return wait(start()); }

  std::string out() const { return folder.read("out"); }
  std::string err() const { return folder.read("err"); }
  std::string log(const std::string& name) const { return folder.read("logs/" + name + ".log"); }
  /// That a process wrote to the file NAME of the folder, once it has.
  pid_t pid_in(const std::string& name) const {
    if (!eventually([&] { return !folder.read(name).empty(); })) return -1;
    return std::stoi(folder.read(name));
  }

  /// Whether `holds` became true within `most`.
  static bool eventually(const std::function<bool()>& holds,
                         std::chrono::milliseconds most = std::chrono::seconds(10)) {
    const auto end = std::chrono::steady_clock::now() + most;
    for (bool now = holds();; now = holds()) {
      if (now || std::chrono::steady_clock::now() > end) return now;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  /// A zombie that nobody has reaped has ended all the same.
  static bool runs(pid_t pid) {
    std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
    std::string text;
    std::getline(stat, text);
    return !text.empty() && text.find(") Z ") == std::string::npos;
  }
  bool eventually_gone(const std::string& pid_file) const {
    const pid_t pid = pid_in(pid_file);
    return pid > 0 && eventually([&] { return !runs(pid); });
  }

  troupe::test::TempFolder folder;
  SupervisorOptions options;
  std::function<void(LaunchPlan&)> plan_edit = [](LaunchPlan&) {};  ///< the last word on what runs

 private:
  Command command(const Words& words) const {
    Command made{.argv = {TROUPE_FAKE_PROCESS}};
    for (const std::string& word : words) {
      const auto at = word.find('@');
      made.argv.push_back(at == std::string::npos ? word : word.substr(0, at) + (folder / word.substr(at + 1)));
    }
    return made;
  }
  LaunchPlan make_plan() const {
    LaunchPlan plan;
    const auto announcing = [](Words words) {
      words.insert(words.begin(), "announce:@announce");
      return words;
    };
    plan.announce_file = folder / "announce";
    plan.coordinator = in_folder(command(announcing(coordinator_)));
    plan.recover = [this, announcing](const Announcement&) { return in_folder(command(announcing(recovered_))); };
    for (size_t i = 0; i < nodes_.size(); ++i) plan.nodes.push_back({static_cast<int>(i), "here"});
    plan.node = [this](const NodePlan& node, const std::string&) {
      return command(nodes_[static_cast<size_t>(node.place)]);
    };
    plan_edit(plan);
    return plan;
  }
  /// The run folder is where the coordinator stands.
  Command in_folder(Command command) const {
    command.argv.insert(command.argv.begin(), {"env", "-C", folder.path()});
    return command;
  }

  Words coordinator_, recovered_;
  std::vector<Words> nodes_;
};

/// Waits for the end of a process.
inline Ending ending_of(Child& child) {
  pollfd ended{child.ended_fd(), POLLIN, 0};
  ::poll(&ended, 1, 10000);
  return child.reap();
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace troupe::launch::test
