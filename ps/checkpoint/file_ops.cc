#include <troupe/ps/checkpoint/file_ops.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include <troupe/kernels/base/file_descriptor.h>
#include <troupe/kernels/base/text.h>

namespace troupe::ps {

namespace {

tl::unexpected<Error> fail_errno(const std::string& what, const std::string& path, int error = errno) {
  ErrorKind kind = ErrorKind::failed;
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) kind = ErrorKind::exhausted;
  if (error == ENOENT || error == ENOTDIR) kind = ErrorKind::missing;
  return fail(kind, cat("cannot ", what, ' ', path, ": ", std::strerror(error)));
}

class PosixOutput : public OutputFile {
 public:
  PosixOutput(std::string path, FileDescriptor fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  Status write(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd_.get(), bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return fail_errno("write", path_);
      bytes = bytes.subspan(static_cast<size_t>(n));
    }
    return {};
  }
  Status sync() override {
    if (::fsync(fd_.get()) != 0) return fail_errno("write through to disk", path_);
    return {};
  }
  Status close() override {
    if (::close(fd_.release()) != 0) return fail_errno("close", path_);
    return {};
  }

 private:
  std::string path_;
  FileDescriptor fd_;
};

class PosixInput : public InputFile {
 public:
  PosixInput(std::string path, FileDescriptor fd, uint64_t size)
      : path_(std::move(path)), fd_(std::move(fd)), size_(size) {}

  uint64_t size() const override { return size_; }
  Status read(uint64_t offset, std::span<std::byte> out) const override {
    while (!out.empty()) {
      const ssize_t n = ::pread(fd_.get(), out.data(), out.size(), static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return fail_errno("read", path_);
      if (n == 0)
        return fail(ErrorKind::corrupt,
                    cat(path_, " ends at byte ", offset, ", ", out.size(), " more were expected"));
      out = out.subspan(static_cast<size_t>(n));
      offset += static_cast<uint64_t>(n);
    }
    return {};
  }

 private:
  std::string path_;
  FileDescriptor fd_;
  uint64_t size_;
};

class PosixFiles : public FileOps {
 public:
  Result<std::unique_ptr<OutputFile>> create(const std::string& path) override {
    FileDescriptor fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (fd.get() < 0) return fail_errno("create", path);
    return std::make_unique<PosixOutput>(path, std::move(fd));
  }
  Result<std::unique_ptr<InputFile>> open(const std::string& path) override {
    FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (fd.get() < 0) return fail_errno("open", path);
    struct stat info {};
    if (::fstat(fd.get(), &info) != 0) return fail_errno("examine", path);
    if (!S_ISREG(info.st_mode)) return fail(ErrorKind::invalid, cat(path, " is not a regular file"));
    return std::make_unique<PosixInput>(path, std::move(fd), static_cast<uint64_t>(info.st_size));
  }
  Status make_folder(const std::string& path) override {
    std::error_code ignored;
    if (std::filesystem::is_directory(path, ignored)) return {};
    const std::string parent = parent_path(path);
    if (parent != path) TROUPE_TRY(make_folder(parent));
    if (::mkdir(path.c_str(), 0777) != 0 &&
        !(errno == EEXIST && std::filesystem::is_directory(path, ignored)))
      return fail_errno("make the folder", path);
    return sync_folder(parent);
  }
  Status rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) return fail_errno(cat("rename ", from, " to"), to);
    return {};
  }
  Status sync_folder(const std::string& path) override {
    FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (fd.get() < 0) return fail_errno("open the folder", path);
    if (::fsync(fd.get()) != 0) return fail_errno("write through to disk the folder", path);
    return {};
  }
  Status remove_file(const std::string& path) override {
    if (::unlink(path.c_str()) != 0) return fail_errno("remove", path);
    return {};
  }
  Status remove_folder(const std::string& path) override {
    if (::rmdir(path.c_str()) != 0) return fail_errno("remove the folder", path);
    return {};
  }
  Result<std::vector<std::string>> list(const std::string& path) override {
    std::error_code error;
    std::vector<std::string> names;
    for (std::filesystem::directory_iterator i(path, error), end; !error && i != end; i.increment(error))
      names.push_back(i->path().filename().string());
    if (error) return fail_errno("list the folder", path, error.value());
    std::sort(names.begin(), names.end());
    return names;
  }
  Result<uint64_t> free_bytes(const std::string& path) override {
    struct statvfs info {};
    if (::statvfs(path.c_str(), &info) != 0) return fail_errno("ask for the free space of", path);
    return uint64_t{info.f_bavail} * info.f_frsize;
  }
};

}  // namespace

std::shared_ptr<FileOps> make_posix_files() {
  return std::make_shared<PosixFiles>();
}

Status write_file(FileOps& files, const std::string& path, const std::string& text) {
  const auto file = files.create(path);
  if (!file) return tl::unexpected(file.error());
  TROUPE_TRY((*file)->write(std::as_bytes(std::span(text))));
  TROUPE_TRY((*file)->sync());
  return (*file)->close();
}

Status remove_with_files(FileOps& files, const std::string& folder) {
  const auto names = files.list(folder);
  if (!names) return tl::unexpected(names.error());
  for (const std::string& name : *names) TROUPE_TRY(files.remove_file(join_path(folder, name)));
  return files.remove_folder(folder);
}

std::string join_path(const std::string& folder, const std::string& name) {
  return folder.ends_with('/') ? folder + name : folder + '/' + name;
}

std::string parent_path(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

}  // namespace troupe::ps
