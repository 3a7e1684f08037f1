#include "supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>

#include <troupe/kernels/base/parse.h>
#include <troupe/kernels/base/text.h>

#include "guard.h"
#include "interrupts.h"
#include "output.h"
#include "process_output.h"
#include "run_facts.h"
#include "run_logs.h"
#include "ssh.h"

namespace troupe::launch {
namespace {

constexpr int kCoordinator = Keeper::kCoordinator;
constexpr Moment kLook{20};            // between looks for the announcement,
constexpr Moment kLookForFolder{500};  // and for a run folder that another launcher's coordinator makes

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

/// One process of the plan: the child that runs now, if one does, and where its lines go.
struct Process {
  std::string name, host;
  bool remote = false;
  pid_t pid = 0;  ///< on its host
  std::optional<Child> child;
  std::unique_ptr<ProcessOutput> output;
};

/// Carries out what the Keeper decides. Everything happens in `run`, one poll(2) a turn.
class Supervisor {
 public:
  Supervisor(const LaunchPlan& plan, const SupervisorOptions& options, Guard guard)
      : plan_(plan),
        options_(options),
        keeper_(options.keeper),
        guard_(std::move(guard)),
        output_(options.out_fd, options.err_fd) {
    if (plan.coordinator.argv.empty()) {
      announcement_ = Announcement{plan.address, plan.logs_folder};
    }
    add_process("coordinator", "coordinator", "", host_name(), false);
    for (const NodePlan& node : plan.nodes) {
      const std::string number = std::to_string(node.place);
      add_process("node " + number, number, cat("[node ", number, "] "), node.host, node.remote);
      const int index = static_cast<int>(processes_.size()) - 2;
      processes_.back().output->filter = [this, index](std::string_view line) { return take_line(index, line); };
    }
  }

  int run() {
    carry_out(keeper_.begin(now()));
    while (!keeper_.finished()) turn();
    if (!keeper_.incidents().empty()) show_incidents();
    write_rest();
    return keeper_.exit_code();
  }

 private:
  struct Source {
    int process;
    enum class What { out, err, ended } what;
  };

  Process& process(int index) { return processes_[static_cast<size_t>(index + 1)]; }

  /// However long the reader takes, unless one more signal comes.
  void write_rest() {
    while (!output_.empty()) {
      pollfd polls[] = {{interrupts_.fd(), POLLIN, 0}, output_.poll_for()};
      ::poll(polls, 2, -1);
      if (interrupts_.take()) return;
      output_.write_ready();
    }
  }

  Moment now() const { return std::chrono::duration_cast<Moment>(std::chrono::steady_clock::now() - began_); }

  void say(const std::string& text) { output_.line(Stream::err, "launch: ", text); }

  void open_logs(const std::string& folder) {
    logs_opened_ = true;
    if (const auto opened = logs_.open(folder); !opened) say("warning: " + opened.error().message);
  }

  void add_process(const std::string& name, const std::string& short_name, const std::string& prefix,
                   const std::string& host, bool remote) {
    Process process{.name = name, .host = host, .remote = remote};
    std::string log = name;
    for (char& c : log)
      if (c == ' ') c = '-';
    const bool shown = options_.show.empty() || options_.show.contains(short_name);
    process.output = std::make_unique<ProcessOutput>(ProcessOutput::Options{log, prefix, shown}, output_, logs_,
                                                     [this](const Error& e) { say("warning: " + e.message); });
    processes_.push_back(std::move(process));
  }

  void carry_out(const Keeper::Effects& effects) {
    using Kind = Keeper::Effect::Kind;
    for (const Keeper::Effect& effect : effects) {
      Process& p = process(effect.process);
      if (effect.kind == Kind::start) {
        start(effect.process, effect.again);
      } else if (p.child && effect.kind == Kind::ask && p.remote) {
        p.child->let_go();
      } else if (p.child) {
        p.child->signal(effect.kind == Kind::ask ? SIGTERM : SIGKILL);
      }
    }
  }

  Command command_of(int index, bool again) const {
    if (index != kCoordinator) return plan_.node(plan_.nodes[static_cast<size_t>(index)], announcement_->address);
    return again && announcement_ ? plan_.recover(*announcement_) : plan_.coordinator;
  }

  void start(int index, bool again) {
    Process& p = process(index);
    if (index == kCoordinator) {
      ::unlink(plan_.announce_file.c_str());  // that of its predecessor
      awaited_ = true;
    }
    auto child = Child::start(command_of(index, again));
    p.pid = 0;
    if (!child) {
      Incident incident{
          .at = now(), .who = p.name, .host = p.host, .ending = {false, 1}, .what = child.error().message};
      return carry_out(keeper_.ended(index, std::move(incident), now()));
    }
    p.child.emplace(std::move(*child));
    guard_.watch(p.child->pid(), p.child->ended_fd());
    if (again) say(cat(p.name, " started again"));
    if (!p.remote) {
      p.pid = p.child->pid();
      if (index != kCoordinator) keeper_.answered(index);
    }
  }

  /// What a node's line says to the launcher; true: nobody else wants to see it.
  bool take_line(int index, std::string_view line) {
    if (line.starts_with(kJoined)) keeper_.joined(index);
    if (line == kBegun) keeper_.begun();
    return process(index).remote && take_pid(index, line);
  }

  bool take_pid(int index, std::string_view line) {
    Process& p = process(index);
    if (p.pid != 0 || !line.starts_with(kPidMarker)) return false;
    const auto pid = number_from<pid_t>(line.substr(kPidMarker.size()));
    if (!pid || *pid <= 0) return false;
    p.pid = *pid;
    keeper_.answered(index);
    return true;
  }

  void turn() {
    std::vector<pollfd> polls{{interrupts_.fd(), POLLIN, 0}, output_.poll_for()};
    std::vector<Source> sources;
    for (int i = kCoordinator; i + 1 < static_cast<int>(processes_.size()); ++i) {
      const auto& child = process(i).child;
      if (!child) continue;
      const auto add = [&](int fd, Source::What what) {
        polls.push_back({fd, POLLIN, 0});
        sources.push_back({i, what});
      };
      // Once interrupted, nobody who should end waits for whoever reads us.
      const bool reads = interrupted_ || !output_.full();
      if (child->stdout_fd() >= 0 && reads) add(child->stdout_fd(), Source::What::out);
      if (child->stderr_fd() >= 0 && reads) add(child->stderr_fd(), Source::What::err);
      add(child->ended_fd(), Source::What::ended);
    }
    ::poll(polls.data(), polls.size(), timeout_ms());
    if (polls[0].revents != 0)
      while (interrupts_.take()) interrupt();
    if (polls[1].revents != 0) output_.write_ready();
    for (size_t i = 0; i < sources.size(); ++i)
      if (polls[i + 2].revents != 0) handle(sources[i]);
    look_for_announcement();
    look_for_run_folder();
    carry_out(keeper_.tick(now()));
    output_.write_ready();
  }

  int timeout_ms() const {
    const auto next = keeper_.next();
    Moment wait = next ? std::max(Moment{0}, *next - now()) : Moment{60000};
    if (awaited_) wait = std::min(wait, kLook);
    if (!logs_opened_) wait = std::min(wait, kLookForFolder);
    return static_cast<int>(std::min(wait, Moment{60000}).count()) + 1;
  }

  void interrupt() {
    say(interrupted_ ? "ending all processes at once"
                     : "stopping: the run drains and writes a checkpoint; once more: at once");
    interrupted_ = true;
    carry_out(keeper_.interrupted(now()));
  }

  void handle(const Source& source) {
    Process& p = process(source.process);
    if (!p.child) return;
    switch (source.what) {
      case Source::What::out: read_some(p, Stream::out); return;
      case Source::What::err: read_some(p, Stream::err); return;
      case Source::What::ended: end(source.process); return;
    }
  }

  /// False: there is nothing (more) to read now.
  static bool read_some(Process& p, Stream stream) {
    char buffer[1 << 16];
    const int fd = stream == Stream::out ? p.child->stdout_fd() : p.child->stderr_fd();
    if (fd < 0) return false;
    const ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n > 0) p.output->bytes(stream, {buffer, static_cast<size_t>(n)});
    if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR))) return n > 0;
    p.output->end(stream);
    stream == Stream::out ? p.child->close_stdout() : p.child->close_stderr();
    return false;
  }

  /// What it wrote before it ended is in the pipes; what its own children write later is not waited for.
  void end(int index) {
    Process& p = process(index);
    for (Stream stream : {Stream::err, Stream::out}) {
      while (read_some(p, stream)) {
      }
      p.output->end(stream);
    }
    if (index == kCoordinator) look_for_announcement();
    const Ending ending = p.child->reap();
    Incident incident{.at = now(),
                      .who = p.name,
                      .host = p.host,
                      .pid = p.pid,
                      .ending = p.remote ? remote_ending(ending) : ending,
                      .stderr_lines = p.output->take_last_lines()};
    p.child.reset();
    if (index == kCoordinator) awaited_ = false;
    if (incident.ending.ok()) incident.stderr_lines.clear();
    const size_t before = keeper_.incidents().size();
    const auto effects = keeper_.ended(index, std::move(incident), now());
    if (keeper_.incidents().size() > before) tell(keeper_.incidents().back());
    carry_out(effects);
  }

  void tell(const Incident& incident) {
    say(cat(incident.who, " on ", incident.host, ", pid ", incident.pid, ": ",
            incident.what.empty() ? text_of(incident.ending) : incident.what));
  }

  void look_for_announcement() {
    if (!awaited_) return;
    auto said = read_announcement(plan_.announce_file);
    if (!said) return;
    awaited_ = false;
    announcement_ = std::move(said);
    open_logs(announcement_->run_folder);
    carry_out(keeper_.announced(now()));
  }

  /// Never before the coordinator has made it: it wants an empty one.
  void look_for_run_folder() {
    if (logs_opened_ || plan_.logs_folder.empty()) return;
    if (::access((plan_.logs_folder + "/config.resolved.toml").c_str(), F_OK) == 0) open_logs(plan_.logs_folder);
  }

  void show_incidents() {
    output_.line(Stream::err, "", "");
    output_.line(Stream::err, "", "What happened, first to last:");
    const std::string table = incident_table(keeper_.incidents());
    LineSplitter lines(Output::room("  "));
    lines.feed(table, [this](std::string_view line, bool) { output_.line(Stream::err, "  ", line); });
    const std::string facts = announcement_ ? run_facts(announcement_->run_folder) : "";
    if (!facts.empty()) output_.line(Stream::err, "", facts);
    if (!logs_.folder().empty())
      output_.line(Stream::err, "", cat("The whole of what each process wrote: ", logs_.folder()));
  }

  const LaunchPlan& plan_;
  const SupervisorOptions& options_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  Interrupts interrupts_;
  Keeper keeper_;
  Guard guard_;
  Output output_;
  RunLogs logs_;
  std::optional<Announcement> announcement_;
  std::vector<Process> processes_;
  bool awaited_ = false, interrupted_ = false, logs_opened_ = false;
};

}  // namespace

Result<int> supervise(const LaunchPlan& plan, const SupervisorOptions& options) {
  SupervisorOptions settled = options;
  settled.keeper.coordinator = !plan.coordinator.argv.empty();
  settled.keeper.nodes = static_cast<int>(plan.nodes.size());
  auto guard = Guard::start(options.guard_patience);
  if (!guard) return tl::unexpected(guard.error());
  return Supervisor(plan, settled, std::move(*guard)).run();
}

}  // namespace troupe::launch
