#include <tests/support/late_updates.h>
#include <tests/support/simulated_cuda/simulated_cuda.h>
#include <troupe/kernels/backend/internal/cpu_backend.h>
#include <troupe/kernels/backend/internal/module.h>
#include <troupe/kernels/ops/cuda/conv_choice.h>
#include <troupe/kernels/ops/cuda/named_ops.h>
#include <troupe/kernels/tensor/cuda/cuda_stream.h>

// The CUDA backend's own sources find this in place of its kernels and of the module's loader: ops that compute as the
// CPU does, when their stream comes to it, on what a kernel is given.

extern "C" troupe::Error troupe_make_backend(const troupe::ModuleAbi& program, std::shared_ptr<troupe::Backend>& made);

namespace troupe {
namespace {

template <auto table, auto member>
struct Simulated;
template <auto table, class Family, class... Args, void (*Family::*member)(Stream&, Args...)>
struct Simulated<table, member> {
  static void call(Stream& stream, Args... args) {
    auto& cuda = cuda::cuda_stream(stream);
    cuda.begin_op(name);
    test::simulated_cuda::launch(cuda.handle(), [seen = std::tuple(test::seen_by_kernel(args)...)]() mutable {
      Stream host;
      std::apply([&](auto&... a) { (table().*member)(host, a...); }, seen);
      return cudaSuccess;
    });
    cuda.launched(name);
  }
  static inline const char* name = "";
};

ops::Ops make_ops() {
  ops::Ops all{};
#define TROUPE_SIMULATE(op)                              \
  all.op = Simulated<ops::cpu_ops, &ops::Ops::op>::call; \
  Simulated<ops::cpu_ops, &ops::Ops::op>::name = #op;
  TROUPE_EACH_OP(TROUPE_SIMULATE)
#undef TROUPE_SIMULATE
  return all;
}

ops::UpdateOps make_updates() {
  ops::UpdateOps all{};
#define TROUPE_SIMULATE(op)                                            \
  all.op = Simulated<test::cpu_update_ops, &ops::UpdateOps::op>::call; \
  Simulated<test::cpu_update_ops, &ops::UpdateOps::op>::name = #op;
  TROUPE_EACH_UPDATE_OP(TROUPE_SIMULATE)
#undef TROUPE_SIMULATE
  return all;
}

Result<std::shared_ptr<Backend>> make_cuda() {
  std::shared_ptr<Backend> made;
  Error error = troupe_make_backend({}, made);
  if (!made) return tl::unexpected<Error>(std::move(error));
  return made;
}

}  // namespace

namespace ops::cuda {

const Ops& named_cuda_ops() {
  static const Ops all = make_ops();
  return all;
}
const UpdateOps& named_cuda_update_ops() {
  static const UpdateOps all = make_updates();
  return all;
}
std::string conv_library() { return "the CPU"; }

}  // namespace ops::cuda

Result<std::shared_ptr<Backend>> load_backend(DeviceKind kind) {
  static const std::shared_ptr<Backend> cpu = make_cpu_backend();
  static const Result<std::shared_ptr<Backend>> simulated = make_cuda();
  if (kind == DeviceKind::cpu) return cpu;
  return simulated;
}

}  // namespace troupe
