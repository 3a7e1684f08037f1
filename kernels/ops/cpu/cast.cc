#include <concepts>

#include <troupe/kernels/ops/cpu/families.h>
#include <troupe/kernels/ops/cpu/half_vectors.h>
#include <troupe/kernels/ops/cpu/tensors.h>
#include <troupe/kernels/ops/cpu/threads.h>
#include <troupe/kernels/tensor/half.h>

namespace troupe::ops::cpu {
namespace {

// Calls body(T{}) with the C++ type of any floating-point dtype.
template <class Body>
void dispatch_any(DType dtype, Body body) {
  if (dtype == DType::f16) return body(Half{});
  if (dtype == DType::bf16) return body(BFloat16{});
  dispatch(dtype, body);
}

template <class To, class From>
To converted(From x) {
  if constexpr (std::same_as<From, Half> || std::same_as<From, BFloat16>)
    return converted<To>(to_float(x));
  else if constexpr (std::same_as<To, Half>)
    return to_half(static_cast<float>(x));
  else if constexpr (std::same_as<To, BFloat16>)
    return to_bfloat16(static_cast<float>(x));
  else
    return static_cast<To>(x);
}

template <class From, class To>
void convert_each(const From* x, int64_t n, To* y) {
  if constexpr (std::same_as<From, Half> && std::same_as<To, float>)
    widen_each(x, n, y);
  else if constexpr (std::same_as<From, float> && std::same_as<To, Half>)
    round_each(x, n, y);
  else
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) y[i] = converted<To>(x[i]);
}

void cast(Stream& stream, const Tensor& x, Tensor& y) {
  expect_dims(x, 0, Shape::kMaxDims, "x");
  expect_dims(y, 0, Shape::kMaxDims, "y");
  TROUPE_CHECK(x.count() == y.count(), "x is ", x.shape(), ", y is ", y.shape());
  dispatch_any(x.dtype(), [&](auto from) {
    dispatch_any(y.dtype(), [&](auto to) {
      using From = decltype(from);
      using To = decltype(to);
      const From* const p = x.data<From>();
      To* const q = y.data<To>();
      split(stream, x.count(), 1, [=](int64_t begin, int64_t end) { convert_each(p + begin, end - begin, q + begin); });
    });
  });
}

}  // namespace

CastOps cast_ops() {
  return {cast};
}

}  // namespace troupe::ops::cpu
