#include <troupe/ps/control/journal_folder.h>

#include <algorithm>
#include <utility>

#include <troupe/kernels/base/check.h>
#include <troupe/kernels/base/text.h>

namespace troupe::ps {
namespace {

constexpr const char* kPrefix = "segment-";
constexpr const char* kPart = "part";  // a segment that is not whole yet

std::string segment_name(uint64_t number) {
  const std::string digits = cat(number);
  return kPrefix + std::string(6 - std::min<size_t>(6, digits.size()), '0') + digits;
}

}  // namespace

Result<std::shared_ptr<JournalFolder>> JournalFolder::create(std::shared_ptr<FileOps> files, const std::string& folder,
                                                             const JournalHead& head) {
  std::shared_ptr<JournalFolder> journal(new JournalFolder(std::move(files), folder));
  TROUPE_TRY(journal->files_->make_folder(folder));
  const auto old = journal->segments();
  if (!old) return tl::unexpected<Error>(old.error());
  // The first one first: what is left of them is refused, should this process end on the way.
  for (const std::string& name : *old) TROUPE_TRY(journal->files_->remove_file(join_path(folder, name)));
  journal->head_ = head;
  TROUPE_TRY(journal->begin_segment());
  return journal;
}

Result<std::shared_ptr<JournalFolder>> JournalFolder::open(std::shared_ptr<FileOps> files, const std::string& folder) {
  std::shared_ptr<JournalFolder> journal(new JournalFolder(std::move(files), folder));
  const auto names = journal->segments();
  if (!names) return tl::unexpected<Error>(names.error());
  if (names->empty()) return fail(ErrorKind::missing, cat(folder, " holds no journal"));
  const std::string& first = (*names)[journal->first_needed(*names)];
  const auto bytes = journal->bytes_of(first);
  if (!bytes) return tl::unexpected<Error>(bytes.error());
  auto begin = JournalReader(*bytes).begin();
  if (!begin) return fail(join_path(folder, first), begin.error());
  journal->head_ = std::move(begin->head);
  return journal;
}

Result<std::unique_ptr<CoordinatorCore>> JournalFolder::replay(const CoordinatorOptions& options) {
  auto core = CoordinatorCore::make(options);
  if (!core) return core;
  const auto restore = [&](std::span<const std::byte> image) -> Status {
    core = CoordinatorCore::restore(options, image);
    return core ? Status{} : tl::unexpected<Error>(core.error());
  };
  // Its effects are out in the world already.
  TROUPE_TRY(read(restore, [&](const CoordinatorInput& input) { (void)tell(**core, input); }));
  TROUPE_TRY(begin_segment());
  return core;
}

Status JournalFolder::read(const std::function<Status(std::span<const std::byte>)>& take_image,
                           const std::function<void(const CoordinatorInput&)>& take) {
  TROUPE_CHECK(!file_, "the journal in ", folder_, " is being written");
  const auto names = segments();
  if (!names) return tl::unexpected<Error>(names.error());
  number_ = written_ = 0;
  for (const std::string& name : std::span(*names).subspan(first_needed(*names))) {
    const std::string path = join_path(folder_, name);
    const auto bytes = bytes_of(name);
    if (!bytes) return tl::unexpected<Error>(bytes.error());
    JournalReader reader(*bytes);
    const auto begin = reader.begin();
    if (!begin && begin.error().kind == ErrorKind::missing && number_ > 0) break;  // it was never more than begun
    if (!begin) return fail(path, begin.error());
    const bool follows = begin->image ? begin->segment > number_ : begin->segment == number_ + 1;
    if (!follows || begin->bytes_before != (begin->image ? 0 : written_) || begin->head != head_)
      return fail(ErrorKind::corrupt, cat(path, " is segment ", begin->segment, " behind ", begin->bytes_before,
                                          " bytes, not ", number_ + 1, " behind ", written_));
    if (begin->image)
      if (auto taken = take_image(*begin->image); !taken) return fail(path, taken.error());
    for (;;) {
      const auto input = reader.next();
      if (!input) return fail(path, input.error());
      if (!*input) break;
      take(**input);
    }
    number_ = begin->segment;
    written_ = reader.consumed();
  }
  return {};
}

/// Those before the last image are left over.
size_t JournalFolder::first_needed(const std::vector<std::string>& names) const {
  for (size_t i = names.size(); i-- > 0;) {
    const auto bytes = bytes_of(names[i]);
    if (!bytes) continue;
    if (const auto begin = JournalReader(*bytes).begin(); begin && begin->image) return i;
  }
  return 0;
}

Status JournalFolder::append(const CoordinatorInput& input) {
  if (std::holds_alternative<CoordinatorInput::Tick>(input.what)) TROUPE_TRY(check_owner());
  return write(journal_record(input));
}

// Whoever goes on from here begins a segment of its own first, and removes the folder in the end.
Status JournalFolder::check_owner() const {
  const auto names = segments();
  if (!names && names.error().kind != ErrorKind::missing) return tl::unexpected<Error>(names.error());
  const std::string newest = names && !names->empty() ? names->back() : "nothing";
  if (newest == segment_name(number_)) return {};
  return fail(ErrorKind::cancelled, cat("another process has gone on as the coordinator of this run (", folder_,
                                        " holds ", newest, "): this one had been stopped, and ends"));
}

// Under its own name only when it is whole and on the disk; then those before it go. What stays of them is passed over.
Status JournalFolder::begin_anew(const CoordinatorCore& core) {
  TROUPE_TRY(check_owner());
  const auto old = segments();
  if (!old) return tl::unexpected<Error>(old.error());
  const std::string path = join_path(folder_, segment_name(number_ + 1)), part = join_path(folder_, kPart);
  auto file = files_->create(part);
  if (!file) return tl::unexpected<Error>(file.error());
  const auto head = journal_record(head_, number_ + 1, 0, true), image = image_record(core);
  TROUPE_TRY((*file)->write(head));
  TROUPE_TRY((*file)->write(image));
  TROUPE_TRY((*file)->sync());
  TROUPE_TRY(files_->rename(part, path));
  TROUPE_TRY(files_->sync_folder(folder_));
  file_ = std::move(*file);
  ++number_;
  written_ = head.size() + image.size();
  for (const std::string& name : *old) (void)files_->remove_file(join_path(folder_, name));
  return {};
}

Status JournalFolder::discard() {
  file_.reset();
  const auto names = files_->list(folder_);
  if (!names) return tl::unexpected<Error>(names.error());
  size_t others = 0;
  for (const std::string& name : *names)
    if (name.starts_with(kPrefix) || name == kPart) TROUPE_TRY(files_->remove_file(join_path(folder_, name)));
    else ++others;
  return others == 0 ? files_->remove_folder(folder_) : Status{};
}

Status JournalFolder::begin_segment() {
  auto file = files_->create(join_path(folder_, segment_name(number_ + 1)));
  if (!file) return tl::unexpected<Error>(file.error());
  file_ = std::move(*file);
  const auto head = journal_record(head_, ++number_, std::exchange(written_, 0));
  return write(head);
}

Status JournalFolder::write(std::span<const std::byte> record) {
  written_ += record.size();
  return file_->write(record);
}

Result<std::vector<std::byte>> JournalFolder::bytes_of(const std::string& name) const {
  const auto file = files_->open(join_path(folder_, name));
  if (!file) return tl::unexpected<Error>(file.error());
  std::vector<std::byte> bytes((*file)->size());
  TROUPE_TRY((*file)->read(0, bytes));
  return bytes;
}

Result<std::vector<std::string>> JournalFolder::segments() const {
  auto names = files_->list(folder_);
  if (!names) return names;
  std::erase_if(*names, [](const std::string& name) { return !name.starts_with(kPrefix); });
  return names;
}

}  // namespace troupe::ps
