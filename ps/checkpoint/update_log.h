#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include <troupe/kernels/base/result.h>
#include <troupe/ps/checkpoint/file_ops.h>
#include <troupe/ps/ids.h>

namespace troupe::ps {

struct UpdateLogOptions {
  std::string folder;  ///< of this log alone, on a local file system; made where it is not there
  /// When is what was committed written through to the disk? Only a power cut (or a kernel that dies) sees the
  /// difference: what a process has written survives its death, by kill -9 too, in every case.
  enum class Sync : uint8_t {
    each,      ///< at every commit: nothing committed is lost. A commit takes as long as the disk's flush (0.1-10 ms);
               ///< whatever comes meanwhile shares the next one
    interval,  ///< once in `sync_interval`: a power cut loses at most the commits of that time
    never,     ///< when the kernel likes (seconds)
  };
  Sync sync = Sync::each;
  std::chrono::milliseconds sync_interval{100};
  /// An image is wanted when the records since the last one are this long: what has to be replayed at a start.
  uint64_t image_after_bytes = uint64_t{256} << 20;
  /// For Sync::interval.
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
  /// Hears what is not as it should be but stops nothing: an image that found no room on the disk, a torn end.
  std::function<void(const std::string&)> warn;
};

/// A log of records (bytes, whatever they mean) with one owner at a time, told by generation. Its folder:
///
///   claim-00000000000000000007                 empty: generation 7 owns the log, unless there is a higher one
///   00000000000000000005-000001.log            a segment (log_segment.h), the first that generation 5 wrote
///   00000000000000000005-000001.image          one record that stands for everything before that segment
///
/// The first record of a segment lists the segments that it goes on from, with their lengths. The log is the
/// newest segment, with those it lists, from the newest image on. A segment and an image get their names when they are
/// written through, so that a crash leaves the old log or the new one.
///
/// Fencing: an owner claims, then reads; the one before it writes, then looks for claims, and only then counts
/// what it wrote as safe. So what an old owner ever counts was written before the claim and is read by
/// the new one; a process that was stopped for an hour and goes on finds the claim. No lock is held that a stopped
/// process could keep. An owner that goes on under a newer generation begins a segment of that name, after it has
/// looked for a claim in between: the newest segment is always the newest owner's. Files are removed only by who
/// still owns the log after its own are published: nobody needs those any more. (Two openings never have the same
/// generation: the coordinator counts.)
///
/// Torn ends are cut, and said; damage before them is ErrorKind::corrupt. After a failed write or sync nothing is
/// taken any more (the kernel may have dropped what it could not write): open the log again.
///
/// `append`, `begin_image` and `claim` on one thread; `commit` on one thread, which may be another.
class UpdateLog {
 public:
  using Take = std::function<Status(std::span<const std::byte>)>;

  /// Claims the log and replays it. ErrorKind::cancelled: `generation` is not newer than the owner's.
  static Result<std::unique_ptr<UpdateLog>> open(std::shared_ptr<FileOps> files, UpdateLogOptions options,
                                                 Generation generation, const Take& replay);
  ~UpdateLog();

  /// Written, not yet safe.
  Status append(std::span<const std::byte> record);
  /// Later appends are of this generation: an owner lives through several.
  Status claim(Generation generation);

  /// All that was appended before the call is safe now. ErrorKind::cancelled: another owner has claimed the log, and
  /// what was appended since the last commit may or may not be in it.
  Status commit();
  /// Something is not safe, or has not been written through for `sync_interval`, or an image is to be written.
  bool needs_commit() const;
  uint64_t appended() const;  ///< records
  uint64_t safe() const;

  bool wants_image() const;
  /// The image stands for everything appended so far; one at a time. Its bytes are made and written by the next
  /// `commit`, after what was appended is safe; until that is done the log is as long as it was. `needed`: the image
  /// comes from elsewhere, so that nothing is safe without it.
  Status begin_image(std::function<std::vector<std::byte>()> image, bool needed = false);

 private:
  struct Segment {
    Generation generation = 0;
    uint32_t number = 0;
    uint64_t bytes = 0;  ///< of whole records; 0: not known
    auto operator<=>(const Segment&) const = default;
  };
  struct Output {
    Segment segment;
    std::unique_ptr<OutputFile> file;
    uint64_t synced = 0;
  };

  UpdateLog(std::shared_ptr<FileOps> files, UpdateLogOptions options, Generation generation)
      : files_(std::move(files)), options_(std::move(options)), claimed_(generation) {}

  static std::string name_of(const Segment& segment, const char* ending);
  std::string path(const std::string& name) const;
  Status claim_file(Generation generation);
  Status no_claim_above(Generation generation, Generation but = 0) const;
  Status still_owner() const;
  Status find_and_replay(const Take& replay);
  Status read_bases(Segment& segment, std::vector<Segment>& bases) const;
  Status begin_segment();
  Status write_image(const std::vector<std::byte>& image, const Segment& segment);
  Status sync(const std::shared_ptr<Output>& output, uint64_t upto_bytes);
  void remove_older(const Segment& first_needed);
  Status broken(const Status& status);
  void warn(const std::string& what) const;

  const std::shared_ptr<FileOps> files_;
  const UpdateLogOptions options_;

  mutable std::mutex mutex_;  ///< of all below
  Generation claimed_;
  Generation claiming_ = 0;  ///< the claim that this owner is making
  Status health_;               ///< of the first failure
  std::vector<Segment> bases_;  ///< what the log is made of before the segment that is written
  std::shared_ptr<Output> output_;
  uint32_t next_number_ = 1;
  uint64_t appended_ = 0, safe_ = 0, since_image_ = 0;
  bool imaging_ = false;  ///< an image is begun and not yet written
  bool image_needed_ = false;
  std::chrono::steady_clock::time_point last_sync_{};
  std::function<std::vector<std::byte>()> image_;  ///< to be written
  Segment image_segment_;                          ///< before which it stands
};

}  // namespace troupe::ps
