#pragma once
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <troupe/ps/checkpoint/update_log.h>
#include <troupe/ps/param/shard_store.h>

namespace troupe::ps {

/// Envelopes as bytes and back: wire::pack and wire::unpack, with the run's id.
struct EnvelopeCodec {
  std::function<std::vector<std::byte>(const Envelope&)> pack;
  std::function<Result<Envelope>(std::span<const std::byte>)> unpack;
};

/// durability = "logged": every event is a record of an UpdateLog, a shard's image is its image. Needs a commit after
/// appends, which also writes the image where one was asked for. An object is one actor's and is opened once; what
/// actors of a slot share is the folder, also from one process to the next. `open`, `append` and `compact` on one
/// thread.
std::shared_ptr<ShardStore> make_logged_store(std::shared_ptr<FileOps> files, UpdateLogOptions options,
                                              EnvelopeCodec codec);

}  // namespace troupe::ps
