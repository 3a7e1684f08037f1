#pragma once
#include <utility>

#include <troupe/kernels/nn/gradient_source.h>
#include <troupe/kernels/ops/ops.h>
#include <troupe/kernels/tensor/stream.h>

namespace troupe {

/// The sum of squares that clipping wants (only if asked for; statistics are no part of it), and whether all elements
/// are finite. The gradient is complete, and lies where `stream` and `ops` work; waits for the stream, and throws what
/// failed on the device. On a thread for computing.
std::pair<double, bool> measure(Stream& stream, const ops::Ops& ops, const LayerSpec& layer, const Tensor& gradient,
                                bool norm);

}  // namespace troupe
