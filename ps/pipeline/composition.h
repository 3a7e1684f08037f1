#pragma once
#include <cstdint>
#include <string>

namespace troupe::ps {

/// Which activations are made again in the backward pass instead of kept.
enum class Recompute : uint8_t { none, selective /* those of attention */, full /* all within a layer */ };

/// How a step is spread over devices: replicas x stages x tensor.
struct Composition {
  uint32_t replicas = 1, stages = 1;
  uint32_t tensor = 1;  ///< devices that share every matrix product
  uint32_t chunks = 1;  ///< of the model, a stage
  std::string schedule = "1f1b";
  int64_t micro_batch = 1;     ///< samples
  uint32_t micro_batches = 1;  ///< a step, of each replica
  uint32_t zero = 0;           ///< 1: optimizer state, 2: gradients too, 3: parameters too are sharded among replicas
  Recompute recompute = Recompute::none;
  bool sequence_parallel = false;  ///< the tensor group shares what it would otherwise all hold

  uint64_t devices() const { return uint64_t{replicas} * stages * tensor; }
};

/// "16 x 8 x 8, interleaved with 2 chunks, 128 micro-batches of 1, full recomputation, ZeRO-1"
std::string composition_text(const Composition& composition);

}  // namespace troupe::ps
