#pragma once
#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace troupe {

/// What a caller can do about an error decides its kind; a kind exists only where some code reacts to it.
enum class ErrorKind {
  invalid,    ///< the input (config, argument, message) is wrong: say so to whoever wrote it
  corrupt,    ///< stored or received bytes are not what they claim to be: use another copy
  exhausted,  ///< disk, memory or a budget is used up: may pass, go on without if possible
  missing,    ///< a file, device or peer is not there
  cancelled,  ///< somebody asked to stop
  failed,     ///< the work itself failed (a diverged run, a lost actor, an I/O error): report and end
};

/// One paragraph a person can act on: what, where, why, what to do.
struct Error {
  ErrorKind kind = ErrorKind::failed;
  std::string message;
};

template <class T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

inline tl::unexpected<Error> fail(ErrorKind kind, std::string message) {
  return tl::unexpected<Error>(Error{kind, std::move(message)});
}

/// The same error, told from one level further out: "context: message".
inline tl::unexpected<Error> fail(const std::string& context, const Error& inner) {
  return tl::unexpected<Error>(Error{inner.kind, context + ": " + inner.message});
}

}  // namespace troupe

/// Returns the error of a Status or Result expression from the enclosing function.
#define TROUPE_TRY(expression)                                                   \
  do {                                                                           \
    if (auto troupe_try_ = (expression); !troupe_try_)                           \
      return ::tl::unexpected<::troupe::Error>(std::move(troupe_try_.error()));  \
  } while (false)
