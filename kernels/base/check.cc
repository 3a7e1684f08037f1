#include <troupe/kernels/base/check.h>

namespace troupe {

void fail_check(const char* file, int line, const char* condition, const std::string& values) {
  throw CheckFailure(cat(file, ":", line, ": check failed: ", condition, values.empty() ? "" : ": ", values));
}

}  // namespace troupe
