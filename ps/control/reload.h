#pragma once
#include <memory>
#include <string>
#include <vector>

#include <troupe/ps/messages.h>

namespace troupe::ps {

/// The coordinator wants to know what the newest checkpoint says of a server's slices: one was lost whose store keeps
/// nothing (`durability = "checkpoint"`), and another goes on from there.
struct ReloadRequest {
  Endpoint server;                       ///< the one to come
  std::shared_ptr<const Layout> layout;  ///< slices of which it holds some
};

/// The answer. Checkpoints that were under way when it was asked for have been written, or given up.
struct Reload {
  std::string folder;                    ///< of the checkpoint; empty: there is none, these are the first parameters
  Step step = 0;                         ///< that it is the input of
  /// The server's, ascending. Without tensors where they were left out: what is decided does not depend on them.
  std::vector<SliceState> slices;
};

}  // namespace troupe::ps
