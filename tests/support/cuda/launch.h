#pragma once
#include <tests/support/cuda/emulated_stream.h>
#include <tests/support/cuda/shared_array.h>

/// The macros of kernels/ops/cuda/launch.h as the emulation has them.

namespace troupe::test::cuda {

template <class Kernel, class... Args>
void launch(const char* name, Stream& stream, Dim3 blocks, Dim3 threads, size_t shared_bytes, Kernel kernel,
            const Args... args) {
  dynamic_cast<EmulatedStream&>(stream).run({name, blocks, threads, shared_bytes}, [&] { kernel(args...); });
}

}  // namespace troupe::test::cuda

#define TROUPE_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)      \
  ::troupe::test::cuda::launch(#kernel, stream, grid, block, shared_bytes, \
                               [=](const auto&... args) { (kernel)(args...); } __VA_OPT__(, ) __VA_ARGS__)

#define TROUPE_SHARED(type, name, count) const auto name = ::troupe::test::cuda::shared_array<type>(count, [] {})

#define TROUPE_DYNAMIC_SHARED(type, name) \
  const ::troupe::test::cuda::SharedArray<type> name(::troupe::test::cuda::dynamic_shared_memory())
