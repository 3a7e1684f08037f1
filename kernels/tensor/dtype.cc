#include <troupe/kernels/tensor/dtype.h>

namespace troupe {

std::optional<DType> dtype_named(std::string_view name) {
  for (DType dtype : {DType::f32, DType::f64, DType::i32, DType::u8, DType::f16, DType::bf16})
    if (name_of(dtype) == name) return dtype;
  return std::nullopt;
}

}  // namespace troupe
