#pragma once
#include <cstdint>

namespace troupe {

/// How products of f32 matrices may be rounded on a device whose fast units take less: f32 not at all, tf32 keeps 10
/// bits of the factors' fractions, bf16 keeps 7. Sums are f32 in all of them. The CPU always computes in f32.
enum class MatmulPrecision : uint8_t { f32, tf32, bf16 };

}  // namespace troupe
