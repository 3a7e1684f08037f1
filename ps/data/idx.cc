#include <troupe/ps/data/idx.h>

#include <troupe/ps/data/byte_source.h>

namespace troupe::ps {

namespace {

constexpr uint8_t kUnsignedBytes = 0x08;

uint32_t big_endian(const uint8_t* p) {
  return uint32_t{p[0]} << 24 | uint32_t{p[1]} << 16 | uint32_t{p[2]} << 8 | uint32_t{p[3]};
}

Status check_magic(const std::string& path, const uint8_t* magic) {
  if (magic[0] != 0 || magic[1] != 0)
    return fail(ErrorKind::corrupt, cat(path, " is not an IDX file: it begins with bytes ", int{magic[0]},
                                        ' ', int{magic[1]}, ' ', int{magic[2]}, ' ', int{magic[3]},
                                        ", an IDX file with 0 0 8 and the number of dimensions"));
  if (magic[2] != kUnsignedBytes)
    return fail(ErrorKind::invalid, cat(path, " holds elements of IDX type ", int{magic[2]},
                                        "; only type 8, unsigned bytes, can be read"));
  if (magic[3] < 1 || magic[3] > Shape::kMaxDims)
    return fail(ErrorKind::invalid,
                cat(path, " has ", int{magic[3]}, " dimensions; 1 to ", Shape::kMaxDims, " can be read"));
  return {};
}

}  // namespace

Result<Tensor> read_idx(const std::string& path) {
  auto source = open_source(path);
  if (!source) return tl::unexpected(source.error());
  uint8_t header[4 + 4 * Shape::kMaxDims];
  TROUPE_TRY((*source)->read({header, 4}, "the IDX header"));
  TROUPE_TRY(check_magic(path, header));
  const size_t dims = header[3];
  TROUPE_TRY((*source)->read({header + 4, 4 * dims}, "the IDX header's dimensions"));

  // Signed, as a shape counts its elements: a last dimension of 0 does not excuse those before it.
  int64_t count = 1;
  bool fits = true;
  int64_t size[Shape::kMaxDims];
  for (size_t d = 0; d < dims; ++d) {
    size[d] = big_endian(header + 4 + 4 * d);
    fits = fits && !__builtin_mul_overflow(count, size[d], &count);
  }
  const auto bytes = static_cast<uint64_t>(count);
  const std::span<const int64_t> shape(size, dims);
  const auto exact = (*source)->exact_left();
  if (!fits || bytes > (*source)->at_most_left() || (exact && bytes != *exact)) {
    std::string product;
    for (const int64_t n : shape) product += (product.empty() ? "" : " x ") + std::to_string(n);
    return fail(
        ErrorKind::corrupt,
        cat(path, " announces ", product, fits && dims > 1 ? cat(" = ", bytes) : std::string(), " bytes of data, but ",
            exact ? cat(*exact, " follow its header")
                  : cat("its ", (*source)->file_bytes(), " compressed bytes cannot hold that many"),
            ": the file is damaged or cut short; fetch it again"));
  }
  Tensor out = Tensor::empty(Shape(shape), DType::u8);
  TROUPE_TRY((*source)->read({out.data<uint8_t>(), bytes}, "the data that its header announces"));
  TROUPE_TRY((*source)->expect_end(4 + 4 * dims + bytes));
  return out;
}

Result<Tensor> read_idx_images(const std::string& path) {
  auto images = read_idx(path);
  if (!images) return images;
  const Shape& s = images->shape();
  if (s.dims() < 2)
    return fail(ErrorKind::invalid,
                cat(path, " has shape ", s, ", images have at least two dimensions; are these labels?"));
  return s.dims() == 3 ? images->reshaped({s[0], 1, s[1], s[2]}) : *images;
}

Result<Tensor> read_idx_labels(const std::string& path) {
  const auto bytes = read_idx(path);
  if (!bytes) return bytes;
  if (bytes->shape().dims() != 1)
    return fail(ErrorKind::invalid,
                cat(path, " has shape ", bytes->shape(), ", labels have one dimension; are these images?"));
  Tensor labels = Tensor::empty(bytes->shape(), DType::i32);
  const auto in = bytes->span<uint8_t>();
  for (size_t i = 0; i < in.size(); ++i) labels.data<int32_t>()[i] = in[i];
  return labels;
}

}  // namespace troupe::ps
