#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include <troupe/kernels/base/result.h>
#include <troupe/ps/checkpoint/file_ops.h>

namespace troupe::ps {

/// XXH3-128 of bytes that come in pieces: finds damage, does not withstand an attacker. About as fast as
/// memory is read.
class Digest {
 public:
  Digest();
  ~Digest();
  Digest(Digest&&) noexcept;
  Digest& operator=(Digest&&) noexcept;

  void update(std::span<const std::byte> bytes);
  /// Of all bytes so far: 32 hexadecimal digits.
  std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Of a whole file, read in pieces.
Result<std::string> digest_of(const InputFile& file);

}  // namespace troupe::ps
