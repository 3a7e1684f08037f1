#include <troupe/actors/recovery.h>

#include <filesystem>

#include <troupe/kernels/base/check.h>
#include <troupe/ps/metrics/run_folder.h>

namespace troupe {

Result<Recovery> Recovery::find(const std::string& run) {
  const std::string path = ps::journal_folder(run);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored))
    return fail(ErrorKind::missing, cat(run, ": holds no journal to go on from: the run is over, or has lived in one "
                                        "process; to go on from its last checkpoint use --resume"));
  auto lock = ps::RunLock::take(path + "/lock");
  if (!lock) return tl::unexpected<Error>(lock.error());
  auto journal = ps::JournalFolder::open(ps::make_posix_files(), path);
  if (!journal) return tl::unexpected<Error>(journal.error());
  Recovery found;
  found.run = run;
  found.lock = std::move(*lock);
  found.journal = std::move(*journal);
  return found;
}

}  // namespace troupe
