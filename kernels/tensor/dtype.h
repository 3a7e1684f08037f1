#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace troupe {

/// Element types. The names are those of safetensors ("F32"). f16 (IEEE 754 binary16) and bf16 (the upper half of a
/// float) are for storage: whoever computes with them computes in float.
enum class DType : uint8_t { f32, f64, i32, u8, f16, bf16 };

constexpr size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return 4;
    case DType::f64: return 8;
    case DType::i32: return 4;
    case DType::u8: return 1;
    case DType::f16: return 2;
    case DType::bf16: return 2;
  }
  return 0;
}

constexpr std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return "F32";
    case DType::f64: return "F64";
    case DType::i32: return "I32";
    case DType::u8: return "U8";
    case DType::f16: return "F16";
    case DType::bf16: return "BF16";
  }
  return "?";
}

std::optional<DType> dtype_named(std::string_view name);

/// One element of an f16 or bf16 tensor; half.h converts.
struct Half {
  uint16_t bits = 0;
};
struct BFloat16 {
  uint16_t bits = 0;
};

template <class T>
concept Element = std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, int32_t> ||
                  std::same_as<T, uint8_t> || std::same_as<T, Half> || std::same_as<T, BFloat16>;

template <Element T> inline constexpr DType dtype_of = DType::u8;
template <> inline constexpr DType dtype_of<float> = DType::f32;
template <> inline constexpr DType dtype_of<double> = DType::f64;
template <> inline constexpr DType dtype_of<int32_t> = DType::i32;
template <> inline constexpr DType dtype_of<Half> = DType::f16;
template <> inline constexpr DType dtype_of<BFloat16> = DType::bf16;

}  // namespace troupe
