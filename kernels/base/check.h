#pragma once
#include <stdexcept>
#include <string>

#include <troupe/kernels/base/text.h>

namespace troupe {

/// A bug in this program: a condition that its own code promised does not hold. It ends the actor (or the
/// test) that ran into it; whatever supervises that actor hears the text. Input from files, peers and users
/// never ends here: that is a `Result`.
class CheckFailure : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] void fail_check(const char* file, int line, const char* condition, const std::string& values);

}  // namespace troupe

/// TROUPE_CHECK(rows == n, "rows ", rows, " of ", n): throws CheckFailure with the condition and the values.
#define TROUPE_CHECK(condition, ...)                                                                  \
  do {                                                                                                \
    if (!(condition)) [[unlikely]]                                                                    \
      ::troupe::fail_check(__FILE__, __LINE__, #condition, ::troupe::cat(__VA_ARGS__));               \
  } while (false)
