#include <algorithm>
#include <vector>

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
  bool halves() const { return g.window == 2 && g.stride == 2 && g.padding == 0; }

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
  return !(b <= a) & (a == a);
}

// The larger of each of n pairs of neighbours, and 1 where it is the right one (0 where not).
template <class T>
void larger_of_pairs(int64_t n, const T* x, T* larger, T* right) {
  for (int64_t p = 0; p < n; ++p) {
    const T a = x[2 * p], b = x[2 * p + 1];
    const bool wins = beats(b, a);
    larger[p] = wins ? b : a;
    right[p] = wins ? T{1} : T{0};
  }
}

// The pool of nearly every network, 2 x 2 windows side by side, in steps that vectorise though rows are
// short: pairs of the whole plane, pairs of rows, and the narrowing of places to bytes for the whole plane
// again.
template <class T>
void max_halves(const Plane& s, const T* x, T* y, uint8_t* choice) {
  const int64_t ow = s.ow, places = s.oh * ow;
  std::vector<T> memory(static_cast<size_t>(2 * s.h * ow + places));
  T *larger = memory.data(), *right = larger + s.h * ow, *place = right + s.h * ow;
  if (s.w % 2 == 0)
    larger_of_pairs(s.h * ow, x, larger, right);
  else
    for (int64_t row = 0; row < s.h; ++row)
      larger_of_pairs(ow, x + row * s.w, larger + row * ow, right + row * ow);
  for (int64_t i = 0; i < s.oh; ++i) {
    const T *above = larger + 2 * i * ow, *below = above + ow;
    const T *above_right = right + 2 * i * ow, *below_right = above_right + ow;
#pragma GCC ivdep
    for (int64_t j = 0; j < ow; ++j) {
      const bool wins = beats(below[j], above[j]);
      y[i * ow + j] = wins ? below[j] : above[j];
      place[i * ow + j] = wins ? below_right[j] + T{2} : above_right[j];
    }
  }
#pragma GCC ivdep
  for (int64_t k = 0; k < places; ++k) choice[k] = static_cast<uint8_t>(static_cast<int32_t>(place[k]));
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

template <class T>
void max_halves_gradient(const Plane& s, const T* dy, const uint8_t* choice, T* dx) {
  std::fill(dx, dx + s.h * s.w, T{0});
  for (int64_t i = 0; i < s.oh; ++i)
    for (int64_t j = 0; j < s.ow; ++j) {
      const int64_t at = choice[i * s.ow + j];
      dx[(2 * i + (at >> 1)) * s.w + 2 * j + (at & 1)] = dy[i * s.ow + j];
    }
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
