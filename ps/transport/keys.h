#pragma once
#include <map>
#include <optional>
#include <string>

#include <troupe/kernels/base/result.h>
#include <troupe/ps/ids.h>

/// The keys of a run: who may connect, and as what. A folder holds
///
///     public.keys        every key that may connect, one a line: ROLE PUBLIC
///     coordinator.key    role, public and secret part of one pair; mode 0600
///     node.key
///     client.key
///
/// A process needs public.keys and the .key of its role alone, so that whoever may only ask gets client.key and nothing
/// else. Keys are CurveZMQ's (Curve25519), written in Z85. More lines in public.keys let in more pairs.
namespace troupe::ps {

enum class KeyRole : uint8_t {
  coordinator,  ///< speaks for anybody
  node,         ///< speaks for nodes, workers, servers, replicas and clients
  client,       ///< speaks for clients: `troupe status`, `troupe stop`
};
const char* name_of(KeyRole role);
std::optional<KeyRole> key_role_named(const std::string& name);

/// Whether a process that holds a key of this role may send as an endpoint of that one.
bool may_speak_for(KeyRole key, Role endpoint);

/// What one process holds.
struct Keys {
  KeyRole role = KeyRole::node;
  std::string public_key, secret_key;      ///< 40 characters of Z85 each
  std::map<std::string, KeyRole> allowed;  ///< by public key; its own is among them

  /// The key that whoever joins expects the coordinator to have; the first, where there are several.
  std::string coordinator() const;
};

/// Makes the four files, and the folder where it is not there (mode 0700). Overwrites nothing.
Status make_keys(const std::string& folder);

/// Fails where a file is missing, damaged, or where others could read the secret or change the list; the text says
/// what to do.
Result<Keys> load_keys(const std::string& folder, KeyRole role);

}  // namespace troupe::ps
