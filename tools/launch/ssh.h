#pragma once
#include <string>
#include <vector>

#include <troupe/kernels/base/result.h>

#include "child.h"
#include "hostfile.h"
#include "incident.h"

namespace troupe::launch {

/// How the user's own ssh is called.
struct SshOptions {
  std::vector<std::string> program = {"ssh"};  ///< with options of the user's: {"ssh", "-F", "file"}
  Moment connect_timeout{60000};
  std::string folder;  ///< working directory there; must exist
};

///     ssh ... HOST 'sh -c "cd FOLDER || exit 2; echo troupe-process $$; exec ARGV..."; exit $?'
///
/// with quotes where they belong and the outer shell's own words left out. No questions are asked; the connection is
/// one of its own, given up after 6 s without a sign of life. The login shell there must read what POSIX shells read.
/// The standard input stays open as long as the launcher lives: it is the death pipe, so `argv` has `--death-fd 0`.
Command over_ssh(const SshOptions& options, const Host& host, const std::vector<std::string>& argv);

/// How the process there ended, when the command above ended so: the shell tells of signals as 128 + number. 255 is of
/// ssh itself: no connection, or none any more.
Ending remote_ending(const Ending& of_ssh);

/// The name or address that ssh connects to for this host (`ssh -G`): the HostName of its config, where it has one.
Result<std::string> address_behind(const SshOptions& options, const Host& host);

}  // namespace troupe::launch
