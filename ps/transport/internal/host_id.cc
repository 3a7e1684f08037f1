#include <troupe/ps/transport/internal/host_id.h>

#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <cstdio>
#include <fstream>

#include <troupe/kernels/base/text.h>

namespace troupe::ps {

std::string host_id() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  struct stat pids {};
  if (boot.empty() || ::stat("/proc/self/ns/pid", &pids) != 0) return "";
  const std::string all = cat(boot, ' ', pids.st_ino, ' ', ::geteuid());
  const XXH128_hash_t hash = XXH3_128bits(all.data(), all.size());
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  return text;
}

}  // namespace troupe::ps
