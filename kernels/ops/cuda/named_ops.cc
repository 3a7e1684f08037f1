#include <troupe/kernels/ops/cuda/named_ops.h>

#include <nvtx3/nvToolsExt.h>

#include <algorithm>

#include <troupe/kernels/ops/cuda/cuda_ops.h>
#include <troupe/kernels/ops/internal/op_list.h>
#include <troupe/kernels/tensor/cuda/cuda_stream.h>

namespace troupe::ops::cuda {
namespace {

class Range {
 public:
  Range(Stream& stream, const char* name) {
    troupe::cuda::cuda_stream(stream).begin_op(name);
    nvtxRangePushA(name);
  }
  ~Range() { nvtxRangePop(); }
  Range(const Range&) = delete;
};

/// A name as a template's argument.
template <size_t kSize>
struct Name {
  constexpr Name(const char (&name)[kSize]) { std::copy_n(name, kSize, text); }
  char text[kSize];
};

/// The function of table() that `member` points to, within a range called `name`.
template <Name name, auto table, auto member>
struct Named;

template <Name name, auto table, class Family, class... Args, void (*Family::*member)(Stream&, Args...)>
struct Named<name, table, member> {
  static void call(Stream& stream, Args... args) {
    const Range range(stream, name.text);
    (table().*member)(stream, static_cast<Args>(args)...);
  }
};

Ops make() {
  Ops ops{};
#define TROUPE_NAME_OP(op) ops.op = Named<#op, cuda_ops, &Ops::op>::call;
  TROUPE_EACH_OP(TROUPE_NAME_OP)
#undef TROUPE_NAME_OP
  return ops;
}

UpdateOps make_updates() {
  UpdateOps ops{};
#define TROUPE_NAME_OP(op) ops.op = Named<#op, cuda_update_ops, &UpdateOps::op>::call;
  TROUPE_EACH_UPDATE_OP(TROUPE_NAME_OP)
#undef TROUPE_NAME_OP
  return ops;
}

}  // namespace

const Ops& named_cuda_ops() {
  static const Ops ops = make();
  return ops;
}

const UpdateOps& named_cuda_update_ops() {
  static const UpdateOps ops = make_updates();
  return ops;
}

}  // namespace troupe::ops::cuda
