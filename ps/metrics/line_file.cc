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
  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644));
  if (file.get() < 0) return fail(ErrorKind::failed, path + ": cannot be written: " + std::strerror(errno));
  return LineFile(std::move(file));
}

bool LineFile::append(std::string_view line) {
  std::string text(line);
  text += '\n';
  ssize_t written;
  do written = ::write(file_.get(), text.data(), text.size());
  while (written < 0 && errno == EINTR);
  if (written == static_cast<ssize_t>(text.size())) return true;
  ++failures_;
  // Fails on what is no regular file (/dev/full in tests), where there is nothing to cut off.
  if (written > 0 && ::ftruncate(file_.get(), size_of(file_.get()) - written) != 0) return false;
  return false;
}

bool LineFile::empty() const { return size_of(file_.get()) == 0; }

}  // namespace troupe::ps
