#pragma once
#include <utility>

#include <troupe/kernels/nn/gradient_source.h>
#include <troupe/kernels/tensor/stream.h>

namespace troupe {

/// The sum of squares that clipping wants (only if asked for; statistics are no part of it), and whether all
/// elements are finite. On a compute thread.
std::pair<double, bool> measure(Stream& stream, const LayerSpec& layer, const Tensor& gradient, bool norm);

}  // namespace troupe
