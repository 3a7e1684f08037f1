#include <troupe/kernels/ops/conv.h>

namespace troupe::ops {

Shape conv_output(const Shape& x, const Shape& w, ConvGeometry g) {
  TROUPE_CHECK(x.dims() == 4 && w.dims() == 4 && x[1] == w[1], "images ", x, ", weights ", w);
  TROUPE_CHECK(g.stride >= 1 && g.padding >= 0, "stride ", g.stride, ", padding ", g.padding);
  TROUPE_CHECK(w[2] >= 1 && w[3] >= 1 && w[2] <= x[2] + 2 * g.padding && w[3] <= x[3] + 2 * g.padding,
               "images ", x, ", weights ", w, ", padding ", g.padding);
  return {x[0], w[0], (x[2] + 2 * g.padding - w[2]) / g.stride + 1,
          (x[3] + 2 * g.padding - w[3]) / g.stride + 1};
}

}  // namespace troupe::ops
