#pragma once
#include <cudnn.h>

#include <array>
#include <map>
#include <memory>

#include <troupe/kernels/ops/conv.h>
#include <troupe/kernels/tensor/cuda/cuda_stream.h>

// cuDNN 9 marks its functions for one convolution as deprecated in favour of graphs of operations, and keeps them.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace troupe::ops::cuda {

enum class ConvPass : uint8_t { output, input_gradient, weight_gradient };

/// What cuDNN chooses an algorithm by: which of the three, x [n, c, h, w], w [o, c, kh, kw], stride and padding. f32.
struct ConvKey {
  ConvPass pass = ConvPass::output;
  std::array<int64_t, 4> x{}, w{};
  int64_t stride = 1, padding = 0;
  auto operator<=>(const ConvKey&) const = default;
};

/// One convolution as cuDNN knows it. Owns its descriptors.
struct ConvPlan {
  ConvPlan() = default;
  ConvPlan(const ConvPlan&) = delete;
  ConvPlan& operator=(const ConvPlan&) = delete;
  ~ConvPlan();

  cudnnTensorDescriptor_t x = nullptr, y = nullptr;
  cudnnFilterDescriptor_t w = nullptr;
  cudnnConvolutionDescriptor_t conv = nullptr;
  int algorithm = 0;           ///< of the pass's enumeration
  size_t workspace_bytes = 0;
  bool found = false;          ///< false: cuDNN has none that gives the same bits every time, within the memory allowed
};

/// What cuDNN keeps for one stream: a handle, and the plans of the convolutions seen so far.
///
/// The algorithm is the first of cuDNN's own ranking, which knows sizes and device and measures nothing, among those
/// that cuDNN calls deterministic and that need no more than kMostWorkspaceBytes: the same sizes get the same one in
/// every run. `[precision] matmul` f32 forbids tensor cores; tf32 and bf16 both allow TF32, since cuDNN's other choice
/// would round to f16, whose range gradients leave.
class CudnnState final : public StreamState {
 public:
  static constexpr size_t kMostWorkspaceBytes = size_t{256} << 20;

  /// Of `stream`; made on first use. Throws CudaFailure where cuDNN does not start.
  static CudnnState& of(troupe::cuda::CudaStream& stream);

  explicit CudnnState(troupe::cuda::CudaStream& stream);
  ~CudnnState() override;

  cudnnHandle_t handle() const { return handle_; }
  const ConvPlan& plan(const ConvKey& key);

 private:
  void describe(const ConvKey& key, ConvPlan& plan) const;
  void choose(const ConvKey& key, ConvPlan& plan) const;

  MatmulPrecision precision_;
  cudnnHandle_t handle_ = nullptr;
  std::map<ConvKey, ConvPlan> plans_;
};

void check(cudnnStatus_t status, const char* what);

}  // namespace troupe::ops::cuda
