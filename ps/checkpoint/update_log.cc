#include <troupe/ps/checkpoint/update_log.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <optional>
#include <utility>

#include <troupe/kernels/base/check.h>
#include <troupe/kernels/base/text.h>
#include <troupe/ps/checkpoint/log_segment.h>

namespace troupe::ps {
namespace {

constexpr const char* kSegmentEnding = ".log";
constexpr const char* kImageEnding = ".image";
constexpr const char* kUnfinished = ".tmp";

struct Name {
  enum class Kind : uint8_t { claim, segment, image, unfinished };
  Kind kind = Kind::claim;
  Generation generation = 0;
  uint32_t number = 0;
};

std::optional<Name> parse(const std::string& name) {
  unsigned long long generation = 0;
  unsigned number = 0;
  int end = -1;
  if (std::sscanf(name.c_str(), "claim-%20llu%n", &generation, &end) == 1 && end == static_cast<int>(name.size()))
    return Name{Name::Kind::claim, generation, 0};
  if (std::sscanf(name.c_str(), "%20llu-%6u%n", &generation, &number, &end) != 2 || end < 0) return std::nullopt;
  const std::string ending = name.substr(static_cast<size_t>(end));
  if (ending == kSegmentEnding) return Name{Name::Kind::segment, generation, number};
  if (ending == kImageEnding) return Name{Name::Kind::image, generation, number};
  if (ending.ends_with(kUnfinished)) return Name{Name::Kind::unfinished, generation, number};
  return std::nullopt;
}

std::string claim_name(Generation generation) {
  char text[32];
  std::snprintf(text, sizeof text, "claim-%020llu", static_cast<unsigned long long>(generation));
  return text;
}

// The first record of a segment: three numbers a segment that it goes on from.
std::vector<uint64_t> numbers_of(std::span<const std::byte> record) {
  std::vector<uint64_t> numbers(record.size() / sizeof(uint64_t));
  std::memcpy(numbers.data(), record.data(), numbers.size() * sizeof(uint64_t));
  return numbers;
}

Status write_record(OutputFile& file, std::span<const std::byte> record, uint64_t synced) {
  TROUPE_TRY(file.write(record_head(record, synced)));
  return file.write(record);
}

constexpr uint64_t kHeadBytes = 32;

}  // namespace

std::string UpdateLog::name_of(const Segment& segment, const char* ending) {
  char text[64];
  std::snprintf(text, sizeof text, "%020llu-%06u%s", static_cast<unsigned long long>(segment.generation),
                segment.number, ending);
  return text;
}

std::string UpdateLog::path(const std::string& name) const { return join_path(options_.folder, name); }

void UpdateLog::warn(const std::string& what) const {
  if (options_.warn) options_.warn(what);
}

UpdateLog::~UpdateLog() = default;

// ---- the owner ----------------------------------------------------------------------------------------------------

Status UpdateLog::no_claim_above(Generation generation, Generation but) const {
  const auto names = files_->list(options_.folder);
  if (!names) return tl::unexpected(names.error());
  for (const std::string& name : *names) {
    const auto claim = parse(name);
    if (claim && claim->kind == Name::Kind::claim && claim->generation > generation && claim->generation != but)
      return fail(ErrorKind::cancelled,
                  cat("the log in ", options_.folder, " belongs to generation ", claim->generation));
  }
  return {};
}

// A claim of our own that is being made while a commit looks is nobody else's.
Status UpdateLog::still_owner() const {
  Generation mine = 0, coming = 0;
  {
    std::lock_guard lock(mutex_);
    mine = claimed_;
    coming = claiming_;
  }
  return no_claim_above(mine, coming);
}

Status UpdateLog::claim_file(Generation generation) {
  const auto file = files_->create(path(claim_name(generation)));
  if (!file) return tl::unexpected(file.error());
  TROUPE_TRY((*file)->close());
  return files_->sync_folder(options_.folder);
}

Status UpdateLog::claim(Generation generation) {
  Generation before = 0;
  {
    std::lock_guard lock(mutex_);
    if (!health_ || generation <= claimed_) return health_;
    before = claimed_;
    claiming_ = generation;
  }
  TROUPE_TRY(broken(claim_file(generation)));
  TROUPE_TRY(broken(no_claim_above(before, generation)));
  {
    std::lock_guard lock(mutex_);
    claimed_ = generation;
  }
  return broken(begin_segment());
}

// ---- opening ------------------------------------------------------------------------------------------------------

Result<std::unique_ptr<UpdateLog>> UpdateLog::open(std::shared_ptr<FileOps> files, UpdateLogOptions options,
                                                   Generation generation, const Take& replay) {
  std::unique_ptr<UpdateLog> log(new UpdateLog(std::move(files), std::move(options), generation));
  TROUPE_TRY(log->files_->make_folder(log->options_.folder));
  TROUPE_CHECK(generation > 0, "generations count from 1");
  TROUPE_TRY(log->no_claim_above(generation - 1));
  TROUPE_TRY(log->claim_file(generation));
  TROUPE_TRY(log->still_owner());
  TROUPE_TRY(log->find_and_replay(replay));
  TROUPE_TRY(log->begin_segment());
  TROUPE_TRY(log->still_owner());
  log->remove_older(log->bases_.empty() ? log->output_->segment : log->bases_.front());
  return log;
}

Status UpdateLog::read_bases(Segment& segment, std::vector<Segment>& bases) const {
  bool first = true;
  const auto read = read_segment(*files_, path(name_of(segment, kSegmentEnding)), segment.bytes, [&](auto record) {
    if (!std::exchange(first, false)) return Status();
    const std::vector<uint64_t> numbers = numbers_of(record);
    for (size_t i = 0; i + 2 < numbers.size(); i += 3)
      bases.push_back({numbers[i], static_cast<uint32_t>(numbers[i + 1]), numbers[i + 2]});
    return Status();
  });
  if (!read) return tl::unexpected(read.error());
  if (first)
    return fail(ErrorKind::corrupt, cat(path(name_of(segment, kSegmentEnding)), " does not begin with a whole record"));
  segment.bytes = read->bytes;
  if (read->cut > 0)
    warn(cat(path(name_of(segment, kSegmentEnding)), " ends with ", read->cut,
             " bytes that are no record: writing was interrupted there; they are left out"));
  return {};
}

Status UpdateLog::find_and_replay(const Take& replay) {
  const auto names = files_->list(options_.folder);
  if (!names) return tl::unexpected(names.error());
  std::optional<Segment> newest;
  std::vector<Segment> images;
  for (const std::string& name : *names) {
    const auto parsed = parse(name);
    if (!parsed) continue;
    const Segment segment{parsed->generation, parsed->number, 0};
    if (parsed->kind == Name::Kind::image) images.push_back(segment);
    if (parsed->kind == Name::Kind::segment && (!newest || *newest < segment)) newest = segment;
  }
  if (!newest) return {};
  TROUPE_TRY(read_bases(*newest, bases_));
  bases_.push_back(*newest);

  const auto has_image = [&](const Segment& s) {
    return std::ranges::any_of(images,
                               [&](const Segment& i) { return i.generation == s.generation && i.number == s.number; });
  };
  const auto last = std::find_if(bases_.rbegin(), bases_.rend(), has_image);
  if (last != bases_.rend()) {
    bases_.erase(bases_.begin(), last.base() - 1);
    const std::string image = path(name_of(bases_.front(), kImageEnding));
    int records = 0;
    const auto read = read_segment(*files_, image, 0, [&](auto record) { return ++records, replay(record); });
    if (!read) return tl::unexpected(read.error());
    if (records != 1 || read->cut > 0)
      return fail(ErrorKind::corrupt, cat(image, " is damaged: it is not one whole record"));
  }
  for (const Segment& segment : bases_) {
    bool first = true;
    const auto read = read_segment(*files_, path(name_of(segment, kSegmentEnding)), segment.bytes, [&](auto record) {
      return std::exchange(first, false) ? Status() : replay(record);
    });
    if (!read) return tl::unexpected(read.error());
    since_image_ += segment.bytes;
  }
  return {};
}

// Published when it is written through. What is written now becomes a base.
Status UpdateLog::begin_segment() {
  if (output_ && options_.sync != UpdateLogOptions::Sync::never) TROUPE_TRY(sync(output_, output_->segment.bytes));
  auto next = std::make_shared<Output>();
  next->segment = {claimed_, next_number_++, 0};
  std::vector<uint64_t> numbers;
  std::vector<Segment> bases;
  {
    std::lock_guard lock(mutex_);  // a commit that has written an image takes some away
    bases = bases_;
    if (output_) bases.push_back(output_->segment);
  }
  for (const Segment& base : bases) numbers.insert(numbers.end(), {base.generation, base.number, base.bytes});
  const auto record = std::as_bytes(std::span(numbers));
  const std::string name = path(name_of(next->segment, kSegmentEnding));

  auto file = files_->create(name + kUnfinished);
  if (!file) return tl::unexpected(file.error());
  next->file = std::move(*file);
  TROUPE_TRY(write_record(*next->file, record, 0));
  TROUPE_TRY(next->file->sync());
  TROUPE_TRY(files_->rename(name + kUnfinished, name));
  TROUPE_TRY(files_->sync_folder(options_.folder));
  next->segment.bytes = next->synced = kHeadBytes + record.size();
  std::lock_guard lock(mutex_);
  if (output_) bases_.push_back(output_->segment);
  output_ = std::move(next);
  return {};
}

// ---- writing ------------------------------------------------------------------------------------------------------

Status UpdateLog::broken(const Status& status) {
  std::lock_guard lock(mutex_);
  if (!status && health_) health_ = status;
  return health_;
}

Status UpdateLog::append(std::span<const std::byte> record) {
  std::unique_lock lock(mutex_);
  if (!health_) return health_;
  if (Status written = write_record(*output_->file, record, output_->synced); !written) {
    health_ = fail(cat("the log in ", options_.folder, " is not written any further"), written.error());
    return health_;
  }
  output_->segment.bytes += kHeadBytes + record.size();
  since_image_ += kHeadBytes + record.size();
  ++appended_;
  return {};
}

bool UpdateLog::needs_commit() const {
  std::lock_guard lock(mutex_);
  if (!health_) return false;
  const bool late = options_.sync == UpdateLogOptions::Sync::interval && output_->synced < output_->segment.bytes &&
                    options_.now() - last_sync_ >= options_.sync_interval;
  return appended_ > safe_ || image_ || late;
}

uint64_t UpdateLog::appended() const {
  std::lock_guard lock(mutex_);
  return appended_;
}
uint64_t UpdateLog::safe() const {
  std::lock_guard lock(mutex_);
  return safe_;
}

Status UpdateLog::sync(const std::shared_ptr<Output>& output, uint64_t upto_bytes) {
  TROUPE_TRY(broken(output->file->sync()));
  std::lock_guard lock(mutex_);
  output->synced = std::max(output->synced, upto_bytes);
  return {};
}

Status UpdateLog::commit() {
  std::shared_ptr<Output> output;
  std::function<std::vector<std::byte>()> image;
  Segment image_segment;
  uint64_t target = 0, bytes = 0;
  bool unsynced = false, due = false, needed = false;
  const auto now = options_.now();
  {
    std::lock_guard lock(mutex_);
    if (!health_) return health_;
    output = output_;
    target = appended_;
    bytes = output->segment.bytes;
    unsynced = output->synced < bytes;
    due = options_.sync == UpdateLogOptions::Sync::each ||
          (options_.sync == UpdateLogOptions::Sync::interval && now - last_sync_ >= options_.sync_interval);
    image = std::exchange(image_, {});
    image_segment = image_segment_;
    needed = image && image_needed_;
  }
  if (needed) TROUPE_TRY(broken(write_image(std::exchange(image, {})(), image_segment)));
  if (due && unsynced) {
    TROUPE_TRY(sync(output, bytes));
    std::lock_guard lock(mutex_);
    last_sync_ = now;
  }
  TROUPE_TRY(broken(still_owner()));
  {
    std::lock_guard lock(mutex_);
    safe_ = std::max(safe_, target);
    if (needed) imaging_ = false;
  }
  if (!image) return {};
  const Status written = write_image(image(), image_segment);
  {
    std::lock_guard lock(mutex_);
    imaging_ = false;
  }
  if (written) return {};
  if (written.error().kind == ErrorKind::cancelled) return broken(written);
  warn(cat("the log in ", options_.folder, " was not shortened and grows on: ", written.error().message));
  return {};
}

// ---- images -------------------------------------------------------------------------------------------------------

bool UpdateLog::wants_image() const {
  std::lock_guard lock(mutex_);
  return health_ && !imaging_ && since_image_ >= options_.image_after_bytes;
}

Status UpdateLog::begin_image(std::function<std::vector<std::byte>()> image, bool needed) {
  {
    std::lock_guard lock(mutex_);
    if (!health_) return health_;
    TROUPE_CHECK(!imaging_, "the image begun before in ", options_.folder, " is not written yet");
  }
  TROUPE_TRY(broken(begin_segment()));
  std::lock_guard lock(mutex_);
  imaging_ = true;
  image_needed_ = needed;
  image_ = std::move(image);
  image_segment_ = output_->segment;
  since_image_ = 0;
  return {};
}

Status UpdateLog::write_image(const std::vector<std::byte>& image, const Segment& segment) {
  const std::string name = path(name_of(segment, kImageEnding));
  const auto write = [&]() -> Status {
    const auto file = files_->create(name + kUnfinished);
    if (!file) return tl::unexpected(file.error());
    TROUPE_TRY(write_record(**file, image, 0));
    TROUPE_TRY((*file)->sync());
    TROUPE_TRY((*file)->close());
    TROUPE_TRY(files_->rename(name + kUnfinished, name));
    return files_->sync_folder(options_.folder);
  };
  if (const Status written = write(); !written) {
    (void)files_->remove_file(name + kUnfinished);  // the next owner removes what is left
    return written;
  }
  TROUPE_TRY(still_owner());
  {
    std::lock_guard lock(mutex_);
    std::erase_if(bases_, [&](const Segment& base) { return base < segment; });
  }
  remove_older(segment);
  return {};
}

// What fails to go costs room only; the next owner tries again. A segment behind the one that is written is being begun
// by the thread that appends.
void UpdateLog::remove_older(const Segment& first_needed) {
  const auto names = files_->list(options_.folder);
  if (!names) return;
  std::vector<Segment> needed;
  Generation mine = 0;
  {
    std::lock_guard lock(mutex_);
    needed = bases_;
    needed.push_back(output_->segment);
    mine = claimed_;
  }
  for (const std::string& name : *names) {
    const auto parsed = parse(name);
    if (!parsed || parsed->generation > mine) continue;
    const bool kept = std::ranges::any_of(
        needed, [&](const Segment& s) { return s.generation == parsed->generation && s.number == parsed->number; });
    const bool begun = needed.back() < Segment{parsed->generation, parsed->number, 0};
    const bool image_of_first = parsed->generation == first_needed.generation && parsed->number == first_needed.number;
    bool goes = false;
    switch (parsed->kind) {
      case Name::Kind::claim: goes = parsed->generation < mine; break;
      case Name::Kind::segment: goes = !kept && !begun; break;
      case Name::Kind::image: goes = !image_of_first; break;
      case Name::Kind::unfinished: goes = parsed->generation < needed.back().generation; break;
    }
    if (goes) (void)files_->remove_file(path(name));
  }
}

}  // namespace troupe::ps
