#pragma once
#include <capnp/list.h>
#include <capnp/message.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <troupe/kernels/base/text.h>
#include <troupe/kernels/tensor/tensor.h>
#include <troupe/ps/ids.h>

namespace troupe::ps::wire {

/// What a peer sent cannot be. Thrown below `decode`, which makes an Error of it: Cap'n Proto reports its own findings
/// by exceptions too, so that a field costs one line here. Never leaves ps/wire.
struct Malformed {
  std::string what;
};

template <class... Args>
[[noreturn]] void refuse(const Args&... args) {
  throw Malformed{cat(args...)};
}

/// Steps of honest peers stay far below; sums of these stay far from overflow. Negative ones mean "none yet" in
/// places, and where they do not the receiver says so.
inline constexpr int64_t kMaxStep = int64_t{1} << 48;
/// Counters and sizes.
inline constexpr int64_t kMaxCount = int64_t{1} << 60;

/// Hands out the tensors of a message, each once, and checks fields. Not thread-safe.
class Reader {
 public:
  explicit Reader(std::vector<Tensor> tensors) : tensors_(std::move(tensors)), taken_(tensors_.size(), false) {}

  /// The tensor of a field.
  Tensor tensor(uint32_t index, const char* field);
  /// Of one that holds parameters, gradients or state: F32.
  Tensor floats(uint32_t index, const char* field);
  /// Row numbers, I32 of one dimension; empty where the list is.
  Tensor rows(capnp::List<uint32_t>::Reader in);
  /// Ends in a refusal if some tensor was not asked for.
  void finish() const;

  template <class List>
  std::vector<Tensor> floats(List in, const char* field) {
    std::vector<Tensor> out;
    out.reserve(in.size());
    for (const uint32_t index : in) out.push_back(floats(index, field));
    return out;
  }

  template <class T, class List>
  static std::vector<T> numbers(List in) {
    std::vector<T> out;
    out.reserve(in.size());
    for (const T value : in) out.push_back(value);
    return out;
  }

  template <class T, class List>
  std::vector<T> structs(List in) {
    std::vector<T> out(in.size());
    for (unsigned i = 0; i < in.size(); ++i) read(in[i], out[i], *this);
    return out;
  }

  static std::string text(capnp::Text::Reader in) { return {in.begin(), in.size()}; }

  static Step step(int64_t value, const char* field) {
    if (value < -kMaxStep || value > kMaxStep) refuse(field, " ", value, " is no step");
    return value;
  }
  static int64_t count(int64_t value, const char* field) {
    if (value < 0 || value > kMaxCount) refuse(field, " ", value, " is no count");
    return value;
  }
  static double finite(double value, const char* field) {
    if (!std::isfinite(value)) refuse(field, " is ", value);
    return value;
  }

  /// True once for the event of a Replicate; an event within an event is refused.
  bool enter_event() { return !std::exchange(in_event_, true); }

 private:
  std::vector<Tensor> tensors_;
  std::vector<bool> taken_;
  bool in_event_ = false;
};

/// Enumerants have the same numbers in schema.capnp and in C++; `last` is the highest that this build knows.
template <class Out, class In>
Out enumerant(In in, Out last, const char* field) {
  if (static_cast<uint16_t>(in) > static_cast<uint16_t>(last))
    refuse(field, " ", static_cast<uint16_t>(in), " is unknown, the highest is ", static_cast<uint16_t>(last));
  return static_cast<Out>(in);
}

std::vector<int64_t> counts(capnp::List<int64_t>::Reader in, const char* field);
/// At most six dimensions, none negative, and a product that fits.
Shape shape_of(capnp::List<int64_t>::Reader in, const char* field);

}  // namespace troupe::ps::wire
