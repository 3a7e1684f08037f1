#pragma once
#include <caf/all.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <troupe/ps/param/layout.h>
#include <troupe/ps/transport/network_transport.h>

/// A server actor in a process of its own, and the worker actor here that pushes to it and pulls from it: what a step's
/// traffic costs between processes.
class BenchPeer {
 public:
  enum class Operation : uint8_t { push, pull, push_pull };

  struct Options {
    std::string listen = "tcp://127.0.0.1:0";  ///< of both processes; an ipc address gets a number behind it
    bool shared_memory = true;
    size_t layers = 1;         ///< so many operations are under way at once, one a layer
    int64_t elements = 1024;   ///< floats a layer
    int64_t slice_bytes = troupe::ps::LayoutOptions{}.slice_bytes;  ///< layers are cut as those of a run are
    /// More than 0: each layer is a table of rows of so many floats, and an operation is on `rows` random ones, of
    /// several sets in turn.
    int64_t width = 0;
    int64_t rows = 0;
  };
  /// Starts the other process. Throws std::runtime_error where it does not come up.
  explicit BenchPeer(Options options);
  ~BenchPeer();

  /// Seconds that `count` operations took, `layers` at a time. A push is done when it is acknowledged (applied, with plain
  /// SGD, under async), a pull when the parameters are here, a push_pull when both are.
  double run(Operation operation, int64_t count);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The other process: a server actor that listens as `options` say, tells its address on standard output, and ends
/// when its standard input does.
int serve_bench(const BenchPeer::Options& options);
