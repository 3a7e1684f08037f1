#pragma once
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <troupe/kernels/base/check.h>
#include <troupe/kernels/base/random.h>
#include <troupe/kernels/base/text.h>
#include <troupe/ps/checkpoint/file_ops.h>

namespace troupe::test {

/// A disk in memory that fails on request. It knows what has been synced: after a crash only that is sure to
/// be there.
class MemoryDisk : public ps::FileOps {
 public:
  enum class Fault {
    none,
    full,          ///< ErrorKind::exhausted, once
    cut_short,     ///< a write writes a part (half) and then finds the disk full; other calls: as full
    input_output,  ///< ErrorKind::failed, once
    crash,         ///< a write writes a part (half); this call and every later one fails
  };
  /// What a crash leaves of what was not synced.
  enum class Kept {
    all,    ///< the process was killed, the machine lives
    none,   ///< the power failed
    some,   ///< the power failed; each folder and each file had got to the disk, wholly or in part, or not
    zeros,  ///< as some, and a file's part that had not got there is zeros of its length
  };

  /// The `call`-th changing call from now (1 is the next) meets the fault.
  void fail_at(int64_t call, Fault fault) { calls_ = 0, fault_at_ = fault_until_ = call, fault_ = fault; }
  /// And so does every one after it: a disk that stays full, or is broken.
  void fail_from(int64_t call, Fault fault) { fail_at(call, fault), fault_until_ = INT64_MAX; }
  /// A faulty write gets so much of its bytes to the disk: 0 none, 1 all of them before it fails.
  void cut_writes_to(double share) { written_share_ = share; }
  int64_t calls() const { return calls_; }
  /// Bytes of files that it has room for.
  void set_capacity(uint64_t bytes) { capacity_ = bytes; }

  void restart(Kept kept, Random& random) {
    settle(root_, kept, random);
    dead_ = false;
    fault_ = Fault::none;
  }

  /// The bytes of a file, to look at or to damage.
  std::string& bytes(const std::string& path) {
    const Entry* entry = find(path);
    TROUPE_CHECK(entry && entry->file, path);
    return entry->file->now;
  }
  bool exists(const std::string& path) const { return find(path) != nullptr; }

  Result<std::unique_ptr<ps::OutputFile>> create(const std::string& path) override {
    TROUPE_TRY(step("create", path));
    const auto folder = folder_of(path);
    if (!folder) return missing(path);
    Entry& entry = folder->now[base(path)];
    entry = Entry{std::make_shared<File>(), nullptr};
    return std::make_unique<Output>(*this, path, entry.file);
  }
  Result<std::unique_ptr<ps::InputFile>> open(const std::string& path) override {
    if (dead_) return dead();
    const Entry* entry = find(path);
    if (!entry || !entry->file) return missing(path);
    return std::make_unique<Input>(path, entry->file);
  }
  Status make_folder(const std::string& path) override {
    TROUPE_TRY(step("make", path));
    Folder* at = &root_;
    for (const std::string& part : parts(path)) {
      Entry& entry = at->now[part];
      if (!entry.folder) {
        entry.folder = std::make_shared<Folder>();
        at->durable[part] = entry;
      }
      at = entry.folder.get();
    }
    return {};
  }
  Status rename(const std::string& from, const std::string& to) override {
    TROUPE_TRY(step("rename", from));
    const auto source = folder_of(from), target = folder_of(to);
    if (!source || !target || !source->now.count(base(from))) return missing(from);
    const Entry moved = source->now.at(base(from));
    const auto there = target->now.find(base(to));
    if (there != target->now.end() && (there->second.folder || moved.folder))
      return fail(ErrorKind::failed, cat(to, " is in the way"));
    source->now.erase(base(from));
    target->now[base(to)] = moved;
    return {};
  }
  Status sync_folder(const std::string& path) override {
    TROUPE_TRY(step("sync", path));
    const auto folder = open_folder(path);
    if (!folder) return missing(path);
    folder->durable = folder->now;
    return {};
  }
  Status remove_file(const std::string& path) override {
    TROUPE_TRY(step("remove", path));
    const Entry* entry = find(path);
    if (!entry || !entry->file) return missing(path);
    folder_of(path)->now.erase(base(path));
    return {};
  }
  Status remove_folder(const std::string& path) override {
    TROUPE_TRY(step("remove", path));
    const Entry* entry = find(path);
    if (!entry || !entry->folder || !entry->folder->now.empty()) return missing(path);
    folder_of(path)->now.erase(base(path));
    return {};
  }
  Result<std::vector<std::string>> list(const std::string& path) override {
    if (dead_) return dead();
    const auto folder = open_folder(path);
    if (!folder) return missing(path);
    std::vector<std::string> names;
    for (const auto& [name, entry] : folder->now) names.push_back(name);
    return names;
  }
  Result<uint64_t> free_bytes(const std::string&) override {
    if (dead_) return dead();
    return capacity_ - std::min(capacity_, used(root_));
  }

 private:
  struct File {
    std::string now, durable;
  };
  struct Folder;
  struct Entry {
    std::shared_ptr<File> file;
    std::shared_ptr<Folder> folder;
  };
  struct Folder {
    std::map<std::string, Entry> now, durable;
  };

  class Output : public ps::OutputFile {
   public:
    Output(MemoryDisk& disk, std::string path, std::shared_ptr<File> file)
        : disk_(disk), path_(std::move(path)), file_(std::move(file)) {}
    Status write(std::span<const std::byte> bytes) override {
      const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      if (const auto ok = disk_.step("write", path_); !ok) {
        if (disk_.met_ == Fault::crash || disk_.met_ == Fault::cut_short)
          file_->now += text.substr(0, static_cast<size_t>(static_cast<double>(text.size()) * disk_.written_share_));
        return ok;
      }
      if (disk_.used(disk_.root_) + text.size() > disk_.capacity_)
        return fail(ErrorKind::exhausted, cat("cannot write ", path_, ": no space left"));
      file_->now += text;
      return {};
    }
    Status sync() override {
      TROUPE_TRY(disk_.step("sync", path_));
      file_->durable = file_->now;
      return {};
    }
    Status close() override { return disk_.step("close", path_); }

   private:
    MemoryDisk& disk_;
    std::string path_;
    std::shared_ptr<File> file_;
  };

  class Input : public ps::InputFile {
   public:
    Input(std::string path, std::shared_ptr<const File> file)
        : path_(std::move(path)), file_(std::move(file)) {}
    uint64_t size() const override { return file_->now.size(); }
    Status read(uint64_t offset, std::span<std::byte> out) const override {
      if (offset > size() || out.size() > size() - offset)
        return fail(ErrorKind::corrupt, cat(path_, " ends"));
      std::copy_n(reinterpret_cast<const std::byte*>(file_->now.data()) + offset, out.size(), out.data());
      return {};
    }

   private:
    std::string path_;
    std::shared_ptr<const File> file_;
  };

  static tl::unexpected<Error> dead() { return fail(ErrorKind::failed, "the process is dead"); }
  static tl::unexpected<Error> missing(const std::string& path) {
    return fail(ErrorKind::missing, cat(path, " is not there"));
  }

  Status step(const char* what, const std::string& path) {
    if (dead_) return dead();
    ++calls_;
    if (calls_ < fault_at_ || calls_ > fault_until_ || fault_ == Fault::none) return {};
    met_ = fault_;
    if (fault_ == Fault::crash) return dead_ = true, dead();
    const bool full = fault_ != Fault::input_output;
    return fail(full ? ErrorKind::exhausted : ErrorKind::failed,
                cat("cannot ", what, ' ', path, full ? ": no space left" : ": I/O error"));
  }

  static void settle(Folder& folder, Kept kept, Random& random) {
    const bool in_part = kept == Kept::some || kept == Kept::zeros;
    if (kept == Kept::none || (in_part && random.chance(0.5))) folder.now = folder.durable;
    folder.durable = folder.now;
    for (auto& [name, entry] : folder.now) {
      if (entry.folder) settle(*entry.folder, kept, random);
      if (!entry.file || entry.file->now == entry.file->durable) continue;
      File& file = *entry.file;
      if (kept == Kept::none) file.now = file.durable;
      // Files grow at their end: what was synced is a beginning, and stays.
      const size_t length = file.now.size(), synced = std::min(file.durable.size(), length);
      if (in_part) file.now.resize(synced + random.below(length - synced + 1));
      if (kept == Kept::zeros) file.now.resize(length, '\0');
      file.durable = file.now;
    }
  }

  static uint64_t used(const Folder& folder) {
    uint64_t bytes = 0;
    for (const auto& [name, entry] : folder.now)
      bytes += entry.file ? entry.file->now.size() : used(*entry.folder);
    return bytes;
  }

  static std::vector<std::string> parts(const std::string& path) {
    std::vector<std::string> out;
    std::string part;
    for (const char c : path + '/') {
      if (c != '/') {
        part += c;
      } else if (!part.empty() && part != ".") {
        out.push_back(part);
        part.clear();
      } else {
        part.clear();
      }
    }
    return out;
  }
  static std::string base(const std::string& path) { return parts(path).back(); }

  const Entry* find(const std::string& path) const {
    const auto names = parts(path);
    const Folder* at = &root_;
    for (size_t i = 0; i < names.size(); ++i) {
      const auto found = at->now.find(names[i]);
      if (found == at->now.end()) return nullptr;
      if (i + 1 == names.size()) return &found->second;
      if (!found->second.folder) return nullptr;
      at = found->second.folder.get();
    }
    return nullptr;
  }
  Folder* open_folder(const std::string& path) {
    if (parts(path).empty()) return &root_;
    const Entry* entry = find(path);
    return entry ? entry->folder.get() : nullptr;
  }
  Folder* folder_of(const std::string& path) { return open_folder(ps::parent_path(path)); }

  Folder root_;
  int64_t calls_ = 0, fault_at_ = 0, fault_until_ = 0;
  double written_share_ = 0.5;
  Fault fault_ = Fault::none, met_ = Fault::none;
  uint64_t capacity_ = uint64_t{1} << 40;
  bool dead_ = false;
};

}  // namespace troupe::test
