#include <troupe/ps/data/npy.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include <troupe/ps/data/byte_source.h>

namespace troupe::ps {

namespace {

/// NumPy itself refuses longer headers for safety.
constexpr size_t kMaxHeaderBytes = size_t{1} << 16;

struct Header {
  uint64_t bytes = 0;  ///< its own
  std::string type;  ///< "<f4"
  bool fortran_order = false;
  std::vector<int64_t> shape;
};

/// Reads {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } in any order of keys; nothing else of
/// Python.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  std::optional<Header> parse() {
    Header header;
    int seen = 0;
    if (!take('{')) return {};
    while (!take('}')) {
      std::string key;
      if (!string(key) || !take(':')) return {};
      bool ok = false;
      if (key == "descr") ok = string(header.type), seen |= 1;
      if (key == "fortran_order") ok = boolean(header.fortran_order), seen |= 2;
      if (key == "shape") ok = tuple(header.shape), seen |= 4;
      if (!ok) return {};
      if (!take(',') && !peek('}')) return {};
    }
    skip_space();
    if (seen != 7 || !text_.empty()) return {};
    return header;
  }

 private:
  void skip_space() {
    while (!text_.empty() && (text_.front() == ' ' || text_.front() == '\n')) text_.remove_prefix(1);
  }
  bool peek(char c) {
    skip_space();
    return !text_.empty() && text_.front() == c;
  }
  bool take(char c) {
    if (!peek(c)) return false;
    text_.remove_prefix(1);
    return true;
  }
  bool word(std::string_view w) {
    skip_space();
    if (!text_.starts_with(w)) return false;
    text_.remove_prefix(w.size());
    return true;
  }
  bool string(std::string& out) {
    const char quote = peek('\'') ? '\'' : '"';
    if (!take(quote)) return false;
    const size_t end = text_.find(quote);
    if (end == std::string_view::npos) return false;
    out = text_.substr(0, end);
    text_.remove_prefix(end + 1);
    return true;
  }
  bool boolean(bool& out) { return (out = word("True")) || word("False"); }
  bool tuple(std::vector<int64_t>& out) {
    if (!take('(')) return false;
    while (!take(')')) {
      skip_space();
      int64_t n = 0;
      const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), n);
      if (error != std::errc{} || n < 0) return false;
      text_.remove_prefix(static_cast<size_t>(end - text_.data()));
      out.push_back(n);
      if (!take(',') && !peek(')')) return false;
    }
    return true;
  }

  std::string_view text_;
};

Result<Header> read_header(ByteSource& source) {
  const std::string& path = source.path();
  uint8_t start[12];
  TROUPE_TRY(source.read({start, 8}, "the NPY header"));
  if (std::memcmp(start, "\x93NUMPY", 6) != 0)
    return fail(ErrorKind::corrupt,
                cat(path, " is not an NPY file: it does not begin with \\x93NUMPY",
                    start[0] == 'P' && start[1] == 'K' ? " (an NPZ archive: unzip it first)" : ""));
  if (start[6] < 1 || start[6] > 3)
    return fail(ErrorKind::invalid,
                cat(path, " is NPY version ", int{start[6]}, "; versions 1 to 3 can be read"));
  const size_t length_bytes = start[6] == 1 ? 2 : 4;
  TROUPE_TRY(source.read({start + 8, length_bytes}, "the NPY header"));
  size_t length = 0;
  for (size_t i = 0; i < length_bytes; ++i) length |= size_t{start[8 + i]} << 8 * i;
  if (length > kMaxHeaderBytes || length > source.at_most_left())
    return fail(ErrorKind::corrupt, cat(path, " announces a header of ", length, " bytes, in a file of ",
                                        source.file_bytes(), " bytes: it is damaged or cut short"));
  std::string text(length, '\0');
  TROUPE_TRY(source.read({reinterpret_cast<uint8_t*>(text.data()), length}, "the NPY header"));
  auto header = HeaderParser(text).parse();
  if (!header)
    return fail(ErrorKind::corrupt,
                cat(path, " has an NPY header that cannot be read: ", text.substr(0, 200)));
  if (header->fortran_order)
    return fail(ErrorKind::invalid,
                cat(path, " is stored in Fortran order; save numpy.ascontiguousarray(x) instead"));
  if (header->shape.empty() || header->shape.size() > Shape::kMaxDims)
    return fail(ErrorKind::invalid, cat(path, " has ", header->shape.size(), " dimensions; 1 to ",
                                        Shape::kMaxDims, " can be read"));
  header->bytes = 8 + length_bytes + length;
  return *header;
}

/// Reads `count` elements of type T through a small buffer; `store(i, x)` says whether x could be stored.
template <class T, class Store>
Status read_elements(ByteSource& source, size_t count, const Store& store) {
  std::vector<T> part(std::min<size_t>(count, 8192));
  for (size_t done = 0; done < count;) {
    const size_t n = std::min(part.size(), count - done);
    TROUPE_TRY(source.read({reinterpret_cast<uint8_t*>(part.data()), n * sizeof(T)}, "the array's data"));
    for (size_t i = 0; i < n; ++i)
      if (!store(done + i, part[i]))
        return fail(ErrorKind::invalid, cat(source.path(), ": element ", done + i, " is ", part[i],
                                            ", which is no label (32 bits)"));
    done += n;
  }
  return {};
}

/// Elements of a type that `store` converts.
template <class Store>
Status read_typed(ByteSource& source, const std::string& type, Tensor& out, const Store& store) {
  const auto count = static_cast<size_t>(out.count());
  if (type == "|u1") return read_elements<uint8_t>(source, count, store);
  if (type == "<i4") return read_elements<int32_t>(source, count, store);
  if (type == "<i8") return read_elements<int64_t>(source, count, store);
  if (type == "<f4") return read_elements<float>(source, count, store);
  return read_elements<double>(source, count, store);
}

Result<Tensor> read_npy(const std::string& path, bool labels) {
  auto opened = open_source(path);
  if (!opened) return tl::unexpected(opened.error());
  ByteSource& source = **opened;
  auto header = read_header(source);
  if (!header) return tl::unexpected(header.error());
  const std::string& type = header->type;
  const bool integer = type == "|u1" || type == "<i4" || type == "<i8";
  if (!integer && (labels || (type != "<f4" && type != "<f8")))
    return fail(ErrorKind::invalid,
                cat(path, " holds elements of type '", type, "'; ",
                    labels ? "labels are |u1, <i4 or <i8" : "|u1, <i4, <i8, <f4 and <f8 can be read",
                    ": convert it with numpy's astype"));
  if (labels && header->shape.size() == 2 && header->shape[1] == 1) header->shape.pop_back();
  const Shape shape{std::span<const int64_t>(header->shape)};
  if (labels && shape.dims() != 1)
    return fail(ErrorKind::invalid, cat(path, " has shape ", shape, ", labels have one dimension"));

  // Signed, as a shape counts its elements: a last dimension of 0 does not excuse those before it.
  int64_t product = type[2] - '0';
  bool fits = true;
  for (const int64_t n : header->shape) fits = fits && !__builtin_mul_overflow(product, n, &product);
  const auto bytes = static_cast<uint64_t>(product);
  const auto exact = source.exact_left();
  if (!fits || bytes > source.at_most_left() || (exact && bytes != *exact))
    return fail(ErrorKind::corrupt, cat(path, " announces elements '", type, "' of shape ", shape,
                                        fits ? cat(" = ", bytes, " bytes") : std::string(), ", but ",
                                        exact ? cat(*exact, " bytes follow")
                                              : std::string("the compressed data cannot hold that many"),
                                        " its header: it is damaged or cut short"));
  Tensor out = Tensor::empty(shape, labels ? DType::i32 : type == "|u1" ? DType::u8 : DType::f32);
  if (out.dtype() == DType::u8 || (out.dtype() == DType::f32 && type == "<f4")) {
    TROUPE_TRY(source.read({reinterpret_cast<uint8_t*>(out.raw()), bytes}, "the array's data"));
  } else if (labels) {
    int32_t* to = out.data<int32_t>();
    TROUPE_TRY(read_typed(source, type, out, [to](size_t i, auto x) {
      to[i] = static_cast<int32_t>(x);
      return static_cast<decltype(x)>(to[i]) == x;
    }));
  } else {
    float* to = out.data<float>();
    TROUPE_TRY(read_typed(source, type, out, [to](size_t i, auto x) {
      to[i] = static_cast<float>(x);
      return true;
    }));
  }
  TROUPE_TRY(source.expect_end(header->bytes + bytes));
  return out;
}

}  // namespace

Result<Tensor> read_npy_values(const std::string& path) {
  return read_npy(path, false);
}
Result<Tensor> read_npy_labels(const std::string& path) {
  return read_npy(path, true);
}

}  // namespace troupe::ps
