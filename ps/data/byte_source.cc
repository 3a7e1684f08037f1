#include <troupe/ps/data/byte_source.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include <troupe/kernels/base/file_descriptor.h>
#include <troupe/kernels/base/text.h>

namespace troupe::ps {

namespace {

Result<size_t> read_fully(int fd, std::span<uint8_t> out, const std::string& path) {
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t n = ::read(fd, out.data() + done, out.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(ErrorKind::failed, cat("cannot read ", path, ": ", std::strerror(errno)));
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  return done;
}

class PlainSource : public ByteSource {
 public:
  PlainSource(std::string path, uint64_t bytes, FileDescriptor fd)
      : ByteSource(std::move(path), bytes), left_(bytes), fd_(std::move(fd)) {}

  std::optional<uint64_t> exact_left() const override { return left_; }
  uint64_t at_most_left() const override { return left_; }
  Result<size_t> read_some(std::span<uint8_t> out) override {
    auto n = read_fully(fd_.get(), out, path());
    if (n) left_ -= std::min<uint64_t>(left_, *n);
    return n;
  }

 private:
  uint64_t left_;
  FileDescriptor fd_;
};

class GzipSource : public ByteSource {
 public:
  GzipSource(std::string path, uint64_t bytes, FileDescriptor fd)
      : ByteSource(std::move(path), bytes), fd_(std::move(fd)), compressed_(size_t{1} << 16) {
    inflateInit2(&stream_, 16 + MAX_WBITS);  // 16: a gzip header and its checksum, nothing else
  }
  ~GzipSource() override { inflateEnd(&stream_); }

  std::optional<uint64_t> exact_left() const override { return {}; }
  uint64_t at_most_left() const override { return file_bytes() * 1032; }

  Result<size_t> read_some(std::span<uint8_t> out) override {
    size_t done = 0;
    while (done < out.size() && !ended_) {
      if (stream_.avail_in == 0) {
        const auto n = read_fully(fd_.get(), compressed_, path());
        if (!n) return tl::unexpected(n.error());
        if (*n == 0)
          return fail(ErrorKind::corrupt, cat(path(), " is cut short: its ", file_bytes(),
                                              " bytes end within the compressed data; fetch it again"));
        stream_.next_in = compressed_.data();
        stream_.avail_in = static_cast<uInt>(*n);
      }
      const size_t chunk = std::min<size_t>(out.size() - done, std::numeric_limits<uInt>::max());
      stream_.next_out = out.data() + done;
      stream_.avail_out = static_cast<uInt>(chunk);
      const int code = inflate(&stream_, Z_NO_FLUSH);
      done += chunk - stream_.avail_out;
      if (code == Z_STREAM_END) {
        TROUPE_TRY(end());
      } else if (code != Z_OK && code != Z_BUF_ERROR) {
        return fail(ErrorKind::corrupt, cat(path(), " is damaged: inflating it failed (",
                                            stream_.msg ? stream_.msg : zError(code), "); fetch it again"));
      }
    }
    return done;
  }

 private:
  Status end() {
    ended_ = true;
    uint8_t extra = 0;
    const auto n = read_fully(fd_.get(), {&extra, 1}, path());
    if (!n) return tl::unexpected(n.error());
    if (*n + stream_.avail_in > 0)
      return fail(ErrorKind::corrupt, cat(path(), " has bytes after the end of its compressed data"));
    return {};
  }

  FileDescriptor fd_;
  std::vector<uint8_t> compressed_;
  z_stream stream_{};
  bool ended_ = false;
};

}  // namespace

Status ByteSource::read(std::span<uint8_t> out, const std::string& what) {
  const auto n = read_some(out);
  if (!n) return tl::unexpected(n.error());
  if (*n < out.size())
    return fail(ErrorKind::corrupt,
                cat(path_, " is cut short: ", what, " takes ", out.size(), " bytes, only ", *n,
                    " are there (the file has ", file_bytes_, " bytes)"));
  return {};
}

Status ByteSource::expect_end(uint64_t expected_bytes) {
  uint8_t extra = 0;
  const auto n = read_some({&extra, 1});
  if (!n) return tl::unexpected(n.error());
  if (*n > 0)
    return fail(ErrorKind::corrupt,
                cat(path_, " goes on after the ", expected_bytes,
                    " bytes that its header announces (the file has ", file_bytes_, " bytes)"));
  return {};
}

Result<std::unique_ptr<ByteSource>> open_source(const std::string& path) {
  // O_NONBLOCK: a named pipe is refused below instead of waiting for its writer.
  FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0)
    return fail(errno == ENOENT ? ErrorKind::missing : ErrorKind::invalid,
                cat("cannot open ", path, ": ", std::strerror(errno)));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0)
    return fail(ErrorKind::failed, cat("cannot examine ", path, ": ", std::strerror(errno)));
  if (!S_ISREG(info.st_mode))
    return fail(ErrorKind::invalid,
                cat(path, " is ", S_ISDIR(info.st_mode) ? "a folder" : "not a regular file",
                    ", a data file is needed"));
  const auto bytes = static_cast<uint64_t>(info.st_size);
  uint8_t magic[2] = {0, 0};
  const bool gzip = ::pread(fd.get(), magic, 2, 0) == 2 && magic[0] == 0x1f && magic[1] == 0x8b;
  if (gzip) return std::make_unique<GzipSource>(path, bytes, std::move(fd));
  return std::make_unique<PlainSource>(path, bytes, std::move(fd));
}

}  // namespace troupe::ps
