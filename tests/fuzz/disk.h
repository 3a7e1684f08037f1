#pragma once
#include <memory>
#include <string>
#include <string_view>

#include <troupe/ps/checkpoint/file_ops.h>

#include <tests/support/memory_disk.h>

namespace troupe::fuzz {

inline void put(test::MemoryDisk& disk, const std::string& path, std::string_view bytes) {
  auto file = disk.create(path);
  TROUPE_CHECK(file && (*file)->write(std::as_bytes(std::span(bytes))));
}

}  // namespace troupe::fuzz
