#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <troupe/kernels/base/result.h>
#include <troupe/kernels/tensor/dtype.h>

namespace troupe {

/// Where the thread that sends and the one that receives find each other. What a rank offers to another is taken in
/// order, and answered once: then the sender may have its bytes back. Thread-safe.
class PairTable {
 public:
  struct Offer {
    DType dtype;
    int64_t count;
    const std::byte* bytes;  ///< good until it is answered
  };

  explicit PairTable(int size) : size_(size), lanes_(static_cast<size_t>(size) * static_cast<size_t>(size)) {}

  /// Never waits. Its number, for `settled`.
  uint64_t offer(int from, int to, const Offer& offer);
  /// Waits for the next offer, which is to be answered whatever happens. `cancelled` after an abort.
  Result<Offer> take(int from, int to);
  /// Of the offer taken last; `mistake` is empty where the receiver could use it.
  void answer(int from, int to, const std::string& mistake);
  /// Waits for the answer: `invalid` with the mistake, or, where nobody has taken it, `cancelled` after an abort.
  Status settled(int from, int to, uint64_t number);
  /// Ends all waits, now and later. The first reason stays.
  void abort(const std::string& reason);

 private:
  struct Lane {
    std::deque<Offer> offers;
    uint64_t offered = 0, taken = 0, answered = 0;
    std::map<uint64_t, std::string> mistakes;  ///< by number, until the sender has heard
  };
  Lane& lane(int from, int to) { return lanes_[static_cast<size_t>(from * size_ + to)]; }
  tl::unexpected<Error> aborted() const;

  const int size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Lane> lanes_;
  std::string reason_;  ///< empty unless aborted
};

}  // namespace troupe
