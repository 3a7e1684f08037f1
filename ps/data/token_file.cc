#include <troupe/ps/data/token_file.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <vector>

#include <troupe/kernels/base/text.h>
#include <troupe/ps/data/byte_source.h>

namespace troupe::ps {
namespace {

static_assert(std::endian::native == std::endian::little, "tokens are read as they lie in the file");

constexpr size_t kHeaderNumbers = 256;
constexpr size_t kHeaderBytes = 4 * kHeaderNumbers;
constexpr size_t kChunkBytes = size_t{1} << 20;

struct Kind {
  int32_t magic, version;
  size_t token_bytes;
};
constexpr Kind kKinds[] = {{20240520, 1, 2}, {20240801, 7, 4}};

Result<Tensor> tokens_of(const std::string& path, const std::vector<uint8_t>& bytes, size_t token_bytes) {
  const size_t count = bytes.size() / token_bytes;
  Tensor tokens = Tensor::empty({static_cast<int64_t>(count)}, DType::i32);
  int32_t* const to = tokens.data<int32_t>();
  for (size_t i = 0; i < count; ++i) {
    uint32_t token = 0;
    std::memcpy(&token, bytes.data() + i * token_bytes, token_bytes);
    if (token > static_cast<uint32_t>(std::numeric_limits<int32_t>::max()))
      return fail(ErrorKind::corrupt, cat(path, ": token ", i, " is ", token, ", more than any vocabulary has"));
    to[i] = static_cast<int32_t>(token);
  }
  return tokens;
}

Result<Tensor> read_counted(ByteSource& source, const Kind& kind, const std::vector<uint8_t>& header) {
  int32_t numbers[3];
  std::memcpy(numbers, header.data(), sizeof numbers);
  const std::string& path = source.path();
  if (numbers[1] != kind.version)
    return fail(ErrorKind::corrupt, cat(path, " begins with llm.c's ", kind.magic, " but has version ", numbers[1],
                                        " of that format; version ", kind.version, " can be read"));
  const auto count = static_cast<uint64_t>(std::max(numbers[2], 0));
  const uint64_t bytes = count * kind.token_bytes;
  const auto exact = source.exact_left();
  if (numbers[2] < 0 || bytes > source.at_most_left() || (exact && bytes != *exact))
    return fail(ErrorKind::corrupt,
                cat(path, " announces ", numbers[2], " tokens of ", kind.token_bytes, " bytes, but ",
                    exact ? cat(*exact, " bytes follow its header")
                          : cat("its ", source.file_bytes(), " compressed bytes cannot hold that many"),
                    ": the file is damaged or cut short; make it again"));
  std::vector<uint8_t> content(bytes);
  TROUPE_TRY(source.read(content, "the tokens that its header announces"));
  TROUPE_TRY(source.expect_end(kHeaderBytes + bytes));
  return tokens_of(path, content, kind.token_bytes);
}

// `begin` has been read already. Grows by what is there: how much follows is not known of a compressed file.
Result<Tensor> read_raw(ByteSource& source, std::vector<uint8_t> begin) {
  std::vector<uint8_t> content = std::move(begin);
  for (;;) {
    const size_t before = content.size();
    content.resize(before + kChunkBytes);
    const auto n = source.read_some({content.data() + before, kChunkBytes});
    if (!n) return tl::unexpected(n.error());
    content.resize(before + *n);
    if (*n < kChunkBytes) break;
  }
  if (content.size() % 2 != 0)
    return fail(ErrorKind::corrupt, cat(source.path(), " has ", content.size(),
                                        " bytes and no header of llm.c: tokens of two bytes would leave half a one"));
  return tokens_of(source.path(), content, 2);
}

}  // namespace

Result<Tensor> read_tokens(const std::string& path) {
  auto source = open_source(path);
  if (!source) return tl::unexpected(source.error());
  std::vector<uint8_t> header(kHeaderBytes);
  const auto n = (*source)->read_some(header);
  if (!n) return tl::unexpected(n.error());
  header.resize(*n);
  int32_t magic = 0;
  if (header.size() >= sizeof magic) std::memcpy(&magic, header.data(), sizeof magic);
  for (const Kind& kind : kKinds) {
    if (magic != kind.magic) continue;
    if (header.size() < kHeaderBytes)
      return fail(ErrorKind::corrupt, cat(path, " is cut short: llm.c's header takes ", kHeaderBytes, " bytes, only ",
                                          header.size(), " are there"));
    return read_counted(**source, kind, header);
  }
  return read_raw(**source, std::move(header));
}

}  // namespace troupe::ps
