#pragma once
#include <tests/support/cuda/block_run.h>

namespace troupe::test::cuda {

/// Shared memory of a block as a kernel uses it: like a pointer to its first element, but before each element is
/// written and after it is read another thread may run, so that two threads at one element without a barrier between
/// them give a wrong answer under some seed (a lost update, say). Elements are read and written whole.
template <class T>
class SharedArray {
 public:
  class Element {
   public:
    explicit Element(T* at) : at_(at) {}
    Element(const Element&) = default;

    operator T() const {
      const T value = *at_;
      maybe_interrupt();
      return value;
    }
    T operator=(const T& value) {
      maybe_interrupt();
      return *at_ = value;
    }
    T operator=(const Element& other) { return *this = static_cast<T>(other); }
    T operator+=(const T& value) { return *this = static_cast<T>(*this) + value; }
    /// For atomics.
    T* operator&() const { return at_; }

   private:
    T* at_;
  };

  explicit SharedArray(void* data) : data_(static_cast<T*>(data)) {}
  Element operator[](int64_t i) const { return Element(data_ + i); }

 private:
  T* data_;
};

/// One array for each `Key`, as a static variable would be.
template <class T, class Key>
SharedArray<T> shared_array(size_t count, Key) {
  static const char key = 0;
  return SharedArray<T>(shared_memory(&key, count * sizeof(T)));
}

}  // namespace troupe::test::cuda
