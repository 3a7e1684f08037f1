#pragma once
#include <memory>

#include <troupe/ps/param/shard_store.h>

#include "oracle.h"

namespace troupe::sim {

/// Tells the oracle what a server's store takes.
std::shared_ptr<ps::ShardStore> make_watched_store(ps::ServerId server, std::shared_ptr<ps::ShardStore> store,
                                                   Oracle& oracle);

}  // namespace troupe::sim
