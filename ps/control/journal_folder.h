#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <troupe/ps/checkpoint/file_ops.h>
#include <troupe/ps/control/journal.h>

namespace troupe::ps {

/// A journal in a folder of its own: "segment-000001" and so on.
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
  /// A segment is long enough then; about half a second of replaying.
  static constexpr uint64_t kSegmentBytes = uint64_t{64} << 20;
  void set_segment_bytes(uint64_t bytes) { segment_bytes_ = bytes; }

  const JournalHead& head() const { return head_; }
  /// The core of a run with these options as all that was kept left it; begins a segment behind that.
  /// ErrorKind::corrupt: damage.
  Result<std::unique_ptr<CoordinatorCore>> replay(const CoordinatorOptions& options);
  /// The same for a caller that only looks: the image that the journal begins with, if any, and each input behind it.
  Status read(const std::function<Status(std::span<const std::byte>)>& take_image,
              const std::function<void(const CoordinatorInput&)>& take);

  Status append(const CoordinatorInput& input) override;
  bool long_enough() const override { return written_ >= segment_bytes_; }
  Status begin_anew(const CoordinatorCore& core) override;
  /// Removes it, and its folder where nothing else is in it: the lock of a run that goes on without a journal stays.
  Status discard() override;

 private:
  JournalFolder(std::shared_ptr<FileOps> files, std::string folder)
      : files_(std::move(files)), folder_(std::move(folder)) {}
  Status begin_segment();
  size_t first_needed(const std::vector<std::string>& names) const;
  Status check_owner() const;
  Status write(std::span<const std::byte> record);
  Result<std::vector<std::byte>> bytes_of(const std::string& name) const;
  Result<std::vector<std::string>> segments() const;

  std::shared_ptr<FileOps> files_;
  std::string folder_;
  JournalHead head_;
  std::unique_ptr<OutputFile> file_;
  uint64_t segment_bytes_ = kSegmentBytes;
  uint64_t number_ = 0, written_ = 0;  ///< of the last segment: its number and the bytes of its whole records
};

}  // namespace troupe::ps
