#include <cmath>

#include <troupe/kernels/ops/cpu/families.h>
#include <troupe/kernels/ops/cpu/tensors.h>
#include <troupe/kernels/ops/cpu/threads.h>

namespace troupe::ops::cpu {
namespace {

// table[t, d]: the cosines of a position's d/2 angles, then their sines.
template <class T>
void fill_angles(int64_t t, int64_t d, double base, double sign, T* table) {
  for (int64_t c = 0; c < d / 2; ++c) {
    const double frequency = sign * std::pow(base, -2.0 * static_cast<double>(c) / static_cast<double>(d));
    for (int64_t i = 0; i < t; ++i) {
      const double angle = static_cast<double>(i) * frequency;
      table[i * d + c] = static_cast<T>(std::cos(angle));
      table[i * d + d / 2 + c] = static_cast<T>(std::sin(angle));
    }
  }
}

template <class T>
void turn(T* x, int64_t half, const T* cosine, const T* sine) {
#pragma GCC ivdep
  for (int64_t c = 0; c < half; ++c) {
    const T left = x[c], right = x[c + half];
    x[c] = left * cosine[c] - right * sine[c];
    x[c + half] = right * cosine[c] + left * sine[c];
  }
}

void turn_all(Stream& stream, double base, double sign, Tensor& qkv) {
  expect_dims(qkv, 5, 5, "qkv");
  const int64_t n = qkv.shape()[0], t = qkv.shape()[1], heads = qkv.shape()[3], d = qkv.shape()[4];
  TROUPE_CHECK(qkv.shape()[2] == 3 && d % 2 == 0, "qkv is ", qkv.shape(), ", expected [n, t, 3, heads, an even width]");
  TROUPE_CHECK(base > 0, "base is ", base);
  dispatch(qkv.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const table = reinterpret_cast<T*>(stream.scratch(static_cast<size_t>(t * d) * sizeof(T)));
    fill_angles(t, d, base, sign, table);
    T* const x = qkv.data<T>();
    split(stream, n * t, 2 * heads * d, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* const cosine = table + row % t * d;
        T* const position = x + row * 3 * heads * d;
        for (int64_t head = 0; head < 2 * heads; ++head) turn(position + head * d, d / 2, cosine, cosine + d / 2);
      }
    });
  });
}

void rotary(Stream& stream, double base, Tensor& qkv) { turn_all(stream, base, 1, qkv); }

void rotary_gradient(Stream& stream, double base, Tensor& dqkv) { turn_all(stream, base, -1, dqkv); }

}  // namespace

RotaryOps rotary_ops() {
  return {rotary, rotary_gradient};
}

}  // namespace troupe::ops::cpu
