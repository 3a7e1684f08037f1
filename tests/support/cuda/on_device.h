#pragma once
#include <tests/support/cuda/emulated_stream.h>
#include <tests/support/ops.h>

namespace troupe::test::cuda {

/// Orders of threads that every kernel is tested under.
inline constexpr uint64_t kOrders[] = {1, 2, 3};

/// Where a tensor begins: where packs may, or one element later.
enum class Place { aligned, shifted };
inline constexpr Place kPlaces[] = {Place::aligned, Place::shifted};

/// Unwritten memory of the device.
inline Tensor empty_on(EmulatedStream& stream, Shape shape, DType dtype, Place place = Place::aligned) {
  const int64_t shift = place == Place::shifted ? 1 : 0;
  return stream.empty({shape.count() + shift}, dtype).view(shift, shape);
}

inline Tensor on(EmulatedStream& stream, const Tensor& t, Place place = Place::aligned) {
  Tensor out = empty_on(stream, t.shape(), t.dtype(), place);
  stream.copy(t, out);
  return out;
}

}  // namespace troupe::test::cuda
