#include <troupe/ps/transport/keys.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <sstream>
#include <vector>

#include <troupe/kernels/base/file_descriptor.h>
#include <troupe/kernels/base/text.h>

namespace troupe::ps {
namespace {

constexpr std::array kRoles = {KeyRole::coordinator, KeyRole::node, KeyRole::client};
constexpr size_t kKeyCharacters = 40;
constexpr size_t kMostBytes = 1 << 20;
const std::string kList = "public.keys";

std::string file_of(KeyRole role) { return cat(name_of(role), ".key"); }

struct Pair {
  std::string public_key, secret_key;
};

Result<Pair> new_pair() {
  char public_key[kKeyCharacters + 1], secret_key[kKeyCharacters + 1];
  if (zmq_curve_keypair(public_key, secret_key) != 0)
    return fail(ErrorKind::failed, cat("cannot make a key: ", std::strerror(errno),
                                       ": this build of ZeroMQ has no CurveZMQ; install libzmq5 as Debian ships it"));
  return Pair{public_key, secret_key};
}

Status write_new(const std::string& path, const std::string& text, mode_t mode) {
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (file.get() < 0) return fail(ErrorKind::failed, cat(path, ": cannot be made: ", std::strerror(errno)));
  if (::fchmod(file.get(), mode) != 0 ||  // whatever the umask says
      ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) || ::fsync(file.get()) != 0)
    return fail(ErrorKind::failed, cat(path, ": cannot be written: ", std::strerror(errno)));
  return {};
}

/// The text of a file that nobody else could have written (`forbidden` 022) or read (077).
Result<std::string> read_guarded(const std::string& path, mode_t forbidden) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0)
    return fail(ErrorKind::missing, cat(path, ": cannot be read: ", std::strerror(errno),
                                        ": make a run's keys with troupe keys DIR, and copy what this process needs"));
  if (!S_ISREG(status.st_mode)) return fail(ErrorKind::invalid, cat(path, ": is not a file"));
  if (status.st_uid != ::geteuid() && status.st_uid != 0)
    return fail(ErrorKind::invalid, cat(path, ": belongs to another user (", status.st_uid,
                                        "), who could have changed it: copy it, and make the copy yours"));
  if (status.st_mode & forbidden) {
    char mode[8];
    std::snprintf(mode, sizeof mode, "%04o", static_cast<unsigned>(status.st_mode & 07777));
    return fail(ErrorKind::invalid,
                cat(path, ": mode ", mode, " lets other users ",
                    forbidden & 044 ? "read the secret: chmod 600 " : "change it: chmod 644 ", path));
  }
  std::string text(kMostBytes, '\0');
  const ssize_t bytes = ::read(file.get(), text.data(), text.size());
  if (bytes < 0) return fail(ErrorKind::failed, cat(path, ": cannot be read: ", std::strerror(errno)));
  text.resize(static_cast<size_t>(bytes));
  return text;
}

bool is_key(const std::string& text) {
  uint8_t binary[32];
  return text.size() == kKeyCharacters && zmq_z85_decode(binary, text.c_str()) != nullptr;
}

/// Lines of two words; empty lines and those that begin with # are passed over.
Result<std::vector<std::pair<std::string, std::string>>> words_of(const std::string& path, const std::string& text) {
  std::vector<std::pair<std::string, std::string>> all;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.empty() || line.front() == '#') continue;
    std::istringstream words(line);
    std::string first, second, more;
    words >> first >> second;
    if (second.empty() || words >> more)
      return fail(ErrorKind::corrupt, cat(path, ':', number, ": not two words; copy the file again"));
    all.emplace_back(first, second);
  }
  return all;
}

Result<std::map<std::string, KeyRole>> read_list(const std::string& path) {
  const auto text = read_guarded(path, 022);
  if (!text) return tl::unexpected(text.error());
  const auto lines = words_of(path, *text);
  if (!lines) return tl::unexpected(lines.error());
  std::map<std::string, KeyRole> allowed;
  for (const auto& [name, key] : *lines) {
    const auto role = key_role_named(name);
    if (!role || !is_key(key))
      return fail(ErrorKind::corrupt,
                  cat(path, ": \"", name, ' ', key, "\" is not a role (coordinator, node, client) and a public key"));
    if (!allowed.emplace(key, *role).second)
      return fail(ErrorKind::invalid, cat(path, ": ", key, " is there twice; delete one of the lines"));
  }
  return allowed;
}

Result<Pair> read_pair(const std::string& path) {
  const auto text = read_guarded(path, 077);
  if (!text) return tl::unexpected(text.error());
  const auto lines = words_of(path, *text);
  if (!lines) return tl::unexpected(lines.error());
  Pair pair;
  for (const auto& [name, value] : *lines) {
    if (name == "public") pair.public_key = value;
    if (name == "secret") pair.secret_key = value;
  }
  char derived[kKeyCharacters + 1] = "";
  if (!is_key(pair.public_key) || !is_key(pair.secret_key) || zmq_curve_public(derived, pair.secret_key.c_str()) != 0 ||
      pair.public_key != derived)
    return fail(ErrorKind::corrupt, cat(path, ": holds no pair of keys that belong together; copy the file again"));
  return pair;
}

}  // namespace

const char* name_of(KeyRole role) {
  switch (role) {
    case KeyRole::coordinator: return "coordinator";
    case KeyRole::node: return "node";
    case KeyRole::client: return "client";
  }
  return "?";
}

std::optional<KeyRole> key_role_named(const std::string& name) {
  for (const KeyRole role : kRoles)
    if (name == name_of(role)) return role;
  return std::nullopt;
}

bool may_speak_for(KeyRole key, Role endpoint) {
  switch (key) {
    case KeyRole::coordinator: return true;
    case KeyRole::node: return endpoint != Role::coordinator;
    case KeyRole::client: return endpoint == Role::client;
  }
  return false;
}

std::string Keys::coordinator() const {
  for (const auto& [key, role] : allowed)
    if (role == KeyRole::coordinator) return key;
  return "";
}

Status make_keys(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return fail(ErrorKind::failed, cat(folder, ": cannot be made: ", std::strerror(errno)));
  for (const std::string& name : {kList, file_of(kRoles[0]), file_of(kRoles[1]), file_of(kRoles[2])})
    if (struct stat ignored{}; ::lstat(cat(folder, '/', name).c_str(), &ignored) == 0)
      return fail(
          ErrorKind::invalid,
          cat(folder, '/', name, ": is there already, and a run may use it: name another folder, or delete it"));
  std::vector<std::pair<std::string, std::string>> secrets;
  std::string list = "# Who may connect to the run: role and public key (CurveZMQ, Z85). Not secret.\n";
  for (const KeyRole role : kRoles) {
    const auto pair = new_pair();
    if (!pair) return tl::unexpected(pair.error());
    list += cat(name_of(role), ' ', pair->public_key, '\n');
    secrets.emplace_back(file_of(role),
                         cat("# Secret: whoever has it may connect as ", name_of(role), ".\nrole ", name_of(role),
                             "\npublic ", pair->public_key, "\nsecret ", pair->secret_key, '\n'));
  }
  for (const auto& [name, text] : secrets) TROUPE_TRY(write_new(cat(folder, '/', name), text, 0600));
  return write_new(cat(folder, '/', kList), list, 0644);
}

Result<Keys> load_keys(const std::string& folder, KeyRole role) {
  auto allowed = read_list(cat(folder, '/', kList));
  if (!allowed) return tl::unexpected(allowed.error());
  const std::string path = cat(folder, '/', file_of(role));
  auto pair = read_pair(path);
  if (!pair) return tl::unexpected(pair.error());
  const auto listed = allowed->find(pair->public_key);
  if (listed == allowed->end() || listed->second != role)
    return fail(ErrorKind::invalid, cat(path, ": its public key is not in ", folder, '/', kList, " as ", name_of(role),
                                        ", so that nobody would let it in: take both files from one run's keys"));
  Keys keys{role, std::move(pair->public_key), std::move(pair->secret_key), std::move(*allowed)};
  if (keys.coordinator().empty())
    return fail(ErrorKind::invalid, cat(folder, '/', kList, ": lists no coordinator; take the whole file"));
  return keys;
}

}  // namespace troupe::ps
