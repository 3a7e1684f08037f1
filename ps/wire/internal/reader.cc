#include <troupe/ps/wire/internal/reader.h>

#include <algorithm>
#include <array>

namespace troupe::ps::wire {

Tensor Reader::tensor(uint32_t index, const char* field) {
  if (index >= tensors_.size()) refuse(field, " is tensor ", index, " of ", tensors_.size());
  if (taken_[index]) refuse(field, " is tensor ", index, ", which another field has already");
  taken_[index] = true;
  return std::move(tensors_[index]);
}

Tensor Reader::floats(uint32_t index, const char* field) {
  Tensor tensor = this->tensor(index, field);
  if (tensor.dtype() != DType::f32) refuse(field, " is ", name_of(tensor.dtype()), ", expected F32");
  return tensor;
}

Tensor Reader::rows(capnp::List<uint32_t>::Reader in) {
  if (in.size() == 0) return {};
  if (in.size() > 1) refuse("row numbers are ", in.size(), " tensors, at most one is possible");
  Tensor tensor = this->tensor(in[0], "row numbers");
  if (tensor.dtype() != DType::i32 || tensor.shape().dims() != 1)
    refuse("row numbers are ", name_of(tensor.dtype()), " ", tensor.shape(), ", expected I32 of one dimension");
  return tensor;
}

void Reader::finish() const {
  for (size_t i = 0; i < taken_.size(); ++i)
    if (!taken_[i]) refuse("tensor ", i, " of ", taken_.size(), " belongs to no field");
}

std::vector<int64_t> counts(capnp::List<int64_t>::Reader in, const char* field) {
  std::vector<int64_t> out;
  out.reserve(in.size());
  for (const int64_t value : in) out.push_back(Reader::count(value, field));
  return out;
}

Shape shape_of(capnp::List<int64_t>::Reader in, const char* field) {
  std::array<int64_t, Shape::kMaxDims> dims{};
  if (in.size() > dims.size()) refuse(field, " has ", in.size(), " dimensions, at most ", dims.size(), " are possible");
  int64_t count = 1;
  for (unsigned i = 0; i < in.size(); ++i) {
    dims[i] = in[i];
    if (dims[i] < 0) refuse(field, "'s dimension ", i, " is ", dims[i]);
    // Zero is as long as one here: a product must fit in any order, and without its zeros.
    if (__builtin_mul_overflow(count, std::max<int64_t>(dims[i], 1), &count) || count > kMaxCount)
      refuse(field, "'s dimensions multiply to more than ", kMaxCount);
  }
  return Shape(std::span<const int64_t>(dims.data(), in.size()));
}

}  // namespace troupe::ps::wire
