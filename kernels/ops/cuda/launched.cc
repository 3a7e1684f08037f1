#include <troupe/kernels/ops/cuda/launch.h>
#include <troupe/kernels/tensor/cuda/cuda_stream.h>

// The two functions that launches rest on, for the streams of a device that is there.

namespace troupe::ops::cuda {

cudaStream_t stream_of(Stream& stream) { return troupe::cuda::cuda_stream(stream).handle(); }

void launched(Stream& stream, const char* kernel) { troupe::cuda::cuda_stream(stream).launched(kernel); }

}  // namespace troupe::ops::cuda
