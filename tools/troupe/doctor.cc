#include <fcntl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <mutex>
#include <thread>
#include <vector>

#include <troupe/actors/blueprint.h>
#include <troupe/kernels/backend/backend.h>
#include <troupe/ps/metrics/human.h>

#include "commands.h"
#include "network_arguments.h"

using namespace troupe;

namespace {

constexpr const char* kFooter = R"(
Examples:
  troupe doctor
  troupe doctor configs/fashion_mnist.toml --keys keys --listen 10.0.0.7:0

Each line says ok, note or BAD, what was looked at, and what was found. Exit code 2 where something is BAD.)";

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

struct DoctorArguments {
  ConfigArguments config;
  NetworkArguments network;
  std::string folder = ".";
};

class Findings {
 public:
  void ok(const std::string& what, const std::string& found) { line("ok   ", what, found); }
  void note(const std::string& what, const std::string& found) { line("note ", what, found); }
  void bad(const std::string& what, const std::string& found) {
    line("BAD  ", what, found);
    healthy_ = false;
  }
  bool healthy() const { return healthy_; }

 private:
  static void line(const char* mark, std::string what, const std::string& found) {
    what.resize(std::max<size_t>(what.size(), 14), ' ');
    std::cout << mark << what << ' ' << found << std::endl;
  }
  bool healthy_ = true;
};

void look_at_gpus(Findings& out) {
  const auto cuda = load_backend(DeviceKind::cuda);
  if (!cuda) return out.note("GPUs", cuda.error().message);
  for (const DeviceFacts& device : (*cuda)->devices())
    out.ok("GPUs", cat(device.name, ", ", ps::human_bytes(static_cast<int64_t>(device.memory_bytes)), " of memory, ",
                       device.driver));
}

void look_at_machine(Findings& out) {
  out.ok("version", "troupe " TROUPE_VERSION " (" TROUPE_BUILD ", " TROUPE_ARCH ")");
  const int64_t pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGESIZE);
  out.ok("devices", cat(std::thread::hardware_concurrency(), " CPU cores, ", ps::human_bytes(pages * page),
                        " of memory"));
  look_at_gpus(out);
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  const std::string text = cat(files.rlim_cur, " may be open");
  if (files.rlim_cur < 1024) out.note("files", text + "; each peer takes some: raise it with ulimit -n");
  else out.ok("files", text);
}

void look_at_clock(Findings& out) {
  timex state{};
  const int status = ::adjtimex(&state);
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &utc);
  if (utc.tm_year < 124) out.bad("clock", cat(text, " UTC: it has not been set; times in logs will mislead"));
  else if (status == TIME_ERROR || (state.status & STA_UNSYNC))
    out.note("clock", cat(text, " UTC, not kept by a time server: logs of several hosts may not line up (runs do "
                          "not depend on it)"));
  else out.ok("clock", cat(text, " UTC, kept by a time server"));
}

// As a checkpoint is written: one file, flushed to the disk.
void look_at_disk(Findings& out, const std::string& folder) {
  struct statvfs space {};
  if (::statvfs(folder.c_str(), &space) != 0)
    return out.bad("disk", folder + " cannot be looked at: " + std::strerror(errno));
  const auto free_bytes = static_cast<int64_t>(space.f_bavail * space.f_frsize);
  std::string path = folder + "/troupe-doctor-XXXXXX";
  const int file = ::mkstemp(path.data());
  if (file < 0) return out.bad("disk", folder + " cannot be written: " + std::strerror(errno));
  const std::vector<char> block(16 << 20, 'x');
  const auto begin = Clock::now();
  const bool written = ::write(file, block.data(), block.size()) == static_cast<ssize_t>(block.size()) &&
                       ::fsync(file) == 0;
  const double seconds = seconds_since(begin);
  ::close(file);
  ::unlink(path.c_str());
  const std::string where = std::filesystem::absolute(folder).lexically_normal().string();
  if (!written) return out.bad("disk", cat(where, ": 16 MB could not be written: ", std::strerror(errno)));
  const std::string text = cat(where, ": ", ps::human_bytes(free_bytes), " free, writes ",
                               ps::human_bytes(static_cast<int64_t>(16e6 / seconds)), "/s to the disk");
  if (free_bytes < int64_t{1} << 30) out.note("disk", text + "; checkpoints may not fit");
  else out.ok("disk", text);
}

void look_at_keys(Findings& out, const std::string& folder) {
  if (folder.empty()) return out.note("keys", "none given: runs stay on this host (troupe keys DIR makes some)");
  for (const char* role : {"coordinator", "node", "client"}) {
    std::error_code ignored;
    if (!std::filesystem::exists(folder + "/" + role + ".key", ignored)) continue;
    const auto keys = ps::load_keys(folder, *ps::key_role_named(role));
    if (keys) out.ok("keys", cat(folder, "/", role, ".key: good, ", keys->allowed.size(), " keys may connect"));
    else out.bad("keys", keys.error().message);
  }
}

/// A megabyte at a time from one transport to another, both in this process, through the sockets.
class Loopback {
 public:
  static constexpr int kMessages = 64;
  static constexpr int64_t kFloats = 1 << 18;

  Result<double> measure(const ps::NetworkOptions& base) {
    auto to = ps::NetworkTransport::open(base);
    if (!to) return tl::unexpected<Error>(to.error());
    ps::NetworkOptions options = base;
    options.listen.clear();
    options.home = (*to)->address().address;
    auto from = ps::NetworkTransport::open(options);
    if (!from) return tl::unexpected<Error>(from.error());
    (*to)->attach({ps::Role::coordinator, 0, 1}, [this](ps::EnvelopePtr) {
      std::lock_guard lock(mutex_);
      ++received_;
      changed_.notify_all();
    });
    if (!send(**from, 1)) return fail(ErrorKind::failed, "nothing came through within 5 s");
    const auto begin = Clock::now();
    if (!send(**from, kMessages)) return fail(ErrorKind::failed, "messages were lost on the way");
    return kMessages * kFloats * 4 / seconds_since(begin);
  }

 private:
  bool send(ps::NetworkTransport& network, int count) {
    const Tensor block = Tensor::zeros({kFloats});
    const int before = received_;
    for (int i = 0; i < count; ++i)
      network.send({{ps::Role::node, static_cast<uint32_t>(received_ + i), 1}, {ps::Role::coordinator, 0, 1}, 0,
                    ps::SnapshotReply{static_cast<uint64_t>(before + i), {{0, block, {}, 0}}}});
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(5), [&] { return received_ >= before + count; });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<int> received_{0};
};

void look_at_network(Findings& out, const NetworkArguments& arguments) {
  NetworkArguments here = arguments;
  here.listen = "127.0.0.1:0";
  auto options = network_options(here, "coordinator", {});
  if (!options) options = network_options({"127.0.0.1:0", "", "", false}, "coordinator", {});
  const auto speed = Loopback().measure(*options);
  if (speed) out.ok("loopback", cat(ps::human_bytes(static_cast<int64_t>(*speed)), "/s in messages of 1 MB over tcp",
                                    options->keys ? ", encrypted" : ""));
  else out.bad("loopback", speed.error().message);
  if (arguments.listen.empty()) return;
  auto asked = network_options(arguments, "coordinator", {});
  if (!asked) return out.bad("listen", asked.error().message);
  const auto open = ps::NetworkTransport::open(std::move(*asked));
  if (open) out.ok("listen", cat("peers would reach this process at ", (*open)->address().address));
  else out.bad("listen", open.error().message);
}

void look_at_config(Findings& out, const ConfigArguments& arguments) {
  if (arguments.path.empty()) return;
  const auto config = load(arguments);
  if (!config) return out.bad("config", config.error().message);
  const auto begin = Clock::now();
  const auto blueprint = Blueprint::make(*config);
  if (!blueprint) return out.bad("config", blueprint.error().message);
  const ps::CoordinatorOptions c = (*blueprint)->parts().coordinator;
  int64_t count = 0;
  for (const LayerSpec& layer : c.layers) count += layer.count;
  out.ok("config", cat(arguments.path, ": ", c.layers.size(), " layers, ", ps::human_count(count), " parameters, ",
                       ps::human_count(c.dealer.train_samples), " training samples, read in ",
                       ps::human_duration(seconds_since(begin))));
}

int examine(const DoctorArguments& arguments) {
  Findings findings;
  look_at_machine(findings);
  look_at_clock(findings);
  look_at_disk(findings, arguments.folder);
  look_at_keys(findings, arguments.network.keys);
  look_at_network(findings, arguments.network);
  look_at_config(findings, arguments.config);
  return findings.healthy() ? kOk : kBadUsage;
}

}  // namespace

void add_doctor(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("doctor", "Look at this machine as a run will: devices, disk, keys, network, clock");
  command->footer(kFooter);
  auto arguments = std::make_shared<DoctorArguments>();
  add_config_arguments(*command, arguments->config);
  command->get_option("CONFIG")->required(false)->description("A config whose data and model are looked at, too");
  add_network_arguments(*command, arguments->network);
  command->add_option("--folder", arguments->folder, "Where runs will be written")
      ->type_name("DIR")
      ->capture_default_str();
  command->callback([arguments, &exit_code] { exit_code = examine(*arguments); });
}
