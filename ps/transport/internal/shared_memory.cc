#include <troupe/ps/transport/internal/shared_memory.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include <troupe/kernels/base/text.h>

namespace troupe::ps {
namespace {

constexpr uint64_t kMagic = 0x314d48535055'5254;  // "TRUPSHM1"
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

struct Prefix {
  uint64_t magic = 0;
  uint64_t token = 0;
};

std::string reason() { return std::strerror(errno); }

std::string path_of(const SharedOffer& offer) { return cat("/proc/", offer.pid, "/fd/", offer.fd); }

tl::unexpected<Error> refuse(const SharedOffer& offer, const std::string& why) {
  return fail(ErrorKind::invalid, cat("shared memory ", path_of(offer), " is not used: ", why));
}

}  // namespace

Result<std::shared_ptr<SharedMemory>> SharedMemory::map(FileDescriptor file, uint64_t bytes, uint64_t token,
                                                        Access access) {
  const int may = access == Access::read ? PROT_READ : PROT_READ | PROT_WRITE;
  void* const at = ::mmap(nullptr, bytes + kPrefixBytes, may, MAP_SHARED | MAP_NORESERVE, file.get(), 0);
  if (at == MAP_FAILED)
    return fail(ErrorKind::exhausted, cat("cannot map ", bytes, " bytes of shared memory: ", reason()));
  ::madvise(at, bytes + kPrefixBytes, MADV_DONTDUMP);  // a dump would read, and so fill, what nobody has touched
  return std::shared_ptr<SharedMemory>(new SharedMemory(std::move(file), static_cast<std::byte*>(at), bytes, token));
}

Result<std::shared_ptr<SharedMemory>> SharedMemory::create(uint64_t bytes, const char* name) {
  FileDescriptor file(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  Prefix prefix{kMagic, 0};
  if (file.get() < 0 || ::ftruncate(file.get(), static_cast<off_t>(bytes + kPrefixBytes)) != 0 ||
      ::fcntl(file.get(), F_ADD_SEALS, kSeals) != 0 ||
      ::getrandom(&prefix.token, sizeof prefix.token, 0) != sizeof prefix.token)
    return fail(ErrorKind::exhausted, cat("cannot make ", bytes, " bytes of shared memory: ", reason()));
  auto memory = map(std::move(file), bytes, prefix.token, Access::write);
  if (memory) std::memcpy((*memory)->map_, &prefix, sizeof prefix);
  return memory;
}

Result<std::shared_ptr<SharedMemory>> SharedMemory::open(const SharedOffer& offer, uint64_t limit_bytes,
                                                         Access access) {
  if (offer.pid <= 0 || offer.fd < 0) return refuse(offer, "it names no process or no file");
  if (offer.bytes > limit_bytes) return refuse(offer, cat(offer.bytes, " bytes are more than ", limit_bytes));
  // Opened by name only, until it is clear what it is: to open a pipe or a device can wait, or do something.
  FileDescriptor named(::open(path_of(offer).c_str(), O_PATH | O_CLOEXEC));
  struct stat about {};
  if (named.get() < 0 || ::fstat(named.get(), &about) != 0) return refuse(offer, reason());
  if (!S_ISREG(about.st_mode) || about.st_nlink != 0) return refuse(offer, "it is not an anonymous file");
  if (about.st_uid != ::geteuid()) return refuse(offer, cat("it belongs to user ", about.st_uid));
  if (static_cast<uint64_t>(about.st_size) != offer.bytes + kPrefixBytes)
    return refuse(offer, cat("it has ", about.st_size, " bytes instead of ", offer.bytes + kPrefixBytes));
  const int how = access == Access::read ? O_RDONLY : O_RDWR;
  FileDescriptor file(::open(cat("/proc/self/fd/", named.get()).c_str(), how | O_CLOEXEC));
  if (file.get() < 0) return refuse(offer, reason());
  if (const int seals = ::fcntl(file.get(), F_GET_SEALS); seals < 0 || (seals & kSeals) != kSeals)
    return refuse(offer, "its size is not sealed");
  Prefix prefix;
  if (::pread(file.get(), &prefix, sizeof prefix, 0) != sizeof prefix || prefix.magic != kMagic ||
      prefix.token != offer.token)
    return refuse(offer, "it holds another token");
  return map(std::move(file), offer.bytes, offer.token, access);
}

void SharedMemory::only_read_from(uint64_t offset) {
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t begin = (kPrefixBytes + offset + page - 1) / page * page, end = kPrefixBytes + bytes_;
  if (begin < end) ::mprotect(map_ + begin, end - begin, PROT_READ);  // where it fails, it stays writable
}

namespace {

// Replaces these pages by a copy at once: whoever reads them meanwhile sees the one or the other.
bool copy_in_place(std::byte* at, size_t bytes) {
  void* const copy = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy == MAP_FAILED) return false;
  std::memcpy(copy, at, bytes);
  ::mprotect(copy, bytes, PROT_READ);
  if (::mremap(copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at) != MAP_FAILED) return true;
  ::munmap(copy, bytes);
  return false;
}

}  // namespace

void SharedMemory::keep_copies(std::span<const Range> ranges) {
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t all = (kPrefixBytes + bytes_ + page - 1) / page * page;
  uint64_t done = 0;  // of the mapping: it is a copy, or nothing, up to here
  const auto leave_out = [&](uint64_t end) {
    if (end > done)
      ::mmap(map_ + done, end - done, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  };
  for (const Range& range : ranges) {
    const uint64_t begin = std::max(done, (kPrefixBytes + range.at) / page * page);
    const uint64_t end = (kPrefixBytes + range.at + range.bytes + page - 1) / page * page;
    if (begin >= end) continue;
    leave_out(begin);
    copy_in_place(map_ + begin, end - begin);
    done = end;
  }
  leave_out(all);
  file_ = FileDescriptor(-1);
}

SharedMemory::~SharedMemory() { ::munmap(map_, bytes_ + kPrefixBytes); }

SharedOffer SharedMemory::offer() const { return {::getpid(), file_.get(), token_, bytes_}; }

}  // namespace troupe::ps
