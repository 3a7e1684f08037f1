#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <source_location>
#include <stdexcept>
#include <string>

/// Runs a CUDA kernel on the CPU: blocks one after the other, the threads of a block as fibers on one operating system
/// thread. Which block comes next, and which of the threads that can go on, is drawn from a seed, so that a kernel that
/// only works in one order gives a wrong answer under some seed. All memory is coherent here: what a device may reorder
/// between blocks is not found, nor how fast anything is.
namespace troupe::test::cuda {

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr Dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
  unsigned count() const { return x * y * z; }
};

struct Grid {
  const char* kernel = "";
  Dim3 blocks, threads;
  size_t dynamic_shared_bytes = 0;
};

/// What a device would hang on, crash on, or leave undefined. The text names kernel, block and thread.
class KernelFault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Runs `thread` once for each thread of the grid. KernelFault as above; what `thread` throws comes out as it is.
/// Not to be called inside a kernel, nor on two operating system threads at once.
void run_grid(const Grid& grid, uint64_t seed, const std::function<void()>& thread);

/// The position of the running thread, as kernels see it.
struct Position {
  Dim3 thread, block, threads, blocks;
};
extern Position here;

using Site = std::source_location;

// What kernels call, through the names that CUDA gives it (intrinsics.h).

/// Returns when all threads of the block have called it from the same place.
void wait_for_block(const Site& site);

enum class WarpCall { sync, shuffle, ballot, match };

/// Returns when all lanes of `mask` have made the same call from the same place:
///   shuffle  what lane `source` offered, or 0xFF in all bytes when it is not in the mask
///   ballot   the lanes of the mask that offered something else than 0
///   match    the lanes of the mask that offered the same as this one
uint64_t call_warp(WarpCall call, unsigned mask, uint64_t offer, int source, const Site& site);

/// Shared memory of the running block: the same for the same key. Filled with 0xFF before each block.
void* shared_memory(const void* key, size_t bytes);
/// Lets other threads go first, or not, as the seed says.
void maybe_interrupt();
/// Exactly as many bytes as the launch asked for.
void* dynamic_shared_memory();

[[noreturn]] void trap(const Site& site);

}  // namespace troupe::test::cuda
