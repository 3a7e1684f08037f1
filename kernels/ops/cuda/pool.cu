#include <troupe/kernels/ops/cuda/families.h>
#include <troupe/kernels/ops/cuda/tensors.h>
#include <troupe/kernels/ops/cuda/channel_map.cuh>
#include <troupe/kernels/ops/cuda/pool.cuh>
#include <troupe/kernels/ops/cuda/row.cuh>

namespace troupe::ops::cuda {
namespace {

PoolPlane plane_of(const Shape& x, const Shape& y, PoolGeometry g) {
  return {x[2], x[3], y[2], y[3], g.window, g.stride, g.padding};
}

bool small(const Tensor& t) { return t.count() <= 0xffffffff; }

void max_pool(Stream& stream, const Tensor& x, PoolGeometry g, Tensor& y, Tensor& choice) {
  const Shape out = pool_output(x.shape(), g);
  expect(x, x.dtype(), x.shape(), "x");
  expect(y, x.dtype(), out, "y");
  expect(choice, DType::u8, out, "choice");
  if (y.count() == 0) return;
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    TROUPE_LAUNCH(max_pool_windows<T>, blocks_for(y.count()), kBlockThreads, 0, stream, y.count(), small(y),
                  plane_of(x.shape(), out, g), x.data<T>(), y.data<T>(), choice.data<uint8_t>());
  });
}

void max_pool_gradient(Stream& stream, const Tensor& dy, const Tensor& choice, PoolGeometry g, Tensor& dx) {
  const Shape out = pool_output(dx.shape(), g);
  expect(dx, dy.dtype(), dx.shape(), "dx");
  expect(dy, dx.dtype(), out, "dy");
  expect(choice, DType::u8, out, "choice");
  if (dx.count() == 0) return;
  dispatch(dx.dtype(), [&](auto zero) {
    using T = decltype(zero);
    TROUPE_LAUNCH(max_pool_gradient_pixels<T>, blocks_for(dx.count()), kBlockThreads, 0, stream, dx.count(), small(dx),
                  plane_of(dx.shape(), out, g), dy.data<T>(), choice.data<uint8_t>(), dx.data<T>());
  });
}

template <class T>
T share_of(PoolGeometry g) {
  return T{1} / static_cast<T>(g.window * g.window);
}

void avg_pool(Stream& stream, const Tensor& x, PoolGeometry g, Tensor& y) {
  const Shape out = pool_output(x.shape(), g);
  expect(x, x.dtype(), x.shape(), "x");
  expect(y, x.dtype(), out, "y");
  if (y.count() == 0) return;
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    TROUPE_LAUNCH(avg_pool_windows<T>, blocks_for(y.count()), kBlockThreads, 0, stream, y.count(), small(y),
                  plane_of(x.shape(), out, g), share_of<T>(g), x.data<T>(), y.data<T>());
  });
}

void avg_pool_gradient(Stream& stream, const Tensor& dy, PoolGeometry g, Tensor& dx) {
  const Shape out = pool_output(dx.shape(), g);
  expect(dx, dy.dtype(), dx.shape(), "dx");
  expect(dy, dx.dtype(), out, "dy");
  if (dx.count() == 0) return;
  dispatch(dx.dtype(), [&](auto zero) {
    using T = decltype(zero);
    TROUPE_LAUNCH(avg_pool_gradient_pixels<T>, blocks_for(dx.count()), kBlockThreads, 0, stream, dx.count(), small(dx),
                  plane_of(dx.shape(), out, g), share_of<T>(g), dy.data<T>(), dx.data<T>());
  });
}

// y[r] = the mean of row r of x [m, n].
template <class T, int kWidth, int kTeam>
__global__ void mean_of_rows(int64_t m, int64_t n, const T* x, T* y) {
  const int64_t r = team_number<kTeam>();
  if (r >= m) return;
  const RowPart<T, kWidth, kTeam, 1> row(n, {x + r * n});
  Sums<T, 1> sum = Sums<T, 1>::none();
  row.each([&](int64_t, const auto& packs) {
    for (int w = 0; w < kWidth; ++w) sum.at[0] += packs.of[0].at[w];
  });
  sum = team_reduce<kTeam>(sum);
  if (team_lane<kTeam>() == 0) y[r] = sum.at[0] / static_cast<T>(n);
}

template <class T>
struct Share {
  const T* dy;
  T pixels;
  __device__ T operator()(int64_t plane, int64_t) const { return dy[plane] / pixels; }
};

// Images as planes of pixels, of which there must be some.
Channels expect_images(const Tensor& x, const Tensor& y, const char* name) {
  expect_dims(x, 4, 4, name);
  expect(x, x.dtype(), x.shape(), name);
  const int64_t planes = x.shape()[0] * x.shape()[1], pixels = x.shape()[2] * x.shape()[3];
  TROUPE_CHECK(pixels > 0, name, " is ", x.shape(), ": no pixels have no mean");
  expect(y, x.dtype(), {x.shape()[0], x.shape()[1]}, "the pooled tensor");
  return Channels(x.reshaped({1, planes, pixels}), name);
}

void global_avg_pool(Stream& stream, const Tensor& x, Tensor& y) {
  const Channels shape = expect_images(x, y, "x");
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto launch = [&](auto width, auto team, unsigned blocks) {
      TROUPE_LAUNCH((mean_of_rows<T, decltype(width)::value, decltype(team)::value>), blocks, kBlockThreads, 0, stream,
                    shape.count, shape.inner, x.data<T>(), y.data<T>());
    };
    over_rows(shape.count, shape.inner, launch, x.data<T>());
  });
}

void global_avg_pool_gradient(Stream& stream, const Tensor& dy, Tensor& dx) {
  const Channels shape = expect_images(dx, dy, "dx");
  dispatch(dx.dtype(), [&](auto zero) {
    using T = decltype(zero);
    map_channels(stream, shape, Share<T>{dy.data<T>(), static_cast<T>(shape.inner)}, dx.data<T>());
  });
}

}  // namespace

PoolOps pool_ops() {
  return {max_pool, max_pool_gradient, avg_pool, avg_pool_gradient, global_avg_pool, global_avg_pool_gradient};
}

}  // namespace troupe::ops::cuda
