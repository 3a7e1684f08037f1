#pragma once
#include <troupe/kernels/ops/cuda/pack.cuh>

/// ops/rotary.h: the angles of all positions once, in double precision, then a thread for each pair of elements.
namespace troupe::ops::cuda {

template <class T>
struct Turn {
  T cosine, sine;
};

/// turns[i, c] (=) for i < t, c < half: angle sign i base^(-c / half).
template <class T>
__global__ void make_turns(int64_t t, int64_t half, double base, double sign, Turn<T>* turns) {
  const int64_t k = thread_number();
  if (k >= t * half) return;
  const int64_t i = k / half, c = k - i * half;
  const double angle = static_cast<double>(i) * sign * pow(base, -static_cast<double>(c) / static_cast<double>(half));
  turns[k] = {static_cast<T>(cos(angle)), static_cast<T>(sin(angle))};
}

/// Queries and keys of qkv [n, t, 3, heads, 2 half], in place; neighbours turn neighbours.
template <class T>
__global__ void turn_pairs(int64_t pairs, int64_t t, int64_t heads, int64_t half, const Turn<T>* turns, T* qkv) {
  const int64_t k = thread_number();
  if (k >= pairs) return;
  const bool small = pairs <= 0xffffffff;
  const int64_t head = quotient(k, half, small), row = quotient(head, 2 * heads, small);
  const int64_t c = k - head * half, position = row - quotient(row, t, small) * t;
  T* x = qkv + row * 6 * heads * half + (head - row * 2 * heads) * 2 * half + c;
  const Turn<T> turn = turns[position * half + c];
  const T left = x[0], right = x[half];
  x[0] = left * turn.cosine - right * turn.sine;
  x[half] = right * turn.cosine + left * turn.sine;
}

}  // namespace troupe::ops::cuda
