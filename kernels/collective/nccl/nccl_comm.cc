#include <troupe/kernels/collective/nccl/nccl_comm.h>

#include <chrono>
#include <thread>

#include <troupe/kernels/tensor/cuda/cuda_error.h>
#include <troupe/kernels/tensor/cuda/devices.h>

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPatienceToLeave = std::chrono::seconds(2);

// Small collectives take microseconds, large ones milliseconds: look often at first, then leave the core to others.
class Pauses {
 public:
  void pause() {
    if (Clock::now() - begin_ < std::chrono::microseconds(200))
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  bool longer_than(Clock::duration time) const { return Clock::now() - begin_ > time; }

 private:
  Clock::time_point begin_ = Clock::now();
};

// A peer that is gone, or the way to it: who is left cannot know which.
ErrorKind kind_of(ncclResult_t error) {
  return error == ncclRemoteError || error == ncclSystemError ? ErrorKind::missing : ErrorKind::failed;
}

}  // namespace

std::string describe(ncclResult_t result, ncclComm_t comm) {
  const char* last = ncclGetLastError(comm);
  return cat(ncclGetErrorString(result), last && *last ? cat(" (", last, ")") : "");
}

Status settle(ncclComm_t comm, const char* what, const NcclComm::Aborted& aborted) {
  for (Pauses pauses;; pauses.pause()) {
    ncclResult_t state = ncclSuccess;
    if (const ncclResult_t asked = ncclCommGetAsyncError(comm, &state); asked != ncclSuccess) state = asked;
    if (state == ncclSuccess) return {};
    if (state != ncclInProgress) return fail(kind_of(state), cat(what, ": ", describe(state, comm)));
    if (std::string why = aborted(); !why.empty()) return fail(ErrorKind::cancelled, std::move(why));
  }
}

NcclComm::~NcclComm() {
  if (!comm_) return;
  cudaSetDevice(stream_->device().index);
  const Pauses since;
  const auto late = [&] { return std::string(since.longer_than(kPatienceToLeave) ? "peers do not leave" : ""); };
  const ncclResult_t leaving = ncclCommFinalize(comm_);
  const bool left = (leaving == ncclSuccess || leaving == ncclInProgress) && settle(comm_, "leaving", late).has_value();
  left ? ncclCommDestroy(comm_) : ncclCommAbort(comm_);
}

tl::unexpected<Error> NcclComm::end(ErrorKind kind, std::string why) {
  ended_ = why;
  // Its kernels wait for peers on the device; they stop here, and the stream can be waited for.
  ncclCommAbort(comm_);
  comm_ = nullptr;
  return fail(kind, std::move(why));
}

Status NcclComm::run(const char* name, const std::function<ncclResult_t(ncclComm_t, cudaStream_t)>& submit,
                     const Aborted& aborted) {
  if (!comm_) return fail(ErrorKind::cancelled, "collective aborted: " + ended_);
  if (std::string why = aborted(); !why.empty()) return end(ErrorKind::cancelled, "collective aborted: " + why);
  stream_->begin_op(name);
  TROUPE_TRY(submitted(name, submit(comm_, stream_->handle()), aborted));
  return done(name, aborted);
}

Status NcclComm::submitted(const char* name, ncclResult_t result, const Aborted& aborted) {
  if (result != ncclSuccess && result != ncclInProgress)
    return end(ErrorKind::failed, cat("NCCL could not begin ", name, ": ", describe(result, comm_)));
  if (auto status = settle(comm_, name, aborted); !status) {
    const bool is_abort = status.error().kind == ErrorKind::cancelled;
    return end(status.error().kind, (is_abort ? "collective aborted: " : "") + status.error().message);
  }
  return cuda::status_of(cudaEventRecord(passed_.get(), stream_->handle()), name);
}

Status NcclComm::done(const char* name, const Aborted& aborted) {
  for (Pauses pauses;; pauses.pause()) {
    const cudaError_t state = cuda::query(passed_.get());
    if (state == cudaSuccess) return {};
    if (state != cudaErrorNotReady) return end(ErrorKind::failed, cat(name, ": ", cuda::describe(state)));
    ncclResult_t error = ncclSuccess;
    ncclCommGetAsyncError(comm_, &error);
    if (error != ncclSuccess && error != ncclInProgress)
      return end(kind_of(error), cat("a peer of the group was lost during ", name, ": ", describe(error, comm_)));
    if (std::string why = aborted(); !why.empty()) return end(ErrorKind::cancelled, "collective aborted: " + why);
  }
}

}  // namespace troupe
