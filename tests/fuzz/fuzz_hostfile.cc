#include <tools/launch/hostfile.h>

#include <set>

#include <tests/fuzz/contract.h>

using namespace troupe;
using namespace troupe::launch;

namespace {

/// What a list of hosts promises to whoever calls ssh with it.
void promise_usable(const std::vector<Host>& hosts) {
  TROUPE_CHECK(!hosts.empty());
  int64_t slots = 0;
  std::set<std::string> names;
  for (const Host& host : hosts) {
    slots += host.slots;
    TROUPE_CHECK(host.slots >= 1 && host.port >= 0 && host.port <= 65535, host.slots, ' ', host.port);
    TROUPE_CHECK(names.insert(host.name).second, "twice: ", host.name);
    const std::string destination = host.destination();
    TROUPE_CHECK(!destination.empty() && destination.front() != '-', destination);
    TROUPE_CHECK(destination.find_first_of(std::string(" \t\r\n'\"\\;&|<>$`()*?[]/#!\0", 23)) == std::string::npos,
                 destination);
  }
  TROUPE_CHECK(slots <= kMostSlots, slots);
}

}  // namespace

/// The same bytes as a hostfile and as -H: each is hosts that ssh can be given, or an error that says where.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  const auto file = parse_hostfile(text, "hosts.txt");
  if (file) promise_usable(*file);
  if (!file) fuzz::promise_named(file.error(), "hosts.txt");
  const auto list = parse_host_list(text);
  if (list) promise_usable(*list);
  if (!list) fuzz::promise_named(list.error(), "-H");
  return 0;
}
