#pragma once
#include <capnp/list.h>
#include <capnp/message.h>

#include <string>
#include <vector>

#include <troupe/kernels/tensor/tensor.h>

namespace troupe::ps::wire {

/// Collects the tensors of a message while its fields are written; their order is their index. Not thread-safe.
class Writer {
 public:
  uint32_t add(const Tensor& tensor) {
    tensors_.push_back(tensor);
    return static_cast<uint32_t>(tensors_.size() - 1);
  }
  const std::vector<Tensor>& tensors() const { return tensors_; }
  std::vector<Tensor> take() { return std::move(tensors_); }

  /// The indices of `in`, into the list that `init(size)` makes. An empty list is left out.
  template <class Init>
  void add_all(const std::vector<Tensor>& in, Init init) {
    if (in.empty()) return;
    if (tensors_.empty()) tensors_.reserve(in.size());
    capnp::List<uint32_t>::Builder out = init(static_cast<unsigned>(in.size()));
    for (unsigned i = 0; i < in.size(); ++i) out.set(i, add(in[i]));
  }

  /// A tensor that may be empty, as a list of one or none.
  template <class Init>
  void add_some(const Tensor& in, Init init) {
    if (in) init(1U).set(0, add(in));
  }

  template <class T, class Init>
  static void numbers(const std::vector<T>& in, Init init) {
    if (in.empty()) return;
    auto out = init(static_cast<unsigned>(in.size()));
    for (unsigned i = 0; i < in.size(); ++i) out.set(i, in[i]);
  }

  template <class T, class Init>
  void structs(const std::vector<T>& in, Init init) {
    if (in.empty()) return;
    auto out = init(static_cast<unsigned>(in.size()));
    for (unsigned i = 0; i < in.size(); ++i) write(in[i], out[i], *this);
  }

  /// An empty text is left out.
  template <class Set>
  static void text(const std::string& in, Set set) {
    if (!in.empty()) set(capnp::Text::Reader(in.c_str(), in.size()));
  }

 private:
  std::vector<Tensor> tensors_;
};

}  // namespace troupe::ps::wire
