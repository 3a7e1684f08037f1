#pragma once
#include <functional>
#include <memory>
#include <string>

namespace troupe {

/// Where long work runs so that actors never block: tasks run one after the other in the order submitted,
/// like a CUDA stream. A task reports by calling what it captured (for an actor: by sending it a message).
/// `submit` is thread-safe and returns at once. The destructor finishes the running task, drops the rest.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual void submit(std::function<void()> task) = 0;
  /// For work that others may do instead: begun only when no task of `submit` waits. Where a queue does not tell the
  /// two apart, in turn with them.
  virtual void submit_idle(std::function<void()> task) { submit(std::move(task)); }
};

/// An in-order queue with one thread of its own, named `name` (15 characters show in `top`). `threads` is how
/// many threads a kernel called from it may use; 1 where several queues share the cores, because OpenMP pools
/// that outnumber the cores spin against each other. A task must not throw.
std::unique_ptr<Executor> make_cpu_queue(std::string name, int threads = 1);

}  // namespace troupe
