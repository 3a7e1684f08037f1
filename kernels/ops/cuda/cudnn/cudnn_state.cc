#include <troupe/kernels/ops/cuda/cudnn/cudnn_state.h>

#include <troupe/kernels/ops/cuda/cublas_state.h>
#include <troupe/kernels/tensor/cuda/cuda_error.h>

namespace troupe::ops::cuda {
namespace {

constexpr int kMostAlgorithms = 16;

int narrow(int64_t n) { return static_cast<int>(n); }

// The first of the ranking that may be taken.
template <class Performance>
void take_first(const Performance* ranking, int count, ConvPlan& plan) {
  for (int i = 0; i < count && !plan.found; ++i) {
    const Performance& one = ranking[i];
    plan.found = one.status == CUDNN_STATUS_SUCCESS && one.determinism == CUDNN_DETERMINISTIC &&
                 one.memory <= CudnnState::kMostWorkspaceBytes;
    plan.algorithm = static_cast<int>(one.algo);
    plan.workspace_bytes = one.memory;
  }
}

}  // namespace

void check(cudnnStatus_t status, const char* what) {
  if (status != CUDNN_STATUS_SUCCESS) throw troupe::cuda::CudaFailure(cat(what, ": ", cudnnGetErrorString(status)));
}

ConvPlan::~ConvPlan() {
  if (conv) cudnnDestroyConvolutionDescriptor(conv);
  if (w) cudnnDestroyFilterDescriptor(w);
  if (y) cudnnDestroyTensorDescriptor(y);
  if (x) cudnnDestroyTensorDescriptor(x);
}

CudnnState& CudnnState::of(troupe::cuda::CudaStream& stream) {
  std::unique_ptr<StreamState>& state = CublasState::of(stream).convolutions();
  if (!state) state = std::make_unique<CudnnState>(stream);
  return static_cast<CudnnState&>(*state);
}

CudnnState::CudnnState(troupe::cuda::CudaStream& stream) : precision_(stream.matmul()) {
  check(cudnnCreate(&handle_), "starting cuDNN");
  check(cudnnSetStream(handle_, stream.handle()), "giving cuDNN a stream");
}

CudnnState::~CudnnState() {
  plans_.clear();
  if (handle_) cudnnDestroy(handle_);
}

const ConvPlan& CudnnState::plan(const ConvKey& key) {
  const auto [found, is_new] = plans_.try_emplace(key);
  if (is_new) {
    describe(key, found->second);
    choose(key, found->second);
  }
  return found->second;
}

void CudnnState::describe(const ConvKey& key, ConvPlan& plan) const {
  constexpr const char* kWhat = "describing a convolution to cuDNN";
  const auto tensor = [&](cudnnTensorDescriptor_t& made, int64_t n, int64_t c, int64_t h, int64_t w) {
    check(cudnnCreateTensorDescriptor(&made), kWhat);
    check(cudnnSetTensor4dDescriptor(made, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, narrow(n), narrow(c), narrow(h),
                                     narrow(w)),
          kWhat);
  };
  const auto [n, c, h, w] = key.x;
  const auto [o, wc, kh, kw] = key.w;
  const Shape y = conv_output({n, c, h, w}, {o, wc, kh, kw}, {key.stride, key.padding});
  tensor(plan.x, n, c, h, w);
  tensor(plan.y, y[0], y[1], y[2], y[3]);
  check(cudnnCreateFilterDescriptor(&plan.w), kWhat);
  check(cudnnSetFilter4dDescriptor(plan.w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, narrow(o), narrow(wc), narrow(kh),
                                   narrow(kw)),
        kWhat);
  check(cudnnCreateConvolutionDescriptor(&plan.conv), kWhat);
  const int padding = narrow(key.padding), stride = narrow(key.stride);
  check(cudnnSetConvolution2dDescriptor(plan.conv, padding, padding, stride, stride, 1, 1, CUDNN_CROSS_CORRELATION,
                                        CUDNN_DATA_FLOAT),
        kWhat);
  const bool exact = precision_ == MatmulPrecision::f32;
  check(cudnnSetConvolutionMathType(plan.conv, exact ? CUDNN_FMA_MATH : CUDNN_TENSOR_OP_MATH), kWhat);
}

void CudnnState::choose(const ConvKey& key, ConvPlan& plan) const {
  constexpr const char* kWhat = "asking cuDNN how to convolve";
  int count = 0;
  switch (key.pass) {
    case ConvPass::output: {
      cudnnConvolutionFwdAlgoPerf_t ranking[kMostAlgorithms];
      check(cudnnGetConvolutionForwardAlgorithm_v7(handle_, plan.x, plan.w, plan.conv, plan.y, kMostAlgorithms, &count,
                                                   ranking),
            kWhat);
      return take_first(ranking, count, plan);
    }
    case ConvPass::input_gradient: {
      cudnnConvolutionBwdDataAlgoPerf_t ranking[kMostAlgorithms];
      check(cudnnGetConvolutionBackwardDataAlgorithm_v7(handle_, plan.w, plan.y, plan.conv, plan.x, kMostAlgorithms,
                                                        &count, ranking),
            kWhat);
      return take_first(ranking, count, plan);
    }
    case ConvPass::weight_gradient: {
      cudnnConvolutionBwdFilterAlgoPerf_t ranking[kMostAlgorithms];
      check(cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle_, plan.x, plan.y, plan.conv, plan.w, kMostAlgorithms,
                                                          &count, ranking),
            kWhat);
      return take_first(ranking, count, plan);
    }
  }
}

}  // namespace troupe::ops::cuda
