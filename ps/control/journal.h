#pragma once
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <troupe/ps/control/coordinator_input.h>
#include <troupe/ps/wire/codec.h>

/// What a coordinator was told, kept so that another process can go on as the coordinator of the same run while its
/// nodes live: CoordinatorCore is deterministic, so that its inputs are its state.
///
/// A record, little-endian; records follow each other:
///
///   u32  bytes of the body
///   u32  low half of the XXH3-64 of the two numbers around it, as u64 each
///   u64  XXH3-64 of the body
///   ...  the body
///
/// A journal is one or more segments, each a file by one process. A process begins one; and another when that has
/// become long, with an image of the core, so that all before it can go. A segment's first record is its head, with an
/// image the second is that, the others are an input each:
///
///   head    "troupe journal 3", segment (u64, from 1), bytes of the segment before that count (u64), whether there is
///           an image (u8), and JournalHead
///   image   CoordinatorCore::image
///   input   kind (u8, its place in CoordinatorInput::What), i64 now_ms, and what the kind has
///
/// Where a file ends inside a record, the process ended while it wrote: nothing was done about that input, and it is
/// passed over. A whole record with a wrong checksum is damage, and the journal is refused.
namespace troupe::ps {

/// What a process needs, besides the inputs, to be this run's coordinator.
struct JournalHead {
  struct Network {
    std::string listen, advertise;    ///< where nodes look for it
    std::string keys;                 ///< folder; empty: none
    bool insecure = false;            ///< other than loopback without keys
    bool operator==(const Network&) const = default;
  };
  wire::RunId run = 0;
  Network network;
  int64_t nodes = 0;                  ///< that the run began with
  std::string config;                 ///< its resolved TOML
  std::string resume_from;            ///< checkpoint that it began from; empty: none
  std::optional<DealerState> resume;  ///< what that said
  std::optional<LossScale> loss_scale;  ///< likewise
  double seconds = 0;                 ///< that it had been trained before that
  bool operator==(const JournalHead&) const = default;
};

/// Takes inputs as they come. For one thread.
class Journal {
 public:
  virtual ~Journal() = default;
  /// The input is kept, whatever happens to the process, once this has returned. ErrorKind::cancelled, here and of
  /// `begin_anew`: another process goes on from this journal, and the run is not this one's any more; noticed at the
  /// next Tick at the latest.
  virtual Status append(const CoordinatorInput& input) = 0;
  /// So much was appended that it is time for `begin_anew`.
  virtual bool long_enough() const = 0;
  /// What was appended may be forgotten: the core is what it made of that.
  virtual Status begin_anew(const CoordinatorCore& core) = 0;
  /// Nobody can go on from here any more: the run is over, or an input could not be kept.
  virtual Status discard() = 0;
};

std::vector<std::byte> journal_record(const CoordinatorInput& input);
std::vector<std::byte> journal_record(const JournalHead& head, uint64_t segment, uint64_t bytes_before,
                                      bool with_image = false);
std::vector<std::byte> image_record(const CoordinatorCore& core);

/// Reads one segment.
class JournalReader {
 public:
  explicit JournalReader(std::span<const std::byte> segment) : rest_(segment), bytes_(segment.size()) {}

  struct Begin {
    JournalHead head;
    uint64_t segment = 0, bytes_before = 0;
    std::optional<std::span<const std::byte>> image;  ///< inside the segment
  };
  /// The first record or two. ErrorKind::missing: they were not written whole.
  Result<Begin> begin();
  /// The next input, after `begin`; none at the end, which may be inside a record. ErrorKind::corrupt: damage.
  Result<std::optional<CoordinatorInput>> next();
  /// Bytes of whole records so far.
  uint64_t consumed() const { return bytes_ - rest_.size(); }

 private:
  Result<std::optional<std::span<const std::byte>>> body();
  std::span<const std::byte> rest_;
  uint64_t bytes_;
};

}  // namespace troupe::ps
