#include <troupe/kernels/ops/cuda/conv_choice.h>

#include <climits>

#include <troupe/kernels/ops/cuda/cudnn/cudnn_state.h>
#include <troupe/kernels/ops/cuda/families.h>
#include <troupe/kernels/ops/cuda/launch.h>
#include <troupe/kernels/ops/cuda/tensors.h>
#include <troupe/kernels/ops/internal/epilogue.h>

// Convolutions of f32 by cuDNN. What it does not take (f64, batches of nothing, tensors beyond 2^31 elements) or has no
// deterministic algorithm for goes by patches.

namespace troupe::ops::cuda {
namespace {

bool takes(const Tensor& x, const Tensor& w, const Tensor& y) {
  return x.dtype() == DType::f32 && x.count() > 0 && w.count() > 0 && y.count() > 0 && x.count() <= INT_MAX &&
         w.count() <= INT_MAX && y.count() <= INT_MAX;
}

void expect_conv(const Tensor& x, const Tensor& w, const Tensor& y, ConvGeometry g) {
  expect_dims(x, 4, 4, "images");
  expect_dims(w, 4, 4, "weights");
  expect(w, x.dtype(), w.shape(), "weights");
  expect(y, x.dtype(), conv_output(x.shape(), w.shape(), g), "convolved images");
}

std::array<int64_t, 4> dims(const Tensor& t) { return {t.shape()[0], t.shape()[1], t.shape()[2], t.shape()[3]}; }

// The plan's convolution with memory to work in: run(cuDNN's handle, plan, memory). False where there is no plan.
template <class Run>
bool by_cudnn(Stream& stream, ConvPass pass, const Tensor& x, const Tensor& w, ConvGeometry g, const Run& run) {
  CudnnState& state = CudnnState::of(troupe::cuda::cuda_stream(stream));
  const ConvPlan& plan = state.plan({pass, dims(x), dims(w), g.stride, g.padding});
  if (!plan.found) return false;
  const BufferPtr memory = plan.workspace_bytes > 0 ? stream.allocate(plan.workspace_bytes) : nullptr;
  check(run(state.handle(), plan, memory ? memory->data() : nullptr), "convolving with cuDNN");
  launched(stream, "cudnn_convolution");
  return true;
}

constexpr float kOne = 1, kZero = 0;

void conv(Stream& stream, const Tensor& x, const Tensor& w, const Tensor& bias, ConvGeometry g, Epilogue epilogue,
          Tensor& y) {
  expect_conv(x, w, y, g);
  const bool done =
      takes(x, w, y) && by_cudnn(stream, ConvPass::output, x, w, g, [&](auto handle, auto& plan, void* memory) {
        return cudnnConvolutionForward(handle, &kOne, plan.x, x.raw(), plan.w, w.raw(), plan.conv,
                                       static_cast<cudnnConvolutionFwdAlgo_t>(plan.algorithm), memory,
                                       plan.workspace_bytes, &kZero, plan.y, y.raw());
      });
  if (!done) return patch_conv_ops().conv(stream, x, w, bias, g, epilogue, y);
  if (bias) return bias_ops().bias_add(stream, y, bias, epilogue, y);
  apply(stream, activation_ops(), epilogue, y);
}

void input_gradient(Stream& stream, const Tensor& dy, const Tensor& w, ConvGeometry g, Tensor& dx) {
  expect_conv(dx, w, dy, g);
  const bool done =
      takes(dx, w, dy) &&
      by_cudnn(stream, ConvPass::input_gradient, dx, w, g, [&](auto handle, auto& plan, void* memory) {
        return cudnnConvolutionBackwardData(handle, &kOne, plan.w, w.raw(), plan.y, dy.raw(), plan.conv,
                                            static_cast<cudnnConvolutionBwdDataAlgo_t>(plan.algorithm), memory,
                                            plan.workspace_bytes, &kZero, plan.x, dx.raw());
      });
  if (!done) patch_conv_ops().conv_input_gradient(stream, dy, w, g, dx);
}

void weight_gradient(Stream& stream, const Tensor& x, const Tensor& dy, ConvGeometry g, Write write, Tensor& dw,
                     Tensor& dbias) {
  expect_conv(x, dw, dy, g);
  const float beta = write == Write::add ? 1 : 0;
  const bool done =
      takes(x, dw, dy) &&
      by_cudnn(stream, ConvPass::weight_gradient, x, dw, g, [&](auto handle, auto& plan, void* memory) {
        return cudnnConvolutionBackwardFilter(handle, &kOne, plan.x, x.raw(), plan.y, dy.raw(), plan.conv,
                                              static_cast<cudnnConvolutionBwdFilterAlgo_t>(plan.algorithm), memory,
                                              plan.workspace_bytes, &beta, plan.w, dw.raw());
      });
  if (!done) return patch_conv_ops().conv_weight_gradient(stream, x, dy, g, write, dw, dbias);
  if (dbias) bias_ops().bias_gradient(stream, dy, write, dbias);
}

}  // namespace

ConvOps conv_ops() { return {conv, input_gradient, weight_gradient}; }

// The library's own answer: a later one of the same major version may be installed than Troupe was built with.
std::string conv_library() {
  const size_t version = cudnnGetVersion();
  return cat("cuDNN ", version / 10000, '.', version % 10000 / 100, '.', version % 100);
}

}  // namespace troupe::ops::cuda
