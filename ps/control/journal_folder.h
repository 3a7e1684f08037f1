#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <troupe/ps/checkpoint/file_ops.h>
#include <troupe/ps/control/journal.h>

namespace troupe::ps {

/// A journal in a folder of its own: "segment-000001" and so on, one a process that was the run's coordinator.
///
/// An input is one write. The system keeps it when the process ends however it ends; a power cut may take the last
/// seconds, and with them the run's nodes on that machine: then it goes on from a checkpoint.
class JournalFolder final : public Journal {
 public:
  /// Begins one; what an earlier run left there goes.
  static Result<std::shared_ptr<JournalFolder>> create(std::shared_ptr<FileOps> files, const std::string& folder,
                                                       const JournalHead& head);
  /// Finds one, to go on with: `replay` comes next, then `append`. ErrorKind::missing: there is none.
  static Result<std::shared_ptr<JournalFolder>> open(std::shared_ptr<FileOps> files, const std::string& folder);

  const JournalHead& head() const { return head_; }
  /// Gives everything that was kept, in order, and begins a segment behind it. ErrorKind::corrupt: damage; part of it may have been given.
  Status replay(const std::function<void(const CoordinatorInput&)>& take);

  Status append(const CoordinatorInput& input) override;
  /// Removes the folder.
  Status discard() override;

 private:
  JournalFolder(std::shared_ptr<FileOps> files, std::string folder) : files_(std::move(files)), folder_(std::move(folder)) {}
  Status begin_segment(uint64_t number, uint64_t bytes_before);
  Result<std::vector<std::byte>> read(const std::string& name) const;
  Result<std::vector<std::string>> segments() const;

  std::shared_ptr<FileOps> files_;
  std::string folder_;
  JournalHead head_;
  std::unique_ptr<OutputFile> file_;
};

}  // namespace troupe::ps
