#include <troupe/ps/control/journal_folder.h>

#include <algorithm>

#include <troupe/kernels/base/check.h>
#include <troupe/kernels/base/text.h>

namespace troupe::ps {
namespace {

constexpr const char* kPrefix = "segment-";

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
  TROUPE_TRY(journal->begin_segment(1, 0));
  return journal;
}

Result<std::shared_ptr<JournalFolder>> JournalFolder::open(std::shared_ptr<FileOps> files, const std::string& folder) {
  std::shared_ptr<JournalFolder> journal(new JournalFolder(std::move(files), folder));
  const auto names = journal->segments();
  if (!names) return tl::unexpected<Error>(names.error());
  if (names->empty()) return fail(ErrorKind::missing, cat(folder, " holds no journal"));
  const auto bytes = journal->read(names->front());
  if (!bytes) return tl::unexpected<Error>(bytes.error());
  auto begin = JournalReader(*bytes).begin();
  if (!begin) return fail(join_path(folder, names->front()), begin.error());
  journal->head_ = std::move(begin->head);
  return journal;
}

Status JournalFolder::replay(const std::function<void(const CoordinatorInput&)>& take) {
  TROUPE_CHECK(!file_, "the journal in ", folder_, " is being written");
  const auto names = segments();
  if (!names) return tl::unexpected<Error>(names.error());
  uint64_t number = 0, consumed = 0;
  for (const std::string& name : *names) {
    const std::string path = join_path(folder_, name);
    const auto bytes = read(name);
    if (!bytes) return tl::unexpected<Error>(bytes.error());
    JournalReader reader(*bytes);
    const auto begin = reader.begin();
    if (!begin && begin.error().kind == ErrorKind::missing && number > 0) break;  // it was never more than begun
    if (!begin) return fail(path, begin.error());
    if (begin->segment != number + 1 || begin->bytes_before != consumed || begin->head != head_)
      return fail(ErrorKind::corrupt, cat(path, " is segment ", begin->segment, " behind ", begin->bytes_before,
                                          " bytes, not ", number + 1, " behind ", consumed));
    for (;;) {
      const auto input = reader.next();
      if (!input) return fail(path, input.error());
      if (!*input) break;
      take(**input);
    }
    number = begin->segment;
    consumed = reader.consumed();
  }
  return begin_segment(number + 1, consumed);
}

Status JournalFolder::append(const CoordinatorInput& input) { return file_->write(journal_record(input)); }

Status JournalFolder::discard() {
  file_.reset();
  return remove_with_files(*files_, folder_);
}

Status JournalFolder::begin_segment(uint64_t number, uint64_t bytes_before) {
  auto file = files_->create(join_path(folder_, segment_name(number)));
  if (!file) return tl::unexpected<Error>(file.error());
  file_ = std::move(*file);
  return file_->write(journal_record(head_, number, bytes_before));
}

Result<std::vector<std::byte>> JournalFolder::read(const std::string& name) const {
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
