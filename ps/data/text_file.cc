#include <troupe/ps/data/text_file.h>

#include <algorithm>

#include <troupe/kernels/base/text.h>
#include <troupe/ps/data/byte_source.h>

namespace troupe::ps {

Result<std::string> read_text_file(const std::string& path, size_t most_bytes) {
  auto source = open_source(path);
  if (!source) return tl::unexpected(source.error());
  std::string text;
  for (;;) {
    const size_t before = text.size();
    // One byte more than a plain file has, to see its end at once; a compressed one is read in growing steps.
    const size_t step = (*source)->exact_left() ? *(*source)->exact_left() + 1 : std::max(before, size_t{1} << 20);
    text.resize(before + std::min(step, most_bytes - before + 1));
    const auto n = (*source)->read_some({reinterpret_cast<uint8_t*>(text.data()) + before, text.size() - before});
    if (!n) return tl::unexpected(n.error());
    const bool ended = before + *n < text.size();
    text.resize(before + *n);
    if (text.size() > most_bytes)
      return fail(ErrorKind::invalid, cat(path, " has more than ", most_bytes, " bytes; split it"));
    if (ended) return text;
  }
}

}  // namespace troupe::ps
