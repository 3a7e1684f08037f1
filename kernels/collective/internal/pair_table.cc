#include <troupe/kernels/collective/internal/pair_table.h>

namespace troupe {

tl::unexpected<Error> PairTable::aborted() const {
  return fail(ErrorKind::cancelled, "collective aborted: " + reason_);
}

uint64_t PairTable::offer(int from, int to, const Offer& offer) {
  std::lock_guard lock(mutex_);
  Lane& l = lane(from, to);
  l.offers.push_back(offer);
  changed_.notify_all();
  return ++l.offered;
}

Result<PairTable::Offer> PairTable::take(int from, int to) {
  std::unique_lock lock(mutex_);
  Lane& l = lane(from, to);
  changed_.wait(lock, [&] { return !reason_.empty() || !l.offers.empty(); });
  if (!reason_.empty()) return aborted();
  const Offer offer = l.offers.front();
  l.offers.pop_front();
  ++l.taken;
  return offer;
}

void PairTable::answer(int from, int to, const std::string& mistake) {
  std::lock_guard lock(mutex_);
  Lane& l = lane(from, to);
  ++l.answered;
  if (!mistake.empty()) l.mistakes[l.answered] = mistake;
  changed_.notify_all();
}

// What is taken will be answered, aborted or not: the receiver reads the bytes.
Status PairTable::settled(int from, int to, uint64_t number) {
  std::unique_lock lock(mutex_);
  Lane& l = lane(from, to);
  changed_.wait(lock, [&] { return l.answered >= number || (!reason_.empty() && l.taken < number); });
  if (l.answered < number) return aborted();
  auto mistake = l.mistakes.extract(number);
  if (mistake.empty()) return {};
  return fail(ErrorKind::invalid, std::move(mistake.mapped()));
}

void PairTable::abort(const std::string& reason) {
  std::lock_guard lock(mutex_);
  if (reason_.empty()) reason_ = reason.empty() ? "no reason given" : reason;
  changed_.notify_all();
}

}  // namespace troupe
