#include <troupe/ps/metrics/line_file.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace troupe::ps {
namespace {

off_t size_of(int descriptor) {
  struct stat status;
  return ::fstat(descriptor, &status) == 0 ? status.st_size : 0;
}

}  // namespace

Result<LineFile> LineFile::open(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor < 0) return fail(ErrorKind::failed, path + ": cannot be written: " + std::strerror(errno));
  return LineFile(descriptor);
}

LineFile::LineFile(LineFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), failures_(other.failures_) {}

LineFile& LineFile::operator=(LineFile&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(failures_, other.failures_);
  return *this;
}

LineFile::~LineFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool LineFile::append(std::string_view line) {
  std::string text(line);
  text += '\n';
  ssize_t written;
  do written = ::write(descriptor_, text.data(), text.size());
  while (written < 0 && errno == EINTR);
  if (written == static_cast<ssize_t>(text.size())) return true;
  ++failures_;
  // Fails on what is no regular file (/dev/full in tests), where there is nothing to cut off.
  if (written > 0 && ::ftruncate(descriptor_, size_of(descriptor_) - written) != 0) return false;
  return false;
}

bool LineFile::empty() const { return size_of(descriptor_) == 0; }

}  // namespace troupe::ps
