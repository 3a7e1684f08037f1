#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace troupe::cuda {

/// Which ops a stream was given that are not known to have run. An error of a kernel shows later, at whatever asks
/// next, and does not say where it comes from; one of these it was. Names live for ever.
///
/// Whoever hears that the stream has come to a point without an error says so, from any thread, with the marks taken at
/// that point; all else is for the thread that may use the stream, and those that it waits for.
class OpTrail {
  static constexpr size_t kKept = 32;
  struct Ops {
    std::array<const char*, kKept> names{};  ///< of the newest, in turn
    uint64_t submitted = 0;
    std::atomic<uint64_t> passed = 0;
  };

 public:
  using Marks = std::vector<std::pair<std::shared_ptr<Ops>, uint64_t>>;

  void submitted(const char* op);
  /// This stream waits for what `earlier` was given so far.
  void follow(const OpTrail& earlier);

  /// Where this stream and those that it follows are.
  Marks marks() const;
  /// All up to there has run.
  static void passed(const Marks& marks);

  /// Those that are not known to have run.
  struct Suspects {
    std::vector<const char*> names;  ///< oldest first
    bool more = false;               ///< older ones that are not kept
    /// "the op at fault is gemm", or who it may be.
    std::string text() const;
  };
  Suspects suspects() const;

 private:
  std::shared_ptr<Ops> own_ = std::make_shared<Ops>();
  Marks followed_;
};

}  // namespace troupe::cuda
