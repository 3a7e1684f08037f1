#pragma once
#include <concepts>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

/// The state of plain objects as bytes: numbers little-endian, texts and containers behind their size (u32). Which
/// fields there are in which order is said once, by `fields(x)` or a static `fields` of the type, a tuple of
/// references, for both directions.
namespace troupe::ps {

template <class T, class Struct>
concept Of = std::same_as<std::remove_const_t<T>, Struct>;

template <class T>
concept Plain = std::is_arithmetic_v<T> || std::is_enum_v<T>;

class ImageWriter {
 public:
  template <Plain T>
  void operator()(const T& x) {
    const auto* raw = reinterpret_cast<const std::byte*>(&x);
    bytes_.insert(bytes_.end(), raw, raw + sizeof x);
  }
  void operator()(const std::string& x) { all(x); }
  template <class T>
  void operator()(const std::optional<T>& x) {
    (*this)(x.has_value());
    if (x) (*this)(*x);
  }
  template <class A, class B>
  void operator()(const std::pair<A, B>& x) { (*this)(x.first), (*this)(x.second); }
  template <class T>
  void operator()(const std::vector<T>& x) { all(x); }
  template <class T>
  void operator()(const std::deque<T>& x) { all(x); }
  template <class T>
  void operator()(const std::set<T>& x) { all(x); }
  template <class K, class V>
  void operator()(const std::map<K, V>& x) { all(x); }
  template <class T>
    requires requires(const T& x) { fields(x); }
  void operator()(const T& x) {
    std::apply([this](const auto&... field) { ((*this)(field), ...); }, fields(x));
  }
  template <class T>
    requires requires(const T& x) { T::fields(x); }
  void operator()(const T& x) {
    std::apply([this](const auto&... field) { ((*this)(field), ...); }, T::fields(x));
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  template <class Container>
  void all(const Container& x) {
    (*this)(static_cast<uint32_t>(x.size()));
    for (const auto& element : x) (*this)(element);
  }
  std::vector<std::byte> bytes_;
};

/// After the first byte that is not there, everything read is empty and `whole` is false.
class ImageReader {
 public:
  explicit ImageReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <Plain T>
  void operator()(T& x) {
    good_ = good_ && sizeof x <= rest_.size();
    x = T{};
    if (!good_) return;
    std::memcpy(&x, rest_.data(), sizeof x);
    rest_ = rest_.subspan(sizeof x);
  }
  void operator()(std::string& x) { append(x); }
  template <class T>
  void operator()(std::optional<T>& x) {
    bool there = false;
    (*this)(there);
    x.reset();
    if (there) (*this)(x.emplace());
  }
  template <class A, class B>
  void operator()(std::pair<A, B>& x) { (*this)(x.first), (*this)(x.second); }
  template <class T>
  void operator()(std::vector<T>& x) { append(x); }
  template <class T>
  void operator()(std::deque<T>& x) { append(x); }
  template <class T>
  void operator()(std::set<T>& x) {
    x.clear();
    for (uint32_t left = size(); left > 0 && good_; --left) x.insert(x.end(), one<T>());
  }
  template <class K, class V>
  void operator()(std::map<K, V>& x) {
    x.clear();
    for (uint32_t left = size(); left > 0 && good_; --left) {
      K key = one<K>();
      (*this)(x[std::move(key)]);
    }
  }
  template <class T>
    requires requires(T& x) { fields(x); }
  void operator()(T& x) {
    std::apply([this](auto&... field) { ((*this)(field), ...); }, fields(x));
  }
  template <class T>
    requires requires(T& x) { T::fields(x); }
  void operator()(T& x) {
    std::apply([this](auto&... field) { ((*this)(field), ...); }, T::fields(x));
  }
  bool whole() const { return good_ && rest_.empty(); }

 private:
  uint32_t size() {
    uint32_t size = 0;
    (*this)(size);
    return size;
  }
  template <class T>
  T one() {
    T x{};
    (*this)(x);
    return x;
  }
  template <class Container>
  void append(Container& x) {
    x.clear();
    for (uint32_t left = size(); left > 0 && good_; --left) x.push_back(one<typename Container::value_type>());
  }
  std::span<const std::byte> rest_;
  bool good_ = true;
};

}  // namespace troupe::ps
