#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace troupe {

/// Element types. The names are those of safetensors ("F32").
enum class DType : uint8_t { f32, f64, i32, u8 };

constexpr size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return 4;
    case DType::f64: return 8;
    case DType::i32: return 4;
    case DType::u8: return 1;
  }
  return 0;
}

constexpr std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return "F32";
    case DType::f64: return "F64";
    case DType::i32: return "I32";
    case DType::u8: return "U8";
  }
  return "?";
}

std::optional<DType> dtype_named(std::string_view name);

template <class T>
concept Element =
    std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, int32_t> || std::same_as<T, uint8_t>;

template <Element T> inline constexpr DType dtype_of = DType::u8;
template <> inline constexpr DType dtype_of<float> = DType::f32;
template <> inline constexpr DType dtype_of<double> = DType::f64;
template <> inline constexpr DType dtype_of<int32_t> = DType::i32;

}  // namespace troupe
