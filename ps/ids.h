#pragma once
#include <compare>
#include <cstdint>
#include <ostream>

namespace troupe::ps {

using WorkerId = uint32_t;     ///< 0..workers-1: a slot, whoever fills it
using ServerId = uint32_t;     ///< 0..servers-1
using LayerId = uint32_t;      ///< index into Layout::layers
using SliceId = uint32_t;      ///< index into Layout::slices
using ParcelId = uint32_t;     ///< index into Layout::parcels
using Step = int64_t;          ///< one training iteration, from 0
using Sequence = uint64_t;     ///< numbers a worker's pushes to one server, from 1
using Generation = uint64_t;   ///< membership number; whoever has an older one is fenced out
using Incarnation = uint32_t;  ///< tells an actor from its predecessor in the same slot, from 1

enum class Role : uint8_t {
  coordinator,
  node,
  worker,
  server,
  replica,  ///< of the server with the same index
  client,   ///< a tool that asks: `troupe status`
};

/// Who sends or receives: one actor, not the slot it fills. A message to incarnation 1 of server 0 never
/// reaches incarnation 2.
struct Endpoint {
  Role role = Role::coordinator;
  uint32_t index = 0;
  Incarnation incarnation = 1;
  auto operator<=>(const Endpoint&) const = default;
};

inline const char* name_of(Role role) {
  switch (role) {
    case Role::coordinator: return "coordinator";
    case Role::node: return "node";
    case Role::worker: return "worker";
    case Role::server: return "server";
    case Role::replica: return "replica of server";
    case Role::client: return "client";
  }
  return "?";
}

/// "worker 2", "server 0 (incarnation 3)".
inline std::ostream& operator<<(std::ostream& out, const Endpoint& e) {
  out << name_of(e.role) << ' ' << e.index;
  if (e.incarnation > 1) out << " (incarnation " << e.incarnation << ')';
  return out;
}

}  // namespace troupe::ps
