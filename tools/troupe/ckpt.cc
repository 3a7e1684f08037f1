#include <iostream>

#include <troupe/ps/checkpoint/checkpoint_folder.h>
#include <troupe/ps/checkpoint/export_parameters.h>
#include <troupe/ps/metrics/human.h>

#include "commands.h"

using namespace troupe;

namespace {

/// A line for each checkpoint, then what is wrong with the damaged ones.
int print(const std::vector<ps::CheckpointInfo>& infos, const char* good) {
  std::vector<std::vector<std::string>> rows = {{"checkpoint", "step", "epoch", "size", "state"}};
  bool damaged = false;
  for (const ps::CheckpointInfo& info : infos) {
    if (info.error.empty()) {
      rows.push_back({info.folder, ps::human_count(info.step), ps::human_count(info.epoch),
                      ps::human_bytes(static_cast<int64_t>(info.bytes)), good});
    } else {
      rows.push_back({info.folder, "-", "-", "-", "damaged"});
      damaged = true;
    }
  }
  std::cout << ps::text_table(rows) << std::flush;
  for (const ps::CheckpointInfo& info : infos)
    if (!info.error.empty()) report({ErrorKind::corrupt, info.error});
  return damaged ? kRunFailed : kOk;
}

int list(const std::string& path) {
  const auto infos = ps::list_checkpoints(ps::make_posix_files(), path);
  if (!infos) return report(infos.error());
  if (infos->empty()) std::cout << path << " holds no checkpoint\n";
  return infos->empty() ? kOk : print(*infos, "ok");
}

/// Nothing to verify is not the same as verified.
int verify(const std::string& path) {
  const auto infos = ps::verify_checkpoints(ps::make_posix_files(), path);
  if (!infos) return report(infos.error());
  if (infos->empty()) return report({ErrorKind::missing, path + " holds no checkpoint"});
  return print(*infos, "verified");
}

int export_newest(const std::string& run, const std::string& file) {
  const auto exported = ps::export_parameters(ps::make_posix_files(), run, file);
  if (!exported) return report(exported.error());
  for (const auto& skipped : exported->skipped) std::cerr << "warning: passed over " << skipped.reason << '\n';
  std::cout << file << ": parameters of step " << exported->step << " from " << exported->folder << ", "
            << ps::human_bytes(static_cast<int64_t>(exported->bytes)) << '\n';
  return kOk;
}

}  // namespace

void add_ckpt(CLI::App& app, int& exit_code) {
  struct Arguments {
    std::string path, file;
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("ckpt", "List, verify and export the checkpoints of a run");
  command->require_subcommand(1);
  command->footer(R"(
Examples:
  troupe ckpt ls runs/fashion-mnist-20261130-112906
  troupe ckpt verify runs/fashion-mnist-20261130-112906
  troupe ckpt export runs/fashion-mnist-20261130-112906 weights.safetensors

Exit code 1 where a checkpoint is damaged. A run is resumed from its newest valid one: troupe train --resume RUN.)");
  const auto add = [&](const char* name, const char* what) {
    CLI::App* sub = command->add_subcommand(name, what);
    sub->add_option("DIR", arguments->path, "A run's folder, a folder of checkpoints, or one checkpoint")->required();
    return sub;
  };
  add("ls", "List checkpoints, oldest first")->callback([arguments, &exit_code] { exit_code = list(arguments->path); });
  add("verify", "Check every byte of every checkpoint; exit code 1 if any is damaged")
      ->callback([arguments, &exit_code] { exit_code = verify(arguments->path); });
  CLI::App* write = add("export", "Write the newest checkpoint's parameters as one safetensors file");
  write->add_option("FILE", arguments->file, "FILE.safetensors; equal parameters give equal files")->required();
  write->callback([arguments, &exit_code] { exit_code = export_newest(arguments->path, arguments->file); });
}
