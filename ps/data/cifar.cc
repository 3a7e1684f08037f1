#include <troupe/ps/data/cifar.h>

#include <memory>

#include <troupe/ps/data/byte_source.h>

namespace troupe::ps {

namespace {

constexpr int64_t kImageBytes = 3 * 32 * 32;

/// Number of records, or why it is none.
Result<int64_t> count_records(const ByteSource& source, int64_t record_bytes) {
  if (!source.exact_left())
    return fail(ErrorKind::invalid, cat(source.path(),
                                        " is compressed; CIFAR's binary files are read as they are: "
                                        "decompress it with gunzip"));
  const auto bytes = static_cast<int64_t>(*source.exact_left());
  if (bytes == 0 || bytes % record_bytes != 0)
    return fail(ErrorKind::corrupt,
                cat(source.path(), " has ", bytes, " bytes, which is ", bytes / record_bytes, " records of ",
                    record_bytes, " bytes and ", bytes % record_bytes,
                    " bytes over: it is cut short or not of this kind"));
  return bytes / record_bytes;
}

}  // namespace

Result<Samples> read_cifar(Cifar kind, const std::vector<std::string>& paths) {
  const int64_t label_bytes = kind == Cifar::ten ? 1 : 2;
  std::vector<std::unique_ptr<ByteSource>> sources;
  int64_t records = 0;
  for (const std::string& path : paths) {
    auto source = open_source(path);
    if (!source) return tl::unexpected(source.error());
    const auto n = count_records(**source, label_bytes + kImageBytes);
    if (!n) return tl::unexpected(n.error());
    records += *n;
    sources.push_back(std::move(*source));
  }
  TROUPE_CHECK(!paths.empty(), "no files");
  Samples out{paths.front(), Tensor::empty({records, 3, 32, 32}, DType::u8),
              Tensor::empty({records}, DType::i32)};
  uint8_t* image = out.values.data<uint8_t>();
  int32_t* label = out.labels.data<int32_t>();
  for (const auto& source : sources) {
    while (*source->exact_left() > 0) {
      uint8_t labels[2];
      TROUPE_TRY(source->read({labels, static_cast<size_t>(label_bytes)}, "a record"));
      TROUPE_TRY(source->read({image, kImageBytes}, "a record"));
      *label++ = labels[label_bytes - 1];
      image += kImageBytes;
    }
  }
  return out;
}

}  // namespace troupe::ps
