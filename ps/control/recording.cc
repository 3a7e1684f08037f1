#include <troupe/ps/control/recording.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace troupe::ps {
namespace {

constexpr char kMagic[9] = "TRPREC01";
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

/// The records of one file, one behind the other.
Result<std::string> read_records(const std::string& path, size_t record_bytes) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return fail(ErrorKind::missing, cat("cannot read the recording ", path, ": ", std::strerror(errno),
                                        "; only a run with debug.record = true can be replayed"));
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (bytes.compare(0, 8, kMagic) != 0)
    return fail(ErrorKind::corrupt, cat(path, " is not a recording: it does not begin with ", kMagic));
  bytes.erase(0, 8);
  if (bytes.size() % record_bytes != 0)
    return fail(ErrorKind::corrupt, cat("the recording ", path, " is cut short: ", bytes.size(),
                                        " bytes are no multiple of a record's ", record_bytes));
  return bytes;
}

}  // namespace

struct Recorder::Files {
  std::string folder;
  std::ofstream dealt;
  std::vector<std::ofstream> servers;
};

Recorder::Recorder(std::unique_ptr<Files> files) : files_(std::move(files)) {}
Recorder::~Recorder() = default;

Result<std::unique_ptr<Recorder>> Recorder::create(const std::string& folder, uint32_t servers) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  auto files = std::make_unique<Files>();
  files->folder = folder;
  const auto open = [&](std::ofstream& file, const std::string& path) {
    file.open(path, std::ios::binary | std::ios::trunc);
    file.write(kMagic, 8);
    return file.flush().good();
  };
  bool good = open(files->dealt, dealt_path(folder));
  files->servers.resize(servers);
  for (ServerId s = 0; s < servers; ++s) good = good && open(files->servers[s], server_path(folder, s));
  if (!good)
    return fail(ErrorKind::failed, cat("cannot write a recording into ", folder, ": ", std::strerror(errno)));
  return std::unique_ptr<Recorder>(new Recorder(std::move(files)));
}

void Recorder::dealt(const CoordinatorCore::Dealt& dealt) {
  char record[kDealtBytes];
  put<uint8_t>(put<uint32_t>(record, dealt.worker), dealt.idle);
  files_->dealt.write(record, sizeof record);
}

void Recorder::event(ServerId server, const Shard::Event& event) {
  char record[kEventBytes];
  char* out = put<uint8_t>(record, event.kind == Shard::Event::Kind::pull);
  out = put<uint32_t>(out, event.worker);
  put<int64_t>(put<uint32_t>(out, event.parcel), event.step);
  files_->servers[server].write(record, sizeof record);
}

Status Recorder::close() {
  bool good = files_->dealt.flush().good();
  for (std::ofstream& file : files_->servers) good = file.flush().good() && good;
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
