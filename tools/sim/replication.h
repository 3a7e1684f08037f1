#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace troupe::sim {

struct ReplicationResult {
  uint64_t hash = 0;  ///< over all messages delivered, in order
  int64_t events = 0, takeovers = 0;
  std::optional<std::string> violation;  ///< "rule: what, with values"
  std::string trace;                     ///< the last events, a line each; only if asked for
};

/// One server, its replica and the workers that push to it (ServerCore, ReplicaCore and a shard with its real store;
/// no CAF), over a network that loses, doubles and delays, while the seed kills the server, kills the replica, or
/// gives up a server that lives on. A coordinator of a few lines names the replica the next server, and later another
/// replica. Rules:
///
///   durable      what a worker was told is stored is in the shard that takes over, whoever said it and when
///   exactly-once in the end the parameters are the sum of all gradients: each is in it once
///   end          the run ends in time
///
/// A pure function of the seed. `trace`: how many of the last events to keep as text.
ReplicationResult simulate_replication(uint64_t seed, size_t trace = 0);

}  // namespace troupe::sim
