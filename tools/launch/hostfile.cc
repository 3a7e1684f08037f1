#include "hostfile.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>

#include <troupe/kernels/base/parse.h>
#include <troupe/kernels/base/text.h>

namespace troupe::launch {
namespace {

constexpr size_t kMostFileBytes = 4 << 20;

bool letter_or_digit(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

bool all_of(std::string_view text, std::string_view also) {
  return std::all_of(text.begin(), text.end(),
                     [&](char c) { return letter_or_digit(c) || also.find(c) != std::string_view::npos; });
}

/// A first `-` would make an option of it.
bool is_word(std::string_view text, std::string_view also) {
  return !text.empty() && text.size() <= 255 && text.front() != '-' && all_of(text, also);
}

std::string shortened(std::string_view text) {
  return text.size() <= 60 ? std::string(text) : cat(text.substr(0, 60), "...");
}

std::optional<int> count_from(std::string_view text, int most) {
  const auto number = number_from<int64_t>(text);
  if (!number || text.starts_with('+') || *number < 1 || *number > most) return std::nullopt;
  return static_cast<int>(*number);
}

/// `name`, `name:NUMBER`, `[v6]:NUMBER` or a bare IPv6 address.
struct NameAndNumber {
  std::string_view name, number;
  bool has_number = false, v6 = false;
};

std::optional<NameAndNumber> split_number(std::string_view text) {
  NameAndNumber out;
  if (text.starts_with('[')) {
    const auto close = text.find(']');
    if (close == std::string_view::npos) return std::nullopt;
    out.name = text.substr(1, close - 1);
    out.v6 = true;
    text.remove_prefix(close + 1);
    if (text.empty()) return out;
    if (text.front() != ':') return std::nullopt;
    out.number = text.substr(1);
    out.has_number = true;
    return out;
  }
  const auto colon = text.find(':');
  out.v6 = std::count(text.begin(), text.end(), ':') > 1;
  out.name = out.v6 ? text : text.substr(0, colon);
  out.has_number = !out.v6 && colon != std::string_view::npos;
  if (out.has_number) out.number = text.substr(colon + 1);
  return out;
}

/// USER@NAME with a number behind it, which `number` takes.
Status take_destination(std::string_view text, Host& host, std::string_view& number, bool& has_number) {
  const auto at = text.rfind('@');
  if (at != std::string_view::npos) {
    if (!is_word(text.substr(0, at), "._-"))
      return fail(ErrorKind::invalid, cat(host.where, ": ", shortened(text), ": this is no user's name before the @"));
    host.user = text.substr(0, at);
    text.remove_prefix(at + 1);
  }
  const auto parts = split_number(text);
  const bool good = parts && (parts->v6 ? is_word(parts->name, ":.%") && parts->name.find(':') != std::string_view::npos
                                        : is_word(parts->name, "._-"));
  if (!good)
    return fail(ErrorKind::invalid, cat(host.where, ": ", shortened(text), ": this is no host's name or address"));
  host.name = parts->name;
  number = parts->number;
  has_number = parts->has_number;
  return {};
}

Status take_line(std::string_view line, Host& host) {
  std::istringstream words{std::string(line)};
  std::string destination, word;
  words >> destination;
  std::string_view port;
  bool has_port = false, has_slots = false;
  TROUPE_TRY(take_destination(destination, host, port, has_port));
  if (has_port) {
    const auto number = count_from(port, 65535);
    if (!number)
      return fail(ErrorKind::invalid,
                  cat(host.where, ": ", shortened(destination), ": the port must be from 1 to 65535"));
    host.port = *number;
  }
  while (words >> word) {
    if (!word.starts_with("slots=") || has_slots)
      return fail(ErrorKind::invalid,
                  cat(host.where, ": ", shortened(word), ": expected HOST slots=N, and nothing behind it"));
    const auto slots = count_from(std::string_view(word).substr(6), kMostSlots);
    if (!slots)
      return fail(ErrorKind::invalid, cat(host.where, ": ", shortened(word), ": must be from 1 to ", kMostSlots));
    host.slots = *slots;
    has_slots = true;
  }
  return {};
}

/// Adds a host to those that are there.
class Hosts {
 public:
  Status add(Host host) {
    std::string key = host.name;
    for (char& c : key) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (const auto [first, fresh] = first_.emplace(key, host.where); !fresh)
      return fail(ErrorKind::invalid, cat(host.where, ": ", host.name, " is there already (", first->second,
                                          "): name a host once, with all its slots"));
    slots_ += host.slots;
    if (slots_ > kMostSlots)
      return fail(ErrorKind::invalid,
                  cat(host.where, ": with this host there are ", slots_, " slots, more than ", kMostSlots));
    all_.push_back(std::move(host));
    return {};
  }
  Result<std::vector<Host>> take(const std::string& where) && {
    if (all_.empty()) return fail(ErrorKind::invalid, cat(where, ": names no host; a line is HOST slots=N"));
    return std::move(all_);
  }

 private:
  std::vector<Host> all_;
  std::map<std::string, std::string> first_;
  int64_t slots_ = 0;
};

}  // namespace

Result<std::vector<Host>> parse_hostfile(std::string_view text, const std::string& name) {
  Hosts hosts;
  for (int64_t number = 1; !text.empty(); ++number) {
    const auto end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    line = line.substr(0, line.find('#'));
    if (line.ends_with('\r')) line.remove_suffix(1);
    line = trimmed(line);
    if (line.empty()) continue;
    Host host;
    host.where = cat(name, ":", number);
    TROUPE_TRY(take_line(line, host));
    TROUPE_TRY(hosts.add(std::move(host)));
  }
  return std::move(hosts).take(name);
}

Result<std::vector<Host>> read_hostfile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMostFileBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad()) return fail(ErrorKind::missing, cat("--hosts ", path, ": cannot be read"));
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kMostFileBytes)
    return fail(ErrorKind::invalid,
                cat("--hosts ", path, ": is larger than ", kMostFileBytes, " bytes, and no hostfile"));
  return parse_hostfile(text, path);
}

Result<std::vector<Host>> parse_host_list(std::string_view text) {
  Hosts hosts;
  for (bool more = true; more;) {
    const auto comma = text.find(',');
    const std::string_view entry = trimmed(text.substr(0, comma));
    more = comma != std::string_view::npos;
    if (more) text.remove_prefix(comma + 1);
    Host host;
    host.where = "-H";
    std::string_view number;
    bool has_number = false;
    TROUPE_TRY(take_destination(entry, host, number, has_number));
    if (has_number) {
      const auto slots = count_from(number, kMostSlots);
      if (!slots)
        return fail(ErrorKind::invalid,
                    cat("-H: ", shortened(entry), ": the number of slots must be from 1 to ", kMostSlots));
      host.slots = *slots;
    }
    TROUPE_TRY(hosts.add(std::move(host)));
  }
  return std::move(hosts).take("-H");
}

}  // namespace troupe::launch
