#include <troupe/ps/config/read_text.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <troupe/kernels/base/check.h>

namespace troupe::ps {

Result<std::string> read_text(const std::string& path, const char* what, const char* instead) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    return fail(ErrorKind::invalid, cat(path, ": is a folder; name ", instead));
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(ErrorKind::missing, cat(path, ": cannot read ", what, ": ", std::strerror(errno)));
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace troupe::ps
