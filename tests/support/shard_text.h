#pragma once
#include <bit>
#include <string>
#include <vector>

#include <troupe/kernels/base/text.h>
#include <troupe/ps/param/shard_image.h>

/// What shards say and hold, as text that is equal where they are equal bit for bit.
namespace troupe::ps::test {

inline std::string text_of(const Tensor& t) {
  if (!t) return "-";
  uint64_t hash = 1469598103934665603u;
  if (t.dtype() == DType::i32)
    for (const int32_t x : t.span<int32_t>()) hash = (hash ^ static_cast<uint32_t>(x)) * 1099511628211u;
  else
    for (const float x : t.span<float>()) hash = (hash ^ std::bit_cast<uint32_t>(x)) * 1099511628211u;
  return cat(t.count(), ':', hash);
}

template <class T, class Text>
std::string list_of(const std::vector<T>& all, const Text& text) {
  std::string line = "[";
  for (const T& one : all) line += cat(text(one), ' ');
  return line + "]";
}
inline std::string text_of(const std::vector<Tensor>& all) {
  return list_of(all, [](const Tensor& t) { return text_of(t); });
}
template <class T>
std::string numbers(const std::vector<T>& all) {
  return list_of(all, [](const T& x) { return x; });
}

inline std::string text_of(const std::vector<SliceState>& all) {
  return list_of(all,
                 [](const SliceState& s) { return cat(s.slice, '=', text_of(s.values), text_of(s.state), s.updates); });
}
inline std::string text_of(const Partial& p) {
  return cat("partial ", p.step, ' ', std::bit_cast<uint64_t>(p.sum_of_squares), ' ', p.finite, ' ', p.culprit);
}
inline std::string text_of(const std::vector<LayerCounters>& all) {
  return list_of(all, [](const LayerCounters& c) {
    return cat(c.layer, ' ', c.pushes, ' ', c.updates, ' ', c.pushed_bytes, ' ', c.pulled_bytes,
               numbers(c.lag_histogram), numbers(c.delay_histogram));
  });
}

/// Whoever said it, and to which incarnation.
inline std::string text_of(const Message& body) {
  if (const auto* m = std::get_if<PushAck>(&body)) return cat("ack ", m->sequence, ' ', m->parcel, ' ', m->step);
  if (const auto* m = std::get_if<PullReply>(&body))
    return cat("reply ", m->parcel, ' ', m->step, ' ', m->ticket, ' ', m->lag, text_of(m->values), text_of(m->state));
  if (const auto* m = std::get_if<Refused>(&body)) return cat("refused ", m->detail, ' ', m->sequence);
  if (const auto* m = std::get_if<Partial>(&body)) return text_of(*m);
  if (const auto* m = std::get_if<SnapshotReply>(&body)) return cat("snapshot ", m->round, text_of(m->slices));
  if (const auto* m = std::get_if<StatsReply>(&body))
    return cat("stats ", m->round, text_of(m->layers), m->duplicates_dropped, ' ', m->refused, ' ', m->skipped_steps);
  if (const auto* m = std::get_if<Fault>(&body)) return cat("fault ", m->what);
  return name_of(body);
}
inline std::string text_of(const Outbox& out) {
  std::string lines;
  for (const Envelope& e : out) lines += cat(name_of(e.to.role), e.to.index, ' ', text_of(e.body), '\n');
  return lines;
}

inline std::string text_of(const ShardImage::Parcel& p) {
  const auto read = [](const ShardImage::Parcel::Read& r) { return cat(r.step, '/', r.updates); };
  const auto part = [](const ShardImage::Parcel::Part& c) {
    return cat(c.worker, ' ', c.samples, ' ', c.schedule_step, ' ', c.finite, text_of(c.gradients), text_of(c.rows));
  };
  return cat("parcel ", p.id, numbers(p.clock), p.version, ' ', p.updates, list_of(p.reads, read),
             list_of(p.pending, part), text_of(p.previous), '\n');
}
/// Without the membership.
inline std::string text_of(const ShardImage& image) {
  const auto worker = [](const ShardImage::Worker& w) { return cat(w.high_water, numbers(w.above), w.install_round); };
  return cat(list_of(image.workers, worker), '\n',
             list_of(image.parcels, [](const ShardImage::Parcel& p) { return text_of(p); }), text_of(image.slices),
             '\n', image.partial ? text_of(*image.partial) : "", '\n', text_of(image.counters),
             image.duplicates_dropped, ' ', image.refused, ' ', image.skipped_steps);
}

}  // namespace troupe::ps::test
