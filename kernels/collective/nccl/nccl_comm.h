#pragma once
#include <nccl.h>

#include <atomic>
#include <functional>
#include <string>

#include <troupe/kernels/base/result.h>
#include <troupe/kernels/tensor/cuda/cuda_stream.h>

namespace troupe {

/// One rank's end in NCCL and the stream that its calls run on. NCCL's functions return at once here ("non-blocking"),
/// so that whoever waits also looks for errors of peers and for an abort. One thread at a time.
class NcclComm {
 public:
  /// Asked while waiting; why the wait is to end, empty: it goes on.
  using Aborted = std::function<std::string()>;

  /// Takes over a communicator that is ready.
  NcclComm(ncclComm_t comm, std::unique_ptr<cuda::CudaStream> stream) : comm_(comm), stream_(std::move(stream)) {}
  /// Leaves: with what was submitted done and after nothing failed as NCCL wants it, else by ncclCommAbort.
  ~NcclComm();

  cuda::CudaStream& stream() { return *stream_; }

  /// Submits by `submit`, waits until the device has done it. After a failure every call fails. A peer that is gone, or
  /// cannot be reached, is `missing`.
  Status run(const char* name, const std::function<ncclResult_t(ncclComm_t, cudaStream_t)>& submit,
             const Aborted& aborted);

 private:
  Status submitted(const char* name, ncclResult_t result, const Aborted& aborted);
  Status done(const char* name, const Aborted& aborted);
  /// Ends what runs on the device; the communicator is gone.
  tl::unexpected<Error> end(ErrorKind kind, std::string why);

  ncclComm_t comm_;
  std::unique_ptr<cuda::CudaStream> stream_;
  cuda::Event passed_;
  std::string ended_;  ///< why; empty while it can be used
};

/// Waits until `comm` is no longer in progress. `aborted` ends it with `cancelled`; a peer that is gone is `missing`.
Status settle(ncclComm_t comm, const char* what, const NcclComm::Aborted& aborted);
/// "ncclRemoteError: ... (last error)".
std::string describe(ncclResult_t result, ncclComm_t comm);

}  // namespace troupe
