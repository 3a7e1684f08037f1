#include <algorithm>
#include <vector>

#include <troupe/kernels/ops/cpu/families.h>
#include <troupe/kernels/ops/cpu/tensors.h>
#include <troupe/kernels/ops/cpu/threads.h>

// Built without fused multiply-add (kernels/CMakeLists.txt): the contract rounds every product.

namespace troupe::ops::cpu {
namespace {

void expect_like(const Tensor& t, const Tensor& model, const char* name) {
  TROUPE_CHECK(t && model, name, " or what it is combined with is an empty tensor");
  TROUPE_CHECK(t.dtype() == model.dtype(), name, " is ", name_of(t.dtype()), ", expected ",
               name_of(model.dtype()));
  TROUPE_CHECK(t.count() == model.count(), name, " is ", t.shape(), ", expected as many elements as ",
               model.shape());
}

void fill(Stream& stream, double value, Tensor& y) {
  expect_dims(y, 0, Shape::kMaxDims, "y");
  dispatch(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* to = y.data<T>();
    split(stream, y.count(), 1,
          [&](int64_t begin, int64_t end) { std::fill(to + begin, to + end, static_cast<T>(value)); });
  });
}

void copy(Stream& stream, const Tensor& x, Tensor& y) {
  expect_like(x, y, "x");
  split(stream, static_cast<int64_t>(x.bytes()), 1, [&](int64_t begin, int64_t end) {
    std::memmove(y.raw() + begin, x.raw() + begin, static_cast<size_t>(end - begin));
  });
}

void add(Stream& stream, const Tensor& a, const Tensor& b, Tensor& y) {
  expect_like(a, y, "a");
  expect_like(b, y, "b");
  dispatch(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T *p = a.data<T>(), *q = b.data<T>();
    T* to = y.data<T>();
    split(stream, y.count(), 1, [&](int64_t begin, int64_t end) {
#pragma GCC ivdep
      for (int64_t i = begin; i < end; ++i) to[i] = p[i] + q[i];
    });
  });
}

void scale(Stream& stream, double alpha, Tensor& y) {
  expect_dims(y, 0, Shape::kMaxDims, "y");
  dispatch(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T factor = static_cast<T>(alpha);
    T* to = y.data<T>();
    split(stream, y.count(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) to[i] *= factor;
    });
  });
}

void axpy(Stream& stream, double alpha, const Tensor& x, Tensor& y) {
  expect_like(x, y, "x");
  dispatch(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T factor = static_cast<T>(alpha);
    const T* p = x.data<T>();
    T* to = y.data<T>();
    split(stream, y.count(), 1, [&](int64_t begin, int64_t end) {
#pragma GCC ivdep
      for (int64_t i = begin; i < end; ++i) to[i] += factor * p[i];
    });
  });
}

// out = u p + v q; out may be p or q.
template <class T>
void combine(int64_t n, T u, const T* p, T v, const T* q, T* out) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = u * p[i] + v * q[i];
}

// Elements [begin, begin + n) of y, n <= kBlock: what is summed so far stays in the first-level cache, and y,
// which may be one of the inputs, is written last.
constexpr int64_t kBlock = 1024;
template <class T>
void weighted_sum_block(const std::vector<const T*>& x, const std::vector<T>& w, int64_t begin, int64_t n,
                        T* y) {
  T sum[kBlock];
  if (x.size() == 1)
    for (int64_t i = begin; i < begin + n; ++i) y[i] = w[0] * x[0][i];
  for (size_t r = 1; r < x.size(); ++r) {
    T* out = r + 1 == x.size() ? y + begin : sum;
    if (r == 1)
      combine(n, w[0], x[0] + begin, w[1], x[1] + begin, out);
    else
      combine(n, T{1}, sum, w[r], x[r] + begin, out);
  }
}

void weighted_sum(Stream& stream, std::span<const Tensor> inputs, std::span<const double> weights,
                  Tensor& y) {
  TROUPE_CHECK(!inputs.empty() && inputs.size() == weights.size(), inputs.size(), " inputs, ", weights.size(),
               " weights");
  for (const Tensor& x : inputs) expect_like(x, y, "input");
  dispatch(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    std::vector<const T*> from;
    for (const Tensor& x : inputs) from.push_back(x.data<T>());
    const std::vector<T> w(weights.begin(), weights.end());
    T* to = y.data<T>();
    split(stream, y.count(), static_cast<int64_t>(from.size()), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i += kBlock)
        weighted_sum_block(from, w, i, std::min(kBlock, end - i), to);
    });
  });
}

}  // namespace

ElementwiseOps elementwise_ops() {
  return {fill, copy, add, scale, axpy, weighted_sum};
}

}  // namespace troupe::ops::cpu
