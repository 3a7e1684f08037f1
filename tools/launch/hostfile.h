#pragma once
#include <string>
#include <string_view>
#include <vector>

#include <troupe/kernels/base/result.h>

namespace troupe::launch {

/// A machine that ssh reaches, and how many nodes of a run it takes.
struct Host {
  std::string user;  ///< empty: ssh's own choice
  std::string name;  ///< host name, alias of the ssh config, or address; IPv6 without brackets
  int port = 0;      ///< of its sshd; 0: ssh's own choice
  int slots = 1;
  std::string where;  ///< "hosts.txt:3"

  /// What ssh takes as its destination: "ada@node1".
  std::string destination() const { return user.empty() ? name : user + '@' + name; }
};

inline constexpr int kMostSlots = 65536;  ///< of one host, and of all together

/// A hostfile: one host a line, with `#` comments.
///
///     node1 slots=4
///     ada@node2:2222 slots=2      user and port of its sshd
///     fd00::7                     one slot
///     [fd00::8]:2222 slots=2
///
/// Fails with "NAME:LINE: ..." at the first mistake: a host that comes twice (same name, whatever the user or port), a
/// bad count, a name that no host can have; and where there is no host at all. Bounded by the size of `text`.
Result<std::vector<Host>> parse_hostfile(std::string_view text, const std::string& name);
Result<std::vector<Host>> read_hostfile(const std::string& path);

/// The short form of -H: "a:2,ada@b,[fd00::7]:4". The number is of slots; a port needs a hostfile or the ssh config.
Result<std::vector<Host>> parse_host_list(std::string_view text);

}  // namespace troupe::launch
