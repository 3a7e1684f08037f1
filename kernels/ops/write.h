#pragma once
#include <cstdint>

namespace troupe::ops {

/// What an op does with the old contents of a gradient: `set` never reads them, `add` adds to them (several
/// micro-batches make one gradient).
enum class Write : uint8_t { set, add };

/// What an op does to each value of its result before it stores it, without a pass of its own.
/// What these functions are stands in ActivationOps.
enum class Epilogue : uint8_t { none, relu, gelu, gelu_tanh };

}  // namespace troupe::ops
