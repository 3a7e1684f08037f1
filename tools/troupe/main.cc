#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <iostream>
#include <optional>
#include <span>

#include <troupe/kernels/base/text.h>
#include <troupe/ps/config/nearest.h>

#include "commands.h"

using namespace troupe;

namespace {

constexpr const char* kFooter = R"(
Examples:
  troupe train configs/fashion_mnist.toml --set train.epochs=1
  troupe check configs/fashion_mnist.toml
  troupe config --explain optimizer
  troupe ckpt verify runs/fashion-mnist-20261130-112906

Where a setting's value comes from, later ones win: its default, the config file, the environment
(TROUPE_TRAIN__EPOCHS=3), the command line (--set train.epochs=3).

Exit codes:
  0    done
  1    the run began and failed, or troupe ckpt found a damaged checkpoint
  2    the command line, the config, the data or the machine is not right; nothing was begun
  130  interrupted by Ctrl-C or SIGTERM, after a checkpoint
)";

std::string failure_text(const CLI::App*, const CLI::Error& error) {
  return cat("error: ", error.what(), "\nSee troupe --help.\n");
}

/// CLI11 would only say that a command is missing. None where each word is one, up to an option or a command that has
/// none of its own.
std::optional<std::string> unknown_command(const CLI::App& app, std::span<char* const> words) {
  const CLI::App* at = &app;
  std::string path;
  for (const std::string word : words) {
    const std::vector<const CLI::App*> commands = at->get_subcommands(nullptr);
    if (commands.empty() || word.starts_with('-')) return std::nullopt;
    std::vector<std::string> names;
    for (const CLI::App* command : commands) names.push_back(command->get_name());
    const auto found = std::find(names.begin(), names.end(), word);
    if (found == names.end()) {
      const std::string near = ps::nearest_word(word, names);
      return cat("unknown command ", path, word, near.empty() ? "" : "; did you mean " + near + "?", "\nSee troupe ",
                 path, "--help.");
    }
    at = commands[static_cast<size_t>(found - names.begin())];
    path += word + ' ';
  }
  return std::nullopt;
}

/// A file that is opened later must not become the standard output of a program that was started without one.
void hold_standard_streams() {
  for (int descriptor = ::open("/dev/null", O_RDWR); descriptor >= 0; descriptor = ::dup(descriptor)) {
    if (descriptor <= STDERR_FILENO) continue;
    ::close(descriptor);
    return;
  }
}

/// Every received message is a fresh block: without this each large one is mapped, cleared by the kernel, and unmapped.
void keep_large_blocks() {
  constexpr int kBytes = 1 << 30;
  mallopt(M_MMAP_THRESHOLD, kBytes);
  mallopt(M_TRIM_THRESHOLD, kBytes);
}

/// CLI11 has an exit code for each kind of mistake; here they are all bad usage.
int exit_of(const CLI::App& app, const CLI::ParseError& error) {
  const int code = app.exit(error);
  return code == 0 ? kOk : kBadUsage;
}

}  // namespace

int main(int argc, char** argv) {
  hold_standard_streams();
  keep_large_blocks();
  CLI::App app(
      "Troupe trains models with actors: workers compute gradients, servers hold the parameters, and every\n"
      "layer chooses how it is kept in step.",
      "troupe");
  app.set_version_flag("--version", "troupe " TROUPE_VERSION " (" TROUPE_BUILD ", " TROUPE_ARCH ")");
  app.footer(kFooter);
  app.require_subcommand(1);
  app.failure_message(failure_text);
  int exit_code = kOk;
  add_train(app, exit_code);
  add_launch(app, exit_code);
  add_check(app, exit_code);
  add_plan(app, exit_code);
  add_profile(app, exit_code);
  add_config(app, exit_code);
  add_ckpt(app, exit_code);
  add_sample(app, exit_code);
  add_keys(app, exit_code);
  add_bench(app, exit_code);
  add_node(app, exit_code);
  add_status(app, exit_code);
  add_stop(app, exit_code);
  add_trace(app, exit_code);
  add_doctor(app, exit_code);
  if (const auto unknown = unknown_command(app, std::span(argv, static_cast<size_t>(argc)).subspan(argc > 0 ? 1 : 0))) {
    std::cerr << "error: " << *unknown << std::endl;
    return kBadUsage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return exit_of(app, error);
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << std::endl;
    return kRunFailed;
  }
  return exit_code;
}
