#include <troupe/kernels/ops/cuda/families.h>
#include <troupe/kernels/ops/cuda/tensors.h>
#include <troupe/kernels/ops/cuda/conv.cuh>
#include <troupe/kernels/ops/cuda/conv_choice.h>
#include <troupe/kernels/ops/internal/epilogue.h>

namespace troupe::ops::cuda {
namespace {

// Images are taken as many at a time as make a matrix of patches of about this size.
constexpr int64_t kPatchBytes = int64_t{256} << 20;

void expect_conv(const Tensor& x, const Tensor& w, const Tensor& y, ConvGeometry g) {
  expect_dims(x, 4, 4, "images");
  expect_dims(w, 4, 4, "weights");
  expect(x, x.dtype(), x.shape(), "images");
  expect(w, x.dtype(), w.shape(), "weights");
  expect(y, x.dtype(), conv_output(x.shape(), w.shape(), g), "convolved images");
}

// One convolution, taken apart into chunks of images. x [n, c, h, w], w [o, c, kh, kw], y [n, o, oh, ow].
struct Chunks {
  int64_t images, outputs;
  PatchShape patches;  // of the largest chunk
  DType dtype;

  Chunks(const Tensor& x, const Shape& w, const Shape& y, ConvGeometry g)
      : images(x.shape()[0]),
        outputs(w[0]),
        patches{0, x.shape()[1], x.shape()[2], x.shape()[3], w[2], w[3], y[2], y[3], g.stride, g.padding},
        dtype(x.dtype()) {
    const int64_t image_bytes =
        std::max<int64_t>(1, patches.rows() * patches.places() * static_cast<int64_t>(size_of(dtype)));
    patches.images = std::clamp<int64_t>(kPatchBytes / image_bytes, 1, std::max<int64_t>(1, images));
  }

  // body(first image, patches of the chunk) for all chunks.
  template <class Body>
  void each(Body body) const {
    PatchShape chunk = patches;
    for (int64_t first = 0; first < images; first += patches.images) {
      chunk.images = std::min(patches.images, images - first);
      body(first, chunk);
    }
  }
};

// Images [first, first + count) of x.
Tensor part(const Tensor& x, int64_t first, int64_t count) {
  const Shape& s = x.shape();
  return x.view(first * s[1] * s[2] * s[3], {count, s[1], s[2], s[3]});
}

bool small(int64_t n) { return n <= 0xffffffff; }

Tensor patch_matrix(Stream& stream, const PatchShape& s, const Tensor& x) {
  Tensor col = stream.empty({s.rows(), s.columns()}, x.dtype());
  const int64_t threads = s.c * s.columns();
  if (threads == 0) return col;
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    TROUPE_LAUNCH(gather_patches<T>, blocks_for(threads), kBlockThreads, 0, stream, s, small(threads), x.data<T>(),
                  col.data<T>());
  });
  return col;
}

// y[b, a, inner] of x[a, b, inner].
template <class T, class F>
void swap(Stream& stream, int64_t a, int64_t b, int64_t inner, F f, const Tensor& x, Tensor& y) {
  const int64_t n = a * b * inner;
  if (n > 0)
    TROUPE_LAUNCH((swap_first_two<T, F>), blocks_for(n), kBlockThreads, 0, stream, n, small(n), a, b, inner, f,
                  x.data<T>(), y.data<T>());
}

// [o, images x places] of dy [images, o, oh, ow].
Tensor by_output(Stream& stream, const PatchShape& s, int64_t outputs, const Tensor& dy) {
  Tensor rows = stream.empty({outputs, s.columns()}, dy.dtype());
  dispatch(dy.dtype(),
           [&](auto zero) { swap<decltype(zero)>(stream, s.images, outputs, s.places(), Unchanged{}, dy, rows); });
  return rows;
}

void conv(Stream& stream, const Tensor& x, const Tensor& w, const Tensor& bias, ConvGeometry g, Epilogue epilogue,
          Tensor& y) {
  expect_conv(x, w, y, g);
  if (bias) expect(bias, x.dtype(), {w.shape()[0]}, "bias");
  if (y.count() == 0) return;
  const Chunks chunks(x, w.shape(), y.shape(), g);
  chunks.each([&](int64_t first, const PatchShape& s) {
    const Tensor col = patch_matrix(stream, s, part(x, first, s.images));
    Tensor product = stream.empty({chunks.outputs, s.columns()}, x.dtype()), to = part(y, first, s.images);
    gemm_ops().gemm(stream, Trans::no, Trans::no, w.reshaped({chunks.outputs, s.rows()}), col, 0, product);
    dispatch(x.dtype(), [&](auto zero) {
      using T = decltype(zero);
      const BiasAndRelu<T> finish{bias ? bias.data<T>() : nullptr, epilogue == Epilogue::relu};
      swap<T>(stream, chunks.outputs, s.images, s.places(), finish, product, to);
    });
  });
  if (epilogue != Epilogue::relu) apply(stream, activation_ops(), epilogue, y);
}

void input_gradient(Stream& stream, const Tensor& dy, const Tensor& w, ConvGeometry g, Tensor& dx) {
  expect_conv(dx, w, dy, g);
  if (dx.count() == 0) return;
  const Chunks chunks(dx, w.shape(), dy.shape(), g);
  chunks.each([&](int64_t first, const PatchShape& s) {
    const Tensor rows = by_output(stream, s, chunks.outputs, part(dy, first, s.images));
    Tensor col = stream.empty({s.rows(), s.columns()}, dx.dtype()), to = part(dx, first, s.images);
    gemm_ops().gemm(stream, Trans::yes, Trans::no, w.reshaped({chunks.outputs, s.rows()}), rows, 0, col);
    dispatch(dx.dtype(), [&](auto zero) {
      using T = decltype(zero);
      TROUPE_LAUNCH(sum_patches<T>, blocks_for(s.pixels()), kBlockThreads, 0, stream, s, small(s.pixels()),
                    col.data<T>(), to.data<T>());
    });
  });
}

void weight_gradient(Stream& stream, const Tensor& x, const Tensor& dy, ConvGeometry g, Write write, Tensor& dw,
                     Tensor& dbias) {
  expect_conv(x, dw, dy, g);
  if (dbias) bias_ops().bias_gradient(stream, dy, write, dbias);
  if (dw.count() == 0) return;
  if (x.count() == 0) {
    if (write == Write::set) elementwise_ops().fill(stream, 0, dw);
    return;
  }
  const Chunks chunks(x, dw.shape(), dy.shape(), g);
  chunks.each([&](int64_t first, const PatchShape& s) {
    const Tensor col = patch_matrix(stream, s, part(x, first, s.images));
    const Tensor rows = by_output(stream, s, chunks.outputs, part(dy, first, s.images));
    Tensor sum = dw.reshaped({chunks.outputs, s.rows()});
    const double beta = first == 0 && write == Write::set ? 0 : 1;
    gemm_ops().gemm(stream, Trans::no, Trans::yes, rows, col, beta, sum);
  });
}

}  // namespace

ConvOps patch_conv_ops() { return {conv, input_gradient, weight_gradient}; }

}  // namespace troupe::ops::cuda
