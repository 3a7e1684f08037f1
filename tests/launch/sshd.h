#pragma once
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include <tools/launch/child.h>
#include <tools/launch/hostfile.h>

#include "lab.h"

namespace troupe::launch::test {

/// A listening socket on the loopback that nobody serves: whoever connects waits.
class SilentPort {
 public:
  SilentPort() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    ::bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), size);
    ::listen(socket_.get(), 8);
    ::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
  }
  int port() const { return port_; }

 private:
  FileDescriptor socket_;
  int port_ = 0;
};

/// A real sshd on the loopback that lets this user in with a key made here, and an ssh config in which "alpha" and
/// "beta" are this machine, "closed" a port where nobody listens and "silent" one where nobody answers.
class Sshd {
 public:
  static bool available() {
    return ::access("/usr/sbin/sshd", X_OK) == 0 && ::access("/usr/bin/ssh-keygen", X_OK) == 0;
  }

  explicit Sshd(const troupe::test::TempFolder& folder) : folder_(folder) {
    for (const char* key : {"host_key", "id"})
      command({"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key});
    folder.write("authorized_keys", folder.read("id.pub"));
    folder.write("known_hosts", "lab " + folder.read("host_key.pub"));
    ::mkdir("/run/sshd", 0755);  // as Debian's service does before it starts one
    for (int attempt = 0; attempt < 5 && !runs_; ++attempt) {
      const int free = SilentPort().port();  // gone again
      start(free);
    }
    write_client_config();
  }
  ~Sshd() {
    if (!server_) return;
    server_->signal(SIGKILL);
    server_->reap();
  }

  bool runs() const { return runs_; }
  std::vector<std::string> ssh() const { return {"ssh", "-F", folder_ / "ssh_config"}; }

 private:
  static void command(const Words& argv) {
    auto child = Child::start({.argv = argv});
    TROUPE_CHECK(child.has_value(), argv.front());
    TROUPE_CHECK(ending_of(*child).ok(), argv.front());
  }

  /// The port was free a moment ago.
  void start(int port) {
    port_ = port;
    folder_.write("sshd_config", "ListenAddress 127.0.0.1\nPort " + std::to_string(port) + "\nHostKey " +
                                     (folder_ / "host_key") + "\nAuthorizedKeysFile " + (folder_ / "authorized_keys") +
                                     "\nStrictModes no\nUsePAM no\nPidFile none\nPasswordAuthentication no\n"
                                     "PermitRootLogin prohibit-password\nMaxStartups 100\n");
    auto child = Child::start({.argv = {"/usr/sbin/sshd", "-D", "-e", "-f", folder_ / "sshd_config"}});
    if (!child) return;
    std::string said;
    runs_ = Lab::eventually([&] {
              char text[512];
              const ssize_t n = ::read(child->stderr_fd(), text, sizeof text);
              if (n > 0) said.append(text, static_cast<size_t>(n));
              return n == 0 || said.find("listening on") != std::string::npos;
            }) &&
            said.find("listening on") != std::string::npos;
    if (runs_) {
      server_.emplace(std::move(*child));
    } else {
      child->signal(SIGKILL);
      child->reap();
    }
  }

  void write_client_config() const {
    const int closed = SilentPort().port();
    folder_.write("ssh_config", "Host closed\n  Port " + std::to_string(closed) + "\nHost silent\n  Port " +
                                    std::to_string(silent_.port()) + "\nHost *\n  HostName 127.0.0.1\n  Port " +
                                    std::to_string(port_) +
                                    "\n  HostKeyAlias lab\n  IdentitiesOnly yes\n  IdentityFile " + (folder_ / "id") +
                                    "\n  UserKnownHostsFile " + (folder_ / "known_hosts") +
                                    "\n  GlobalKnownHostsFile /dev/null\n  StrictHostKeyChecking yes\n");
  }

  const troupe::test::TempFolder& folder_;
  SilentPort silent_;
  std::optional<Child> server_;
  int port_ = 0;
  bool runs_ = false;
};

}  // namespace troupe::launch::test
