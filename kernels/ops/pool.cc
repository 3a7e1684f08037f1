#include <troupe/kernels/ops/pool.h>

namespace troupe::ops {

Shape pool_output(const Shape& x, PoolGeometry g) {
  TROUPE_CHECK(x.dims() == 4, "images ", x);
  TROUPE_CHECK(g.window >= 1 && g.window <= 15 && g.stride >= 1 && g.padding >= 0 && g.padding < g.window,
               "window ", g.window, ", stride ", g.stride, ", padding ", g.padding);
  TROUPE_CHECK(g.window <= x[2] + 2 * g.padding && g.window <= x[3] + 2 * g.padding, "images ", x,
               ", window ", g.window, ", padding ", g.padding);
  return {x[0], x[1], (x[2] + 2 * g.padding - g.window) / g.stride + 1,
          (x[3] + 2 * g.padding - g.window) / g.stride + 1};
}

}  // namespace troupe::ops
