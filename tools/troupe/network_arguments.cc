#include "network_arguments.h"

#include <tools/launch/death_pipe.h>

#include <random>

#include <troupe/ps/config/setting.h>

using namespace troupe;

void add_network_arguments(CLI::App& command, NetworkArguments& arguments, bool listens) {
  if (listens) {
    command
        .add_option("--listen", arguments.listen,
                    "Where peers connect to: HOST:PORT, [IPV6]:PORT, *:PORT for all interfaces, ipc:///PATH;\n"
                    "port 0 takes a free one. Other than loopback it needs --keys")
        ->type_name("ADDRESS");
    command
        .add_option("--advertise", arguments.advertise,
                    "HOST or HOST:PORT that peers are told instead, where they reach this process by another")
        ->type_name("ADDRESS");
    command
        .add_option("--death-fd", arguments.death_fd,
                    "For launchers: a pipe's read end. When it closes this process drains, and ends within 5 s")
        ->type_name("N");
  }
  command.add_option("--keys", arguments.keys, "Folder with the run's keys, made by troupe keys")->type_name("DIR");
  command.add_flag("--insecure-network", arguments.insecure,
                   "Do without keys on a network: whoever reaches it may read and change the model");
}

Result<ps::NetworkOptions> network_options(const NetworkArguments& arguments, const std::string& role,
                                           const ps::NetworkSection& limits) {
  ps::NetworkOptions options;
  options.listen = full_address(arguments.listen);
  options.advertise = arguments.advertise;
  options.insecure_network = arguments.insecure;
  options.queue_bytes = static_cast<size_t>(limits.queue_bytes);
  options.max_message_bytes = static_cast<size_t>(limits.max_message_bytes);
  options.shared_memory = limits.shared_memory;
  options.shared_bytes = options.queue_bytes;  // what finds no room there waits for a socket, behind the rest
  if (arguments.keys.empty()) return options;
  auto keys = ps::load_keys(arguments.keys, *ps::key_role_named(role));
  if (!keys) return tl::unexpected<Error>(keys.error());
  options.keys = std::make_shared<const ps::Keys>(std::move(*keys));
  return options;
}

std::vector<std::string> transport_settings(const ps::NetworkSection& network) {
  ps::RunConfig config, defaults;
  config.network = network;
  std::vector<std::string> settings;
  for (const char* key : {"network.shared_memory", "network.max_message_bytes", "network.queue_bytes"}) {
    const ps::Setting& setting = *ps::find_setting(key);
    const std::string value = ps::value_text(setting, config);
    if (value != ps::value_text(setting, defaults)) settings.push_back(cat(key, "=", value));
  }
  return settings;
}

Status tie_to_launcher(const NetworkArguments& arguments) {
  return arguments.death_fd < 0 ? Status() : launch::end_when_closed(arguments.death_fd);
}

std::string full_address(const std::string& address) {
  return address.empty() || address.find("://") != std::string::npos ? address : "tcp://" + address;
}

std::string describe(const ps::Refusal& refusal) {
  return cat("refused ", refusal.peer, ": ", ps::name_of(refusal.reason),
             refusal.detail.empty() ? "" : " (" + refusal.detail + ")");
}

uint64_t random_number() {
  std::random_device device;
  const uint64_t number = (uint64_t{device()} << 32) | device();
  return number == 0 ? 1 : number;
}
