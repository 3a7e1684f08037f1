#include <troupe/ps/checkpoint/digest.h>

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <vector>

#include <troupe/kernels/base/check.h>

namespace troupe::ps {

struct Digest::State {
  XXH3_state_t* xxh = XXH3_createState();
  ~State() { XXH3_freeState(xxh); }
};

Digest::Digest() : state_(std::make_unique<State>()) {
  TROUPE_CHECK(state_->xxh != nullptr, "no memory for a digest");
  XXH3_128bits_reset(state_->xxh);
}
Digest::~Digest() = default;
Digest::Digest(Digest&&) noexcept = default;
Digest& Digest::operator=(Digest&&) noexcept = default;

void Digest::update(std::span<const std::byte> bytes) {
  XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size());
}

std::string Digest::hex() const {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state_->xxh));
  std::string out;
  for (const unsigned char byte : canonical.digest) {
    out += "0123456789abcdef"[byte >> 4];
    out += "0123456789abcdef"[byte & 15];
  }
  return out;
}

Result<std::string> digest_of(const InputFile& file) {
  Digest digest;
  std::vector<std::byte> part(static_cast<size_t>(std::min<uint64_t>(file.size(), uint64_t{1} << 20)));
  for (uint64_t at = 0; at < file.size();) {
    const auto n = static_cast<size_t>(std::min<uint64_t>(part.size(), file.size() - at));
    TROUPE_TRY(file.read(at, {part.data(), n}));
    digest.update({part.data(), n});
    at += n;
  }
  return digest.hex();
}

}  // namespace troupe::ps
