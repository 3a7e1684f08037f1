#pragma once
#include <memory>
#include <string>

#include <troupe/ps/control/journal_folder.h>
#include <troupe/ps/control/run_lock.h>

namespace troupe {

/// The folder of a run whose coordinator is to be started again, taken hold of.
class Recovery {
 public:
  /// ErrorKind::invalid where the coordinator lives, missing where there is nothing to go on with: the run is over, or
  /// was one process's.
  static Result<Recovery> find(const std::string& run);
  const ps::JournalHead& head() const { return journal->head(); }

  std::string run;
  std::shared_ptr<ps::RunLock> lock;
  std::shared_ptr<ps::JournalFolder> journal;
};

}  // namespace troupe
