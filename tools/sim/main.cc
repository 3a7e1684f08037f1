// troupe-sim: the real actors in a seeded simulator.
//
//   troupe-sim --seeds 0..4999 --jobs 2      exit 0: no seed violates a rule
//   troupe-sim --seeds 17 --trace            what happens in seed 17, message by message
//
// A seed that violates a rule is printed with what happens in it and the command that replays it.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <string_view>
#include <vector>

#include <troupe/kernels/base/text.h>

#include "bugs.h"
#include "replication.h"
#include "simulation.h"

namespace {

using namespace troupe;

struct Arguments {
  uint64_t first = 0, last = 0;
  int jobs = 1;
  bool trace = false;
  bool replication = false;
  std::string bug;
  int64_t stop_after = 5;  ///< violations, of one job
};

constexpr const char* kUsage =
    "troupe-sim --seeds A..B [--replication] [--jobs N] [--trace] [--bug NAME] [--stop-after N]\n"
    "Runs clusters of real actors in virtual time through the mishaps of each seed and checks what was promised.\n"
    "  --seeds A..B     both included; A alone is one seed\n"
    "  --replication    a server, its replica and take-overs alone, without CAF\n"
    "  --jobs N         processes [1]\n"
    "  --trace          print every message, and run each seed twice\n"
    "  --bug NAME       with this fault in the actors (runs troupe-sim-bugs, beside this program)\n"
    "  --stop-after N   violating seeds a process prints before it gives up [5]\n"
    "Exit: 0 no seed violates a rule, 1 some seed does, 2 wrong arguments.\n";

bool number(std::string_view text, uint64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

bool parse(int argc, char** argv, Arguments& a) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    const auto value = [&]() -> std::string_view { return i + 1 < argc ? argv[++i] : ""; };
    uint64_t count = 0;
    if (name == "--trace") {
      a.trace = true;
    } else if (name == "--replication") {
      a.replication = true;
    } else if (name == "--seeds") {
      const std::string_view seeds = value();
      const size_t dots = seeds.find("..");
      if (!number(seeds.substr(0, dots), a.first)) return false;
      a.last = a.first;
      if (dots != std::string_view::npos && !number(seeds.substr(dots + 2), a.last)) return false;
    } else if (name == "--jobs" && number(value(), count) && count > 0) {
      a.jobs = static_cast<int>(count);
    } else if (name == "--stop-after" && number(value(), count)) {
      a.stop_after = static_cast<int64_t>(count);
    } else if (name == "--bug") {
      a.bug = value();
    } else {
      return false;
    }
  }
  return argc > 1 && a.first <= a.last;
}

std::string replay_command(const Arguments& a, uint64_t seed) {
  return cat("build/troupe-sim", a.bug.empty() ? "" : "-bugs --bug " + a.bug, " --seeds ", seed, "..", seed,
             " --trace");
}

void report(const sim::Scenario& scenario, const sim::SimulationResult& result, const Arguments& a) {
  const sim::SimulationResult again = sim::simulate(scenario, a.trace ? 1'000'000 : 60);
  std::cout << cat("seed ", scenario.seed, " violates ", *result.violation, "\n", describe(scenario), "last events:\n",
                   again.trace, "replay: ", replay_command(a, scenario.seed), "\n\n")
            << std::flush;
}

struct Sum {
  int64_t seeds = 0, violating = 0, events = 0;
};

Sum run_replication(const Arguments& a, uint64_t first, volatile uint64_t& current) {
  Sum sum;
  for (uint64_t seed = first; seed <= a.last && sum.violating < a.stop_after; seed += static_cast<uint64_t>(a.jobs)) {
    current = seed;
    sim::ReplicationResult result = sim::simulate_replication(seed, a.trace ? 1'000'000 : 0);
    ++sum.seeds;
    sum.events += result.events;
    if (!result.violation && seed % 50 == 0 && sim::simulate_replication(seed).hash != result.hash)
      result.violation = "determinism: two runs of the seed differ";
    if (a.trace) std::cout << result.trace;
    if (!result.violation) continue;
    ++sum.violating;
    std::cout << cat("seed ", seed, " violates ", *result.violation, "\nlast events:\n",
                     sim::simulate_replication(seed, 60).trace, "replay: build/troupe-sim",
                     a.bug.empty() ? "" : "-bugs --bug " + a.bug, " --replication --seeds ", seed, "..", seed,
                     " --trace\n\n")
              << std::flush;
  }
  return sum;
}

/// Every `jobs`-th seed from `first` on; `current` always holds the one that runs.
Sum run(const Arguments& a, uint64_t first, volatile uint64_t& current) {
  if (a.replication) return run_replication(a, first, current);
  Sum sum;
  for (uint64_t seed = first; seed <= a.last && sum.violating < a.stop_after; seed += static_cast<uint64_t>(a.jobs)) {
    current = seed;
    const sim::Scenario scenario = sim::make_scenario(seed);
    sim::SimulationResult result = sim::simulate(scenario);
    ++sum.seeds;
    sum.events += result.events;
    if (!result.violation && (a.trace || seed % 50 == 0))
      if (sim::simulate(scenario).hash != result.hash) result.violation = "determinism: two runs of the seed differ";
    if (result.violation) {
      ++sum.violating;
      report(scenario, result, a);
    } else if (a.trace) {
      std::cout << describe(scenario) << sim::simulate(scenario, 1'000'000).trace;
    }
  }
  return sum;
}

struct Job {
  pid_t process = 0;
  int answer = -1;  ///< the pipe's end that is read
};

/// What one job found; one that ended without an answer crashed in the seed it had begun.
Sum answer_of(const Job& job, const Arguments& a, uint64_t current) {
  Sum sum;
  const bool answered = read(job.answer, &sum, sizeof sum) == sizeof sum;
  close(job.answer);
  int status = 0;
  waitpid(job.process, &status, 0);
  if (answered) return sum;
  std::cout << cat("seed ", current, " crashed the process that ran it (",
                   WIFSIGNALED(status) ? cat("signal ", WTERMSIG(status), ", ", strsignal(WTERMSIG(status)))
                                       : cat("exit status ", WEXITSTATUS(status)),
                   "); the seeds that were left to it did not run\nreplay: ", replay_command(a, current), "\n\n")
            << std::flush;
  return {0, 1, 0};
}

/// Each job in a process of its own, which answers through a pipe and shows its seed in shared memory.
Sum run_jobs(const Arguments& a) {
  uint64_t here = 0;
  if (a.jobs == 1) return run(a, a.first, here);
  const size_t bytes = static_cast<size_t>(a.jobs) * sizeof(uint64_t);
  void* shared = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return {0, 1, 0};
  auto* current = static_cast<uint64_t*>(shared);
  std::vector<Job> jobs;
  for (int job = 0; job < a.jobs; ++job) {
    int ends[2];
    if (pipe(ends) != 0) return {0, 1, 0};
    const pid_t process = fork();
    if (process == 0) {
      const Sum sum = run(a, a.first + static_cast<uint64_t>(job), current[job]);
      std::cout << std::flush;
      _exit(write(ends[1], &sum, sizeof sum) == sizeof sum ? 0 : 1);
    }
    close(ends[1]);
    jobs.push_back({process, ends[0]});
  }
  Sum all;
  for (size_t job = 0; job < jobs.size(); ++job) {
    const Sum sum = answer_of(jobs[job], a, current[job]);
    all.seeds += sum.seeds, all.violating += sum.violating, all.events += sum.events;
  }
  munmap(shared, bytes);
  return all;
}

/// Becomes the program with faults; returns only if that cannot be.
int run_with_bugs(char** argv) {
  std::error_code unknown;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", unknown).string() + "-bugs";
  execv(program.c_str(), argv);
  std::cerr << "faults are compiled into " << program << " alone, which cannot be run: " << std::strerror(errno)
            << "; tools/build makes it\n";
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments a;
  if (!parse(argc, argv, a)) {
    std::cerr << kUsage;
    return 2;
  }
  if (!a.bug.empty() && !sim::has_bugs()) return run_with_bugs(argv);
  if (!a.bug.empty() && !sim::seed_bug(a.bug)) {
    std::cerr << "no such bug: " << a.bug << "; there are " << sim::bug_names() << '\n';
    return 2;
  }
  const auto begin = std::chrono::steady_clock::now();
  const Sum sum = run_jobs(a);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::cout << cat(sum.seeds, " seeds, ", sum.violating, " violating, ", sum.events, " events, ", seconds, " s\n");
  return sum.violating == 0 ? 0 : 1;
}
