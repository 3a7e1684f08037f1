#include <algorithm>
#include <cmath>
#include <limits>

#include <troupe/kernels/ops/cpu/families.h>
#include <troupe/kernels/ops/cpu/matmul.h>
#include <troupe/kernels/ops/cpu/sums.h>
#include <troupe/kernels/ops/cpu/tensors.h>
#include <troupe/kernels/ops/cpu/threads.h>
#include <troupe/kernels/ops/cpu/vector_math.h>

namespace troupe::ops::cpu {
namespace {

// Queries and keys of a block of scores, which then fits the first-level cache.
constexpr int64_t kBlock = 64;

struct Sizes {
  int64_t n, t, heads, d;
  explicit Sizes(const Tensor& qkv) : n(qkv.shape()[0]), t(qkv.shape()[1]), heads(qkv.shape()[3]), d(qkv.shape()[4]) {}
  int64_t packed_row() const { return 3 * heads * d; }
  int64_t row() const { return heads * d; }
};

Sizes expect_packed(const Tensor& qkv) {
  expect_dims(qkv, 5, 5, "qkv");
  TROUPE_CHECK(qkv.shape()[2] == 3 && qkv.shape()[4] > 0, "qkv is ", qkv.shape(), ", expected [n, t, 3, heads, d]");
  return Sizes(qkv);
}

// One head of one sequence in a packed tensor of queries, keys and values, or of their gradients.
template <class T>
struct Head {
  T *q, *k, *v;
  int64_t stride;
  Head(T* packed, const Sizes& s, int64_t sequence, int64_t head)
      : q(packed + sequence * s.t * s.packed_row() + head * s.d),
        k(q + s.row()),
        v(k + s.row()),
        stride(s.packed_row()) {}
  Rows<T> queries(int64_t i) const { return {q + i * stride, stride}; }
  Rows<T> keys(int64_t j) const { return {k + j * stride, stride}; }
  Rows<T> values(int64_t j) const { return {v + j * stride, stride}; }
};

// Keys that query `i` may see in a block of `keys` that begins at `j`.
int64_t seen(int64_t i, int64_t j, int64_t keys) { return std::min(keys, i - j + 1); }

template <class T>
T largest(const T* x, int64_t n) {
  constexpr int kLanes = 16;
  T lanes[kLanes];
  std::fill(lanes, lanes + kLanes, -std::numeric_limits<T>::infinity());
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] = x[i + lane] > lanes[lane] ? x[i + lane] : lanes[lane];
  for (; i < n; ++i) lanes[0] = x[i] > lanes[0] ? x[i] : lanes[0];
  return *std::max_element(lanes, lanes + kLanes);
}

// Takes the scores of `keys` keys into a row of y whose largest score so far is `top` and whose sum of exponentials is
// `sum`; the scores become exp(s - top), those from `visible` on 0.
template <class T>
void take_in(T* scores, int64_t visible, int64_t keys, T& top, T& sum, T* y, int64_t d) {
  const T before = top;
  top = std::max(top, largest(scores, visible));
  const T shift = top;
#pragma GCC ivdep
  for (int64_t j = 0; j < visible; ++j) scores[j] = exp_of(scores[j] - shift);
  std::fill(scores + visible, scores + keys, T{0});
  const T kept = before == top ? T{1} : exp_of(before - shift);
  sum = sum * kept + lane_sum<T>(visible, [=](int64_t j) { return scores[j]; });
  if (kept == T{1}) return;
#pragma GCC ivdep
  for (int64_t c = 0; c < d; ++c) y[c] *= kept;
}

// y and log_sums of the queries [begin, end) of a head.
template <class T>
void attend(const Head<const T>& head, const Sizes& s, T scale, int64_t begin, int64_t end, Rows<T> y, T* log_sums) {
  alignas(64) T scores[kBlock * kBlock];
  T top[kBlock], sum[kBlock];
  const int64_t queries = end - begin;
  std::fill(top, top + queries, -std::numeric_limits<T>::infinity());
  std::fill(sum, sum + queries, T{0});
  for (int64_t i = 0; i < queries; ++i) std::fill_n(y.data + i * y.stride, s.d, T{0});
  for (int64_t j = 0; j < end; j += kBlock) {
    const int64_t keys = std::min(kBlock, end - j);
    matmul_rows(Trans::no, Trans::yes, queries, keys, s.d, scale, head.queries(begin), head.keys(j), T{0},
                {scores, kBlock});
    for (int64_t i = 0; i < queries; ++i)
      take_in(scores + i * kBlock, seen(begin + i, j, keys), keys, top[i], sum[i], y.data + i * y.stride, s.d);
    matmul_rows(Trans::no, Trans::no, queries, s.d, keys, T{1}, {scores, kBlock}, head.values(j), T{1}, y);
  }
  for (int64_t i = 0; i < queries; ++i) {
    const T share = T{1} / sum[i];
    T* const row = y.data + i * y.stride;
#pragma GCC ivdep
    for (int64_t c = 0; c < s.d; ++c) row[c] *= share;
    log_sums[i] = top[i] + std::log(sum[i]);
  }
}

void attention(Stream& stream, const Tensor& qkv, double scale, Tensor& y, Tensor& log_sums) {
  const Sizes s = expect_packed(qkv);
  expect(y, qkv.dtype(), {s.n, s.t, s.heads, s.d}, "y");
  expect(log_sums, qkv.dtype(), {s.n, s.heads, s.t}, "log_sums");
  const UseThreads threads(stream);
  dispatch(qkv.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* const packed = qkv.data<T>();
    T *const out = y.data<T>(), *const sums = log_sums.data<T>();
    split(stream, s.n * s.heads, s.t * s.t * s.d, [&](int64_t first, int64_t last) {
      for (int64_t item = first; item < last; ++item) {
        const int64_t sequence = item / s.heads, index = item % s.heads;
        const Head<const T> head(packed, s, sequence, index);
        T* const rows = out + sequence * s.t * s.row() + index * s.d;
        for (int64_t begin = 0; begin < s.t; begin += kBlock)
          attend<T>(head, s, static_cast<T>(scale), begin, std::min(begin + kBlock, s.t),
                    {rows + begin * s.row(), s.row()}, sums + item * s.t + begin);
      }
    });
  });
}

// p[i, j] of a row of scores from its log sum, 0 from `visible` on.
template <class T>
void probabilities(T* scores, int64_t visible, int64_t keys, T log_sum) {
#pragma GCC ivdep
  for (int64_t j = 0; j < visible; ++j) scores[j] = exp_of(scores[j] - log_sum);
  std::fill(scores + visible, scores + keys, T{0});
}

// What one block of queries and keys adds to the gradients: the first block of a query sets dq, the first of a key
// (the one on the diagonal) sets dk and dv.
template <class T>
void block_gradient(const Head<const T>& x, const Head<T>& dx, const Sizes& s, T scale, int64_t i, int64_t j,
                    Rows<const T> dy, const T* log_sums, const T* row_dots) {
  alignas(64) T p[kBlock * kBlock], dp[kBlock * kBlock];
  const int64_t queries = std::min(kBlock, s.t - i), keys = std::min(kBlock, s.t - j);
  matmul_rows(Trans::no, Trans::yes, queries, keys, s.d, scale, x.queries(i), x.keys(j), T{0}, {p, kBlock});
  for (int64_t r = 0; r < queries; ++r) probabilities(p + r * kBlock, seen(i + r, j, keys), keys, log_sums[i + r]);
  const T of_key = i == j ? T{0} : T{1}, of_query = j == 0 ? T{0} : T{1};
  matmul_rows(Trans::yes, Trans::no, keys, s.d, queries, T{1}, {p, kBlock}, dy, of_key, dx.values(j));
  matmul_rows(Trans::no, Trans::yes, queries, keys, s.d, T{1}, dy, x.values(j), T{0}, {dp, kBlock});
  for (int64_t r = 0; r < queries; ++r) {
    const T dot = row_dots[i + r];
    const T* const weight = p + r * kBlock;
    T* const row = dp + r * kBlock;
#pragma GCC ivdep
    for (int64_t c = 0; c < keys; ++c) row[c] = weight[c] * (row[c] - dot);
  }
  matmul_rows(Trans::no, Trans::no, queries, s.d, keys, scale, {dp, kBlock}, x.keys(j), of_query, dx.queries(i));
  matmul_rows(Trans::yes, Trans::no, keys, s.d, queries, scale, {dp, kBlock}, x.queries(i), of_key, dx.keys(j));
}

// row_dots[n, heads, t] = dy . y of each row.
template <class T>
void dot_rows(const Stream& stream, const Sizes& s, const T* y, const T* dy, T* row_dots) {
  split(stream, s.n * s.t, s.row(), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      for (int64_t head = 0; head < s.heads; ++head) {
        const T *a = y + row * s.row() + head * s.d, *b = dy + row * s.row() + head * s.d;
        row_dots[(row / s.t * s.heads + head) * s.t + row % s.t] =
            lane_sum<T>(s.d, [=](int64_t c) { return a[c] * b[c]; });
      }
  });
}

void attention_gradient(Stream& stream, const Tensor& qkv, double scale, const Tensor& y, const Tensor& log_sums,
                        const Tensor& dy, Tensor& dqkv) {
  const Sizes s = expect_packed(qkv);
  expect(y, qkv.dtype(), {s.n, s.t, s.heads, s.d}, "y");
  expect(dy, qkv.dtype(), y.shape(), "dy");
  expect(log_sums, qkv.dtype(), {s.n, s.heads, s.t}, "log_sums");
  expect(dqkv, qkv.dtype(), qkv.shape(), "dqkv");
  const UseThreads threads(stream);
  dispatch(qkv.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T *const packed = qkv.data<T>(), *const grad = dy.data<T>(), *const sums = log_sums.data<T>();
    T* const out = dqkv.data<T>();
    T* const row_dots = reinterpret_cast<T*>(stream.scratch(log_sums.bytes()));
    dot_rows(stream, s, y.data<T>(), grad, row_dots);
    split(stream, s.n * s.heads, s.t * s.t * s.d, [&](int64_t first, int64_t last) {
      for (int64_t item = first; item < last; ++item) {
        const int64_t sequence = item / s.heads, index = item % s.heads;
        const Head<const T> x(packed, s, sequence, index);
        const Head<T> dx(out, s, sequence, index);
        const T* const rows = grad + sequence * s.t * s.row() + index * s.d;
        for (int64_t j = 0; j < s.t; j += kBlock)
          for (int64_t i = j; i < s.t; i += kBlock)
            block_gradient<T>(x, dx, s, static_cast<T>(scale), i, j, {rows + i * s.row(), s.row()}, sums + item * s.t,
                              row_dots + item * s.t);
      }
    });
  });
}

}  // namespace

AttentionOps attention_ops() {
  return {attention, attention_gradient};
}

}  // namespace troupe::ops::cpu
