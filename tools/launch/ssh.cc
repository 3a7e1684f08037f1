#include "ssh.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include <troupe/kernels/base/text.h>

#include "shell_quote.h"
#include "supervisor.h"

namespace troupe::launch {
namespace {

std::vector<std::string> with_destination(std::vector<std::string> words, const Host& host) {
  if (host.port != 0) words.insert(words.end(), {"-p", std::to_string(host.port)});
  words.insert(words.end(), {"--", host.destination()});
  return words;
}

/// What a command writes to its standard output, if it ends with 0.
Result<std::string> output_of(const std::vector<std::string>& argv) {
  auto child = Child::start({.argv = argv, .death_fd = 0});
  if (!child) return tl::unexpected(child.error());
  for (int fd : {child->stdout_fd(), child->stderr_fd()}) ::fcntl(fd, F_SETFL, 0);
  std::string out, err;
  char buffer[4096];
  for (ssize_t n; (n = ::read(child->stdout_fd(), buffer, sizeof buffer)) > 0;)
    out.append(buffer, static_cast<size_t>(n));
  for (ssize_t n; (n = ::read(child->stderr_fd(), buffer, sizeof buffer)) > 0;)
    err.append(buffer, static_cast<size_t>(n));
  pollfd ended{child->ended_fd(), POLLIN, 0};
  ::poll(&ended, 1, -1);
  const Ending ending = child->reap();
  if (!ending.ok())
    return fail(ErrorKind::missing,
                cat(shell_quoted(argv), ": ", text_of(ending), ": ", err.substr(0, err.find('\n'))));
  return out;
}

}  // namespace

Command over_ssh(const SshOptions& options, const Host& host, const std::vector<std::string>& argv) {
  std::vector<std::string> words = options.program;
  const auto seconds = std::max<int64_t>(1, options.connect_timeout.count() / 1000);
  for (const std::string& option :
       {std::string("BatchMode=yes"), cat("ConnectTimeout=", seconds), std::string("ServerAliveInterval=2"),
        std::string("ServerAliveCountMax=3"), std::string("ControlPath=none")})
    words.insert(words.end(), {"-o", option});
  words.push_back("-T");
  words = with_destination(std::move(words), host);
  const std::string inner =
      cat("cd ", shell_quoted(options.folder), " || exit 2; echo ", kPidMarker, "$$; exec ", shell_quoted(argv));
  // The outer shell stays, to tell of a signal, which ssh would not; what it says of that itself is left out.
  words.push_back(cat("exec 3>&2 2>/dev/null; sh -c ", shell_quoted(inner), " 2>&3 3>&-; exit $?"));
  return {.argv = std::move(words), .death_fd = 0};
}

Ending remote_ending(const Ending& of_ssh) {
  const bool signal = !of_ssh.by_signal && of_ssh.code > 128 && of_ssh.code <= 128 + 64;
  return signal ? Ending{true, of_ssh.code - 128} : of_ssh;
}

Result<std::string> address_behind(const SshOptions& options, const Host& host) {
  std::vector<std::string> words = options.program;
  words.push_back("-G");
  const auto config = output_of(with_destination(std::move(words), host));
  if (!config) return tl::unexpected(config.error());
  std::istringstream lines(*config);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("hostname ")) return line.substr(9);
  return host.name;
}

}  // namespace troupe::launch
