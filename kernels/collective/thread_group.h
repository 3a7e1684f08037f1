#pragma once
#include <memory>
#include <vector>

#include <troupe/kernels/collective/communicator.h>

namespace troupe {

/// `size` >= 1 communicators, one a rank, for threads of this process. They read and write each other's
/// tensors in place: an all_reduce of n bytes costs two barriers, and each rank reads its 1/size of all
/// ranks' inputs and writes it to all outputs (2 n bytes moved by a rank, nothing staged). Up to 8 KB it costs one
/// barrier: each rank adds up copies of all inputs.
///
/// A waiting rank spins for a few microseconds, up to 50 more where that has paid before (Lookout), and then sleeps:
/// ranks may outnumber cores.
std::vector<std::unique_ptr<Communicator>> make_thread_group(int size);

}  // namespace troupe
