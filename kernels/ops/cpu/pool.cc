#include <algorithm>

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

// The pool of nearly every network, 2 x 2 windows side by side, in a form that vectorises.
template <class T>
void max_halves(const Plane& s, const T* x, T* y, uint8_t* choice) {
  for (int64_t i = 0; i < s.oh; ++i) {
    const T *above = x + 2 * i * s.w, *below = above + s.w;
    T* to = y + i * s.ow;
    uint8_t* place = choice + i * s.ow;
#pragma GCC ivdep
    for (int64_t j = 0; j < s.ow; ++j) {
      const T a = above[2 * j], b = above[2 * j + 1], c = below[2 * j], d = below[2 * j + 1];
      T best = a;
      int32_t at = 0;
      const bool b_wins = (b > best) | ((b != b) & (best == best));
      best = b_wins ? b : best, at = b_wins ? 1 : at;
      const bool c_wins = (c > best) | ((c != c) & (best == best));
      best = c_wins ? c : best, at = c_wins ? 2 : at;
      const bool d_wins = (d > best) | ((d != d) & (best == best));
      best = d_wins ? d : best, at = d_wins ? 3 : at;
      to[j] = best;
      place[j] = static_cast<uint8_t>(at);
    }
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
        if (at < 0 || v > best || (v != v && best == best)) best = v, at = place;
      });
      y[i * s.ow + j] = best;
      choice[i * s.ow + j] = static_cast<uint8_t>(at);
    }
}

template <class T>
void max_halves_gradient(const Plane& s, const T* dy, const uint8_t* choice, T* dx) {
  for (int64_t i = 0; i < s.oh; ++i) {
    T *above = dx + 2 * i * s.w, *below = above + s.w;
    const T* d = dy + i * s.ow;
    const uint8_t* place = choice + i * s.ow;
#pragma GCC ivdep
    for (int64_t j = 0; j < s.ow; ++j) {
      const int32_t at = place[j];
      above[2 * j] = at == 0 ? d[j] : T{0};
      above[2 * j + 1] = at == 1 ? d[j] : T{0};
      below[2 * j] = at == 2 ? d[j] : T{0};
      below[2 * j + 1] = at == 3 ? d[j] : T{0};
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
