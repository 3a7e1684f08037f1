#pragma once
#include <ostream>

#include <troupe/kernels/ops/conv.h>
#include <troupe/kernels/ops/pool.h>

/// Sizes that an op with windows is tested on, on the CPU and as CUDA kernels.
namespace troupe::test {

struct ConvCase {
  Shape x, w;
  ops::ConvGeometry geometry;
  Shape y() const { return ops::conv_output(x, w, geometry); }
};

inline std::ostream& operator<<(std::ostream& out, const ConvCase& c) {
  return out << c.x << " * " << c.w << " stride " << c.geometry.stride << " padding " << c.geometry.padding;
}

struct PoolCase {
  Shape x;
  ops::PoolGeometry geometry;
  Shape y() const { return ops::pool_output(x, geometry); }
};

inline std::ostream& operator<<(std::ostream& out, const PoolCase& c) {
  return out << c.x << " window " << c.geometry.window << " stride " << c.geometry.stride << " padding "
             << c.geometry.padding;
}

}  // namespace troupe::test
