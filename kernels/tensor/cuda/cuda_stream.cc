#include <troupe/kernels/tensor/cuda/cuda_stream.h>

#include <algorithm>
#include <cstring>

#include <troupe/kernels/tensor/cuda/cuda_error.h>
#include <troupe/kernels/tensor/cuda/devices.h>
#include <troupe/kernels/tensor/cuda/memory.h>

namespace troupe::cuda {
namespace {

// Large enough for the full speed of the bus, small enough that the CPU fills one block while another is on its way.
constexpr size_t kStagingBytes = size_t{4} << 20;

// What CUDA calls back with, made on the heap by whoever submitted it and ended by its one call.
using Callback = std::function<void(cudaError_t)>;

void CUDART_CB call_back(cudaStream_t, cudaError_t error, void* data) {
  const std::unique_ptr<Callback> callback(static_cast<Callback*>(data));
  (*callback)(error);
}

// cudaLaunchHostFunc would not call after an error, and then somebody waits for ever.
cudaError_t add_callback(cudaStream_t stream, Callback callback) {
  auto data = std::make_unique<Callback>(std::move(callback));
  const cudaError_t error = cudaStreamAddCallback(stream, call_back, data.get(), 0);
  if (error == cudaSuccess) data.release();
  return error;
}

class CudaGraph final : public LaunchGraph {
 public:
  CudaGraph(cudaGraphExec_t graph, const std::byte* scratch) : graph_(graph), scratch_(scratch) {}
  ~CudaGraph() override { cudaGraphExecDestroy(graph_); }
  cudaGraphExec_t get() const { return graph_; }
  const std::byte* scratch() const { return scratch_; }

 private:
  cudaGraphExec_t graph_;
  const std::byte* scratch_;  ///< Stream::scratch, as its kernels know it
};

bool on_host(const Tensor& tensor) { return tensor.device().kind == DeviceKind::cpu; }

}  // namespace

Event::Event() { cuda::check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "making an event"); }
Event::~Event() {
  if (event_) cudaEventDestroy(event_);
}

CudaStream::CudaStream(const StreamOptions& options, std::shared_ptr<BlockCache> memory,
                       std::shared_ptr<BlockCache> pinned)
    : Stream({DeviceKind::cuda, options.device}, options.threads),
      matmul_(options.matmul),
      memory_(std::move(memory)),
      pinned_(std::move(pinned)),
      here_((use(options.device), Event())) {
  cuda::check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
}

// Nothing may run when the memory goes. Errors have been told to whoever asked.
CudaStream::~CudaStream() {
  cudaSetDevice(device().index);
  cudaStreamSynchronize(stream_);
  state().reset();
  cudaStreamDestroy(stream_);
}

std::string CudaStream::told(cudaError_t error) const {
  return cat("CUDA device ", device().index, " failed with ", describe(error), "; the last op submitted was ", op_,
             " (with CUDA_LAUNCH_BLOCKING=1 in the environment, the one at fault)");
}

void CudaStream::check(cudaError_t error) const {
  if (error != cudaSuccess) throw CudaFailure(told(error));
}

BufferPtr CudaStream::allocate(size_t bytes) {
  BlockCache& memory = captured_memory_ ? *captured_memory_ : *memory_;
  if (BufferPtr buffer = memory.allocate(bytes)) return buffer;
  throw OutOfDeviceMemory(cat(bytes, " bytes (", bytes >> 20, " MiB) are asked for, and ", memory.state(), ", ",
                              memory.held_bytes() >> 20, " MiB are held by this stream; smaller batches need less"));
}

BufferPtr CudaStream::staging(size_t bytes) {
  if (BufferPtr buffer = pinned_->allocate(bytes)) return buffer;
  throw OutOfDeviceMemory(cat(bytes, " bytes for copies are asked for, and ", pinned_->state()));
}

void CudaStream::hold(std::vector<BufferPtr> buffers) {
  drop_passed();
  Event event = free_events_.empty() ? Event() : std::move(free_events_.back());
  if (!free_events_.empty()) free_events_.pop_back();
  check(cudaEventRecord(event.get(), stream_));
  held_.push_back({std::move(event), std::move(buffers)});
}

void CudaStream::drop_passed() {
  while (!held_.empty()) {
    const cudaError_t state = cudaEventQuery(held_.front().passed.get());
    if (state == cudaErrorNotReady) return;
    check(state);
    free_events_.push_back(std::move(held_.front().passed));
    held_.pop_front();
  }
}

void CudaStream::copy(const Tensor& from, Tensor& to) {
  TROUPE_CHECK(from.count() == to.count() && from.dtype() == to.dtype(), "copy of ", name_of(from.dtype()),
               from.shape(), " to ", name_of(to.dtype()), to.shape());
  if (from.bytes() == 0) return;
  use(device().index);
  if (on_host(from) || on_host(to)) refuse_in_capture("a copy from or to host memory");
  if (on_host(from) && !on_host(to) && !is_pinned(from.raw()))
    return copy_from_pageable(from.raw(), to.raw(), from.bytes());
  if (on_host(to) && !is_pinned(to.raw())) return copy_to_pageable(from, to);
  check(cudaMemcpyAsync(to.raw(), from.raw(), from.bytes(), cudaMemcpyDefault, stream_));
  // Copies within the device are as safe as any op: what they use goes back to this stream's cache.
  if (on_host(from) || on_host(to)) hold({from.buffer(), to.buffer()});
}

void CudaStream::copy_from_pageable(const std::byte* from, std::byte* to, size_t bytes) {
  for (size_t at = 0; at < bytes; at += kStagingBytes) {
    const size_t piece = std::min(kStagingBytes, bytes - at);
    const BufferPtr block = staging(piece);
    std::memcpy(block->data(), from + at, piece);
    check(cudaMemcpyAsync(to + at, block->data(), piece, cudaMemcpyHostToDevice, stream_));
    hold({block});
  }
}

// The last step is the CPU's, in the stream's order.
void CudaStream::copy_to_pageable(const Tensor& from, Tensor& to) {
  const BufferPtr block = staging(from.bytes());
  check(cudaMemcpyAsync(block->data(), from.raw(), from.bytes(), cudaMemcpyDefault, stream_));
  check(add_callback(stream_, [block, to](cudaError_t error) mutable {
    if (error == cudaSuccess) std::memcpy(to.raw(), block->data(), to.bytes());
  }));
}

void CudaStream::then(std::function<void(Status)> done) {
  refuse_in_capture("a callback");
  use(device().index);
  // The text is made here: a callback may ask CUDA for nothing.
  const Callback tell = [done = std::move(done), op = op_, device = device().index](cudaError_t error) {
    if (error == cudaSuccess) return done({});
    done(fail(ErrorKind::failed,
              cat("CUDA device ", device, " failed with ", describe(error), "; the last op submitted was ", op)));
  };
  const cudaError_t error = add_callback(stream_, tell);
  if (error != cudaSuccess) tell(error);  // it will not be called
}

Status CudaStream::wait() {
  refuse_in_capture("a wait");
  cudaError_t error = cudaSetDevice(device().index);
  if (error == cudaSuccess) error = cudaStreamSynchronize(stream_);
  if (error != cudaSuccess) return fail(ErrorKind::failed, told(error));
  drop_passed();
  return {};
}

// CUDA would make the capture worthless and say so at its end; this says by what.
void CudaStream::refuse_in_capture(const char* what) const {
  if (captured_memory_) throw CudaFailure(cat(what, " cannot be captured; the last op submitted was ", op_));
}

// Relaxed: memory may be allocated meanwhile, here and on other threads, which have streams of their own.
Status CudaStream::begin_capture(std::shared_ptr<BlockCache>& memory) {
  use(device().index);
  if (!memory) memory = std::make_shared<BlockCache>(make_device_memory(device().index));
  TROUPE_TRY(status_of(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), "beginning to capture launches"));
  captured_memory_ = memory;
  return {};
}

Result<std::unique_ptr<LaunchGraph>> CudaStream::end_capture() {
  captured_memory_.reset();
  cudaGraph_t graph = nullptr;
  const Status ended =
      status_of(cudaStreamEndCapture(stream_, &graph), cat("capturing launches, the last one of ", op_));
  if (!ended) cudaGetLastError();  // what could not be captured is no failure of the launches that follow
  TROUPE_TRY(ended);
  cudaGraphExec_t ready = nullptr;
  const cudaError_t error = cudaGraphInstantiate(&ready, graph, 0);
  cudaGraphDestroy(graph);
  TROUPE_TRY(status_of(error, cat("making a graph of launches, the last one of ", op_)));
  return std::make_unique<CudaGraph>(ready, scratch(0));
}

Status CudaStream::replay(LaunchGraph& graph) {
  const auto& captured = static_cast<const CudaGraph&>(graph);
  if (captured.scratch() != scratch(0)) return fail(ErrorKind::cancelled, "the memory that ops work in has moved");
  use(device().index);
  op_ = "a graph of launches";
  ++launches_.graphs;
  return status_of(cudaGraphLaunch(captured.get(), stream_), "submitting a graph of launches");
}

void CudaStream::wait_for(CudaStream& earlier) {
  earlier.check(cudaEventRecord(earlier.here_.get(), earlier.stream_));
  check(cudaStreamWaitEvent(stream_, earlier.here_.get(), 0));
  op_ = earlier.op_;  // what fails there fails here next
}

void CudaStream::begin_op(const char* name) {
  use(device().index);
  op_ = name;
}

void CudaStream::launched(const char* kernel) {
  if (!captured_memory_) ++launches_.kernels;
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) throw CudaFailure(cat("kernel ", kernel, " of ", told(error)));
}

}  // namespace troupe::cuda
