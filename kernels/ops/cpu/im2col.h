#pragma once
#include <algorithm>
#include <cstdint>

namespace troupe::ops::cpu {

/// One image [c, h, w] under a kernel of kh x kw that stops at oh x ow places.
struct Patches {
  int64_t c, h, w, kh, kw, oh, ow, stride, padding;

  int64_t rows() const { return c * kh * kw; }
  int64_t columns() const { return oh * ow; }
  int64_t pixels() const { return c * h * w; }

  /// run(first element of a matrix row, first pixel, j0, j1) for every row piece of the [rows, columns]
  /// matrix in which column (i, j) of row (channel, p, q) is pixel (i stride + p - padding, j stride + q -
  /// padding): places j0 <= j < j1 lie inside the image and are `stride` pixels apart; the rest of the ow
  /// places lie outside.
  template <class Run>
  void each_run(Run run) const {
    for (int64_t row = 0; row < rows(); ++row) {
      const int64_t channel = row / (kh * kw), p = row / kw % kh, q = row % kw;
      const int64_t left = q - padding;  // column of the pixel for j = 0
      const int64_t j0 = std::min(ow, left < 0 ? (-left + stride - 1) / stride : 0);
      const int64_t j1 = std::max(j0, std::min(ow, (w - left + stride - 1) / stride));
      for (int64_t i = 0; i < oh; ++i) {
        const int64_t y = i * stride + p - padding;
        if (y >= 0 && y < h)
          run(row * columns() + i * ow, (channel * h + y) * w + left, j0, j1);
        else
          run(row * columns() + i * ow, 0, 0, 0);
      }
    }
  }

  /// col = the matrix of patches of `image`, so that a convolution is weights [o, rows] x col.
  template <class T>
  void gather(const T* image, T* col) const {
    each_run([&](int64_t to, int64_t from, int64_t j0, int64_t j1) {
      std::fill(col + to, col + to + j0, T{0});
      if (stride == 1)
        std::copy(image + from + j0, image + from + j1, col + to + j0);
      else
        for (int64_t j = j0; j < j1; ++j) col[to + j] = image[from + j * stride];
      std::fill(col + to + j1, col + to + ow, T{0});
    });
  }

  /// image += every element of `col` at the pixel it was gathered from.
  template <class T>
  void scatter_add(const T* col, T* image) const {
    each_run([&](int64_t from, int64_t to, int64_t j0, int64_t j1) {
#pragma GCC ivdep
      for (int64_t j = j0; j < j1; ++j) image[to + j * stride] += col[from + j];
    });
  }
};

}  // namespace troupe::ops::cpu
