#pragma once
#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include <troupe/kernels/base/result.h>
#include <troupe/ps/config/run_config.h>
#include <troupe/ps/transport/network_transport.h>

/// How a process is on the network, as all commands that are take it.
struct NetworkArguments {
  std::string listen;
  std::string advertise;
  std::string keys;  ///< folder; empty: none
  bool insecure = false;
  int death_fd = -1;  ///< read end of a launcher's death pipe; -1: nobody's
};
/// --listen, --advertise, --death-fd, --keys and --insecure-network. `listens` false: only the last two.
void add_network_arguments(CLI::App& command, NetworkArguments& arguments, bool listens = true);

/// With the keys of `role` ("coordinator", "node", "client") and the limits of `[network]`; callbacks and `home` are
/// the caller's to fill in.
troupe::Result<troupe::ps::NetworkOptions> network_options(const NetworkArguments& arguments, const std::string& role,
                                                           const troupe::ps::NetworkSection& limits);

/// What of `[network]` a process opens its transport with, as --set takes it: what is not the default.
std::vector<std::string> transport_settings(const troupe::ps::NetworkSection& network);

/// From now on this process ends when its launcher does, if it has one.
troupe::Status tie_to_launcher(const NetworkArguments& arguments);

/// "tcp://HOST:PORT" of "HOST:PORT"; other addresses as they are.
std::string full_address(const std::string& address);

/// "refused 10.0.0.9: unknown key (...)".
std::string describe(const troupe::ps::Refusal& refusal);

/// Random; not 0.
uint64_t random_number();
