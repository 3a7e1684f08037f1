#include <troupe/ps/control/recording.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string_view>

#include <troupe/ps/checkpoint/digest.h>

namespace troupe::ps {
namespace {

constexpr char kMagic[9] = "TRPREC02";
constexpr size_t kDigestBytes = 32;
constexpr size_t kEndBytes = 8 + kDigestBytes;
constexpr size_t kDealtBytes = 5;
constexpr size_t kEventBytes = 17;

std::string dealt_path(const std::string& folder) { return folder + "/dealt"; }
std::string server_path(const std::string& folder, ServerId server) { return cat(folder, "/server-", server); }

template <class T>
char* put(char* out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) *out++ = static_cast<char>(static_cast<uint64_t>(value) >> (8 * i));
  return out;
}

template <class T>
const char* get(const char* in, T& value) {
  uint64_t bits = 0;
  for (size_t i = 0; i < sizeof(T); ++i) bits |= static_cast<uint64_t>(static_cast<unsigned char>(in[i])) << (8 * i);
  value = static_cast<T>(bits);
  return in + sizeof(T);
}

std::string digest_of_text(std::string_view text) {
  Digest digest;
  digest.update(std::as_bytes(std::span(text)));
  return digest.hex();
}

/// The records of one file, one behind the other.
Result<std::string> read_records(const std::string& path, size_t record_bytes) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return fail(ErrorKind::missing, cat("cannot read the recording ", path, ": ", std::strerror(errno),
                                        "; only a run with debug.record = true can be replayed"));
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (bytes.compare(0, 8, kMagic) != 0)
    return fail(ErrorKind::corrupt, cat(path, " is not a recording of this version: it does not begin with ", kMagic));
  uint64_t count = 0;
  const size_t end = bytes.size() < 8 + kEndBytes ? 8 : bytes.size() - kEndBytes;
  if (end > 8 || bytes.size() == 8 + kEndBytes) get(bytes.data() + end, count);
  if (bytes.size() < 8 + kEndBytes || (end - 8) % record_bytes != 0 || count != (end - 8) / record_bytes)
    return fail(ErrorKind::corrupt, cat("the recording ", path, " is cut short: its ", bytes.size(),
                                        " bytes do not end with the number of its records; was the run killed?"));
  if (bytes.compare(end + 8, kDigestBytes, digest_of_text(std::string_view(bytes).substr(0, end + 8))) != 0)
    return fail(ErrorKind::corrupt,
                cat("the recording ", path, " does not match its checksum: its bytes have changed"));
  return bytes.substr(8, end - 8);
}

/// One file while it is written. A std::ofstream would be open in whatever program the process starts.
class RecordFile {
 public:
  bool open(const std::string& path) {
    file_.reset(std::fopen(path.c_str(), "wbe"));
    if (!file_) return false;
    put_bytes(kMagic, 8);
    return written();
  }
  void append(const char* record, size_t bytes) {
    put_bytes(record, bytes);
    ++count_;
  }
  bool close() {
    char count[8];
    put<uint64_t>(count, count_);
    put_bytes(count, sizeof count);
    const std::string digest = digest_.hex();
    std::fwrite(digest.data(), 1, digest.size(), file_.get());
    return written();
  }

 private:
  void put_bytes(const char* bytes, size_t count) {
    std::fwrite(bytes, 1, count, file_.get());
    digest_.update(std::as_bytes(std::span(bytes, count)));
  }
  bool written() { return std::fflush(file_.get()) == 0 && !std::ferror(file_.get()); }

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_;
  Digest digest_;
  uint64_t count_ = 0;
};

}  // namespace

struct Recorder::Files {
  std::string folder;
  RecordFile dealt;
  std::vector<RecordFile> servers;
};

Recorder::Recorder(std::unique_ptr<Files> files) : files_(std::move(files)) {}
Recorder::~Recorder() = default;

Result<std::unique_ptr<Recorder>> Recorder::create(const std::string& folder, uint32_t servers) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  auto files = std::make_unique<Files>();
  files->folder = folder;
  bool good = files->dealt.open(dealt_path(folder));
  files->servers.resize(servers);
  for (ServerId s = 0; s < servers; ++s) good = good && files->servers[s].open(server_path(folder, s));
  if (!good)
    return fail(ErrorKind::failed, cat("cannot write a recording into ", folder, ": ", std::strerror(errno)));
  return std::unique_ptr<Recorder>(new Recorder(std::move(files)));
}

void Recorder::dealt(const CoordinatorCore::Dealt& dealt) {
  char record[kDealtBytes];
  put<uint8_t>(put<uint32_t>(record, dealt.worker), dealt.idle);
  files_->dealt.append(record, sizeof record);
}

void Recorder::event(ServerId server, const Shard::Event& event) {
  char record[kEventBytes];
  char* out = put<uint8_t>(record, event.kind == Shard::Event::Kind::pull);
  out = put<uint32_t>(out, event.worker);
  put<int64_t>(put<uint32_t>(out, event.parcel), event.step);
  files_->servers[server].append(record, sizeof record);
}

Status Recorder::close() {
  bool good = files_->dealt.close();
  for (RecordFile& file : files_->servers) good = file.close() && good;
  if (good) return {};
  return fail(ErrorKind::exhausted, cat("the recording in ", files_->folder,
                                        " is incomplete, the disk may be full: the run cannot be replayed"));
}

Result<Recording> read_recording(const std::string& folder, uint32_t servers) {
  Recording recording;
  auto dealt = read_records(dealt_path(folder), kDealtBytes);
  if (!dealt) return tl::unexpected<Error>(dealt.error());
  for (size_t at = 0; at < dealt->size(); at += kDealtBytes) {
    uint8_t idle = 0;
    CoordinatorCore::Dealt& one = recording.dealt.emplace_back();
    get(get(dealt->data() + at, one.worker), idle);
    one.idle = idle != 0;
  }
  for (ServerId s = 0; s < servers; ++s) {
    auto events = read_records(server_path(folder, s), kEventBytes);
    if (!events) return tl::unexpected<Error>(events.error());
    auto& list = recording.events.emplace_back();
    for (size_t at = 0; at < events->size(); at += kEventBytes) {
      uint8_t kind = 0;
      Shard::Event& event = list.emplace_back();
      const char* in = get(get(events->data() + at, kind), event.worker);
      get(get(in, event.parcel), event.step);
      event.kind = kind ? Shard::Event::Kind::pull : Shard::Event::Kind::push;
    }
  }
  return recording;
}

}  // namespace troupe::ps
