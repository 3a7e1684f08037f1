#pragma once
#include <memory>

#include <troupe/kernels/tensor/internal/block_cache.h>

namespace troupe::cuda {

/// Memory of CUDA device `device`.
std::shared_ptr<BlockSource> make_device_memory(int device);
/// Pinned memory of the host, which every device reads and writes by itself. Never from pages that the CPU may move.
std::shared_ptr<BlockSource> make_pinned_memory();

/// Whether copies from and to `data` need no staging: it is pinned.
bool is_pinned(const void* data);

}  // namespace troupe::cuda
