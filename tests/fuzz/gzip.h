#pragma once
#include <zlib.h>

#include <string>
#include <string_view>

#include <troupe/kernels/base/check.h>

namespace troupe::fuzz {

/// `bytes` as a gzip file. Fuzzed bytes almost never carry the right checksum; made here, what lies behind it is
/// reached.
inline std::string gzipped(std::string_view bytes) {
  z_stream stream{};
  TROUPE_CHECK(deflateInit2(&stream, 1, Z_DEFLATED, 16 + 12, 4, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  TROUPE_CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

}  // namespace troupe::fuzz
