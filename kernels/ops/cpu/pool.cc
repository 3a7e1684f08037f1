#include <algorithm>
#include <bit>
#include <type_traits>

#include <troupe/kernels/ops/cpu/families.h>
#include <troupe/kernels/ops/cpu/sums.h>
#include <troupe/kernels/ops/cpu/tensors.h>
#include <troupe/kernels/ops/cpu/threads.h>

namespace troupe::ops::cpu {
namespace {

// One plane (an image of one channel) and its pooled form.
struct Plane {
  int64_t h, w, oh, ow;
  PoolGeometry g;

  Plane(const Shape& x, const Shape& y, PoolGeometry geometry)
      : h(x[2]), w(x[3]), oh(y[2]), ow(y[3]), g(geometry) {}
  bool halves() const { return g.window == 2 && g.stride == 2 && g.padding == 0 && ow >= 4; }

  // visit(pixel, place in window) for the pixels of window (i, j) that lie in the image.
  template <class Visit>
  void window(int64_t i, int64_t j, Visit visit) const {
    const int64_t top = i * g.stride - g.padding, left = j * g.stride - g.padding;
    for (int64_t p = std::max<int64_t>(0, -top); p < std::min(g.window, h - top); ++p)
      for (int64_t q = std::max<int64_t>(0, -left); q < std::min(g.window, w - left); ++q)
        visit((top + p) * w + left + q, p * g.window + q);
  }
};

// Runs body(plane number) for all n c planes.
template <class Body>
void each_plane(const Stream& stream, const Shape& x, Body body) {
  split(stream, x[0] * x[1], x[2] * x[3], [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(i);
  });
}

// `b` takes the place of `a` when it is larger, or NaN and `a` is not.
template <class T>
bool beats(T b, T a) {
  return !(b <= a) && a == a;
}

// The pool of nearly every network, 2 x 2 windows side by side.
//
// Rows are short (14, 7 pixels), so a loop that the compiler vectorises spends its time in the remainder.
// Here a row is cut into vectors of N windows, the last of which overlaps the one before: what is computed
// twice comes out the same.
#pragma GCC diagnostic ignored "-Wpsabi"  // nothing here is called from elsewhere
template <class T, int N>
struct Lanes {
  typedef T Values __attribute__((vector_size(N * sizeof(T)), aligned(sizeof(T)), may_alias));
  using Mask = decltype(Values{} < Values{});
  typedef uint8_t Places __attribute__((vector_size(N), aligned(1), may_alias));

  // Pixels 2 i of the 2 N from `p`, and pixels 2 i + 1.
  static void split_pairs(const T* p, Values& even, Values& odd) {
    const Values low = *reinterpret_cast<const Values*>(p), high = *reinterpret_cast<const Values*>(p + N);
    if constexpr (N == 8) {
      even = __builtin_shufflevector(low, high, 0, 2, 4, 6, 8, 10, 12, 14);
      odd = __builtin_shufflevector(low, high, 1, 3, 5, 7, 9, 11, 13, 15);
    } else {
      even = __builtin_shufflevector(low, high, 0, 2, 4, 6);
      odd = __builtin_shufflevector(low, high, 1, 3, 5, 7);
    }
  }

  // Where beats(b, a).
  static Mask second_wins(Values a, Values b) { return ~(b <= a) & (a == a); }

  static void max(const T* above, const T* below, T* y, uint8_t* choice) {
    Values a, b, c, d;
    split_pairs(above, a, b);
    split_pairs(below, c, d);
    const Mask right_above = second_wins(a, b), right_below = second_wins(c, d);
    const Values top = right_above ? b : a, bottom = right_below ? d : c;
    const Mask lower = second_wins(top, bottom);
    *reinterpret_cast<Values*>(y) = lower ? bottom : top;
    // A mask is -1 where it holds.
    const Mask place = lower ? 2 - right_below : -right_above;
    *reinterpret_cast<Places*>(choice) = __builtin_convertvector(place, Places);
  }
};

// step(j, lanes) for vectors that cover the windows [0, n) of a row.
template <class T, class Step>
void each_window(int64_t n, Step step) {
  const auto cover = [&](auto lanes, int64_t width) {
    for (int64_t j = 0; j + width < n; j += width) step(j, lanes);
    step(n - width, lanes);
  };
  constexpr int kMost = sizeof(T) == 4 ? 8 : 4;
  if (n >= kMost)
    cover(Lanes<T, kMost>{}, kMost);
  else
    cover(Lanes<T, 4>{}, 4);
}

template <class T>
void max_halves(const Plane& s, const T* x, T* y, uint8_t* choice) {
  for (int64_t i = 0; i < s.oh; ++i) {
    const T* above = x + 2 * i * s.w;
    each_window<T>(s.ow, [&](int64_t j, auto lanes) {
      lanes.max(above + 2 * j, above + s.w + 2 * j, y + i * s.ow + j, choice + i * s.ow + j);
    });
  }
}

template <class T>
void max_windows(const Plane& s, const T* x, T* y, uint8_t* choice) {
  for (int64_t i = 0; i < s.oh; ++i)
    for (int64_t j = 0; j < s.ow; ++j) {
      T best{};
      int64_t at = -1;
      s.window(i, j, [&](int64_t pixel, int64_t place) {
        const T v = x[pixel];
        if (at < 0 || beats(v, best)) best = v, at = place;
      });
      y[i * s.ow + j] = best;
      choice[i * s.ow + j] = static_cast<uint8_t>(at);
    }
}

// Every pixel is written once, and chosen by a mask of bits: which one it is cannot be predicted.
template <class T>
void max_halves_gradient(const Plane& s, const T* dy, const uint8_t* choice, T* dx) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  constexpr Bits kAll = ~Bits{0};
  static constexpr Bits kMask[4][4] = {{kAll, 0, 0, 0}, {0, kAll, 0, 0}, {0, 0, kAll, 0}, {0, 0, 0, kAll}};
  for (int64_t i = 0; i < s.oh; ++i) {
    T *above = dx + 2 * i * s.w, *below = above + s.w;
    for (int64_t j = 0; j < s.ow; ++j) {
      const Bits d = std::bit_cast<Bits>(dy[i * s.ow + j]);
      const Bits* mask = kMask[choice[i * s.ow + j]];
      above[2 * j] = std::bit_cast<T>(d & mask[0]);
      above[2 * j + 1] = std::bit_cast<T>(d & mask[1]);
      below[2 * j] = std::bit_cast<T>(d & mask[2]);
      below[2 * j + 1] = std::bit_cast<T>(d & mask[3]);
    }
    if (s.w % 2) above[s.w - 1] = below[s.w - 1] = T{0};
  }
  if (s.h % 2) std::fill(dx + (s.h - 1) * s.w, dx + s.h * s.w, T{0});
}

template <class T>
void max_windows_gradient(const Plane& s, const T* dy, const uint8_t* choice, T* dx) {
  std::fill(dx, dx + s.h * s.w, T{0});
  for (int64_t i = 0; i < s.oh; ++i)
    for (int64_t j = 0; j < s.ow; ++j) {
      const int64_t at = choice[i * s.ow + j];
      const int64_t row = i * s.g.stride - s.g.padding + at / s.g.window;
      const int64_t column = j * s.g.stride - s.g.padding + at % s.g.window;
      dx[row * s.w + column] += dy[i * s.ow + j];
    }
}

void max_pool(Stream& stream, const Tensor& x, PoolGeometry g, Tensor& y, Tensor& choice) {
  const Shape out = pool_output(x.shape(), g);
  expect(x, x.dtype(), x.shape(), "x");
  expect(y, x.dtype(), out, "y");
  expect(choice, DType::u8, out, "choice");
  const Plane s(x.shape(), out, g);
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* from = x.data<T>();
    T* to = y.data<T>();
    uint8_t* places = choice.data<uint8_t>();
    const auto pool = s.halves() ? max_halves<T> : max_windows<T>;
    each_plane(stream, x.shape(), [&](int64_t i) {
      pool(s, from + i * s.h * s.w, to + i * s.oh * s.ow, places + i * s.oh * s.ow);
    });
  });
}

void max_pool_gradient(Stream& stream, const Tensor& dy, const Tensor& choice, PoolGeometry g, Tensor& dx) {
  const Shape out = pool_output(dx.shape(), g);
  expect(dx, dy.dtype(), dx.shape(), "dx");
  expect(dy, dx.dtype(), out, "dy");
  expect(choice, DType::u8, out, "choice");
  const Plane s(dx.shape(), out, g);
  dispatch(dx.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* from = dy.data<T>();
    const uint8_t* places = choice.data<uint8_t>();
    T* to = dx.data<T>();
    const auto pool = s.halves() ? max_halves_gradient<T> : max_windows_gradient<T>;
    each_plane(stream, dx.shape(), [&](int64_t i) {
      pool(s, from + i * s.oh * s.ow, places + i * s.oh * s.ow, to + i * s.h * s.w);
    });
  });
}

void avg_pool(Stream& stream, const Tensor& x, PoolGeometry g, Tensor& y) {
  const Shape out = pool_output(x.shape(), g);
  expect(x, x.dtype(), x.shape(), "x");
  expect(y, x.dtype(), out, "y");
  const Plane s(x.shape(), out, g);
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T scale = T{1} / static_cast<T>(g.window * g.window);
    each_plane(stream, x.shape(), [&](int64_t plane) {
      const T* from = x.data<T>() + plane * s.h * s.w;
      T* to = y.data<T>() + plane * s.oh * s.ow;
      for (int64_t i = 0; i < s.oh; ++i)
        for (int64_t j = 0; j < s.ow; ++j) {
          T sum{};
          s.window(i, j, [&](int64_t pixel, int64_t) { sum += from[pixel]; });
          to[i * s.ow + j] = sum * scale;
        }
    });
  });
}

void avg_pool_gradient(Stream& stream, const Tensor& dy, PoolGeometry g, Tensor& dx) {
  const Shape out = pool_output(dx.shape(), g);
  expect(dx, dy.dtype(), dx.shape(), "dx");
  expect(dy, dx.dtype(), out, "dy");
  const Plane s(dx.shape(), out, g);
  dispatch(dx.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T scale = T{1} / static_cast<T>(g.window * g.window);
    each_plane(stream, dx.shape(), [&](int64_t plane) {
      const T* from = dy.data<T>() + plane * s.oh * s.ow;
      T* to = dx.data<T>() + plane * s.h * s.w;
      std::fill(to, to + s.h * s.w, T{0});
      for (int64_t i = 0; i < s.oh; ++i)
        for (int64_t j = 0; j < s.ow; ++j) {
          const T share = from[i * s.ow + j] * scale;
          s.window(i, j, [&](int64_t pixel, int64_t) { to[pixel] += share; });
        }
    });
  });
}

// Number of pixels a channel; there must be some.
int64_t expect_images(const Tensor& x, const Tensor& y, const char* name) {
  expect_dims(x, 4, 4, name);
  const int64_t pixels = x.shape()[2] * x.shape()[3];
  TROUPE_CHECK(pixels > 0, name, " is ", x.shape(), ": no pixels have no mean");
  expect(y, x.dtype(), {x.shape()[0], x.shape()[1]}, "the pooled tensor");
  return pixels;
}

void global_avg_pool(Stream& stream, const Tensor& x, Tensor& y) {
  const int64_t pixels = expect_images(x, y, "x");
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* from = x.data<T>();
    T* to = y.data<T>();
    each_plane(stream, x.shape(), [&](int64_t plane) {
      const T* p = from + plane * pixels;
      to[plane] = lane_sum<T>(pixels, [=](int64_t i) { return p[i]; }) / static_cast<T>(pixels);
    });
  });
}

void global_avg_pool_gradient(Stream& stream, const Tensor& dy, Tensor& dx) {
  const int64_t pixels = expect_images(dx, dy, "dx");
  dispatch(dx.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* from = dy.data<T>();
    T* to = dx.data<T>();
    each_plane(stream, dx.shape(), [&](int64_t plane) {
      std::fill(to + plane * pixels, to + (plane + 1) * pixels, from[plane] / static_cast<T>(pixels));
    });
  });
}

}  // namespace

PoolOps pool_ops() {
  return {max_pool,          max_pool_gradient, avg_pool,
          avg_pool_gradient, global_avg_pool,   global_avg_pool_gradient};
}

}  // namespace troupe::ops::cpu
