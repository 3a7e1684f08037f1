#pragma once
#include <cmath>
#include <cstring>
#include <tuple>
#include <type_traits>

#include <troupe/ps/messages.h>
#include <troupe/ps/param/shard_image.h>

/// The messages' fields one by one, so that comparing and making them cannot forget one: a struct that gets another
/// field does not compile before its number here is raised.
namespace troupe::ps::test {

template <class T>
inline constexpr int kFields = -1;

#define TROUPE_FIELDS(Type, count) \
  template <>                      \
  inline constexpr int kFields<Type> = count;
TROUPE_FIELDS(Push, 9)
TROUPE_FIELDS(PushAck, 3)
TROUPE_FIELDS(Pull, 4)
TROUPE_FIELDS(SliceState, 4)
TROUPE_FIELDS(PullReply, 6)
TROUPE_FIELDS(Refused, 5)
TROUPE_FIELDS(Membership, 6)
TROUPE_FIELDS(MembershipAck, 0)
TROUPE_FIELDS(SampleRange, 3)
TROUPE_FIELDS(WorkRequest, 1)
TROUPE_FIELDS(Work, 8)
TROUPE_FIELDS(StepStats, 3)
TROUPE_FIELDS(WorkDone, 10)
TROUPE_FIELDS(WorkDoneAck, 1)
TROUPE_FIELDS(Partial, 4)
TROUPE_FIELDS(Verdict, 3)
TROUPE_FIELDS(Snapshot, 1)
TROUPE_FIELDS(SnapshotReply, 2)
TROUPE_FIELDS(Install, 2)
TROUPE_FIELDS(InstallAck, 1)
TROUPE_FIELDS(LayerCounters, 7)
TROUPE_FIELDS(StatsRequest, 1)
TROUPE_FIELDS(StatsReply, 5)
TROUPE_FIELDS(Fault, 1)
TROUPE_FIELDS(Finish, 0)
TROUPE_FIELDS(Endpoint, 3)
TROUPE_FIELDS(Down, 2)
TROUPE_FIELDS(DownAck, 1)
TROUPE_FIELDS(Spawn, 3)
TROUPE_FIELDS(SpawnAck, 1)
TROUPE_FIELDS(NodeAddress, 4)
TROUPE_FIELDS(Hello, 5)
TROUPE_FIELDS(Welcome, 5)
TROUPE_FIELDS(Rejected, 1)
TROUPE_FIELDS(Ready, 4)
TROUPE_FIELDS(Heartbeat, 5)
TROUPE_FIELDS(HeartbeatAck, 1)
TROUPE_FIELDS(Routes::Place, 2)
TROUPE_FIELDS(Routes, 3)
TROUPE_FIELDS(Leave, 1)
TROUPE_FIELDS(Replicate, 3)
TROUPE_FIELDS(ReplicateAck, 1)
TROUPE_FIELDS(Synced, 1)
TROUPE_FIELDS(SyncedAck, 1)
TROUPE_FIELDS(StatusRequest, 0)
TROUPE_FIELDS(StatusReply, 1)
TROUPE_FIELDS(StopRequest, 0)
TROUPE_FIELDS(Activation, 6)
TROUPE_FIELDS(ActivationAck, 4)
TROUPE_FIELDS(CollectiveId, 5)
TROUPE_FIELDS(Envelope, 4)
TROUPE_FIELDS(Policy, 2)
TROUPE_FIELDS(Slice, 5)
TROUPE_FIELDS(Parcel, 5)
TROUPE_FIELDS(ParamSpec, 4)
TROUPE_FIELDS(LayerSpec, 4)
TROUPE_FIELDS(Layout, 7)
TROUPE_FIELDS(ShardImage::Worker, 3)
TROUPE_FIELDS(ShardImage::Parcel::Read, 2)
TROUPE_FIELDS(ShardImage::Parcel::Part, 6)
TROUPE_FIELDS(ShardImage::Parcel, 7)
TROUPE_FIELDS(ShardImage, 9)
#undef TROUPE_FIELDS

/// References to all fields of `x`, in their order.
template <class T>
auto fields_of(T& x) {
  constexpr int n = kFields<std::remove_const_t<T>>;
  static_assert(n >= 0 && n <= 10, "a struct without a line above");
  if constexpr (n == 0) { return std::tie(); }
  else if constexpr (n == 1) { auto& [a] = x; return std::tie(a); }
  else if constexpr (n == 2) { auto& [a, b] = x; return std::tie(a, b); }
  else if constexpr (n == 3) { auto& [a, b, c] = x; return std::tie(a, b, c); }
  else if constexpr (n == 4) { auto& [a, b, c, d] = x; return std::tie(a, b, c, d); }
  else if constexpr (n == 5) { auto& [a, b, c, d, e] = x; return std::tie(a, b, c, d, e); }
  else if constexpr (n == 6) { auto& [a, b, c, d, e, f] = x; return std::tie(a, b, c, d, e, f); }
  else if constexpr (n == 7) { auto& [a, b, c, d, e, f, g] = x; return std::tie(a, b, c, d, e, f, g); }
  else if constexpr (n == 8) { auto& [a, b, c, d, e, f, g, h] = x; return std::tie(a, b, c, d, e, f, g, h); }
  else if constexpr (n == 9) { auto& [a, b, c, d, e, f, g, h, i] = x; return std::tie(a, b, c, d, e, f, g, h, i); }
  else { auto& [a, b, c, d, e, f, g, h, i, j] = x; return std::tie(a, b, c, d, e, f, g, h, i, j); }
}

// ---- deep equality: bits for floating-point numbers and tensors, contents for what is pointed at ----

template <class T>
bool same(const T& a, const T& b);

inline bool same(double a, double b) { return std::memcmp(&a, &b, sizeof a) == 0; }
inline bool same(const Shape& a, const Shape& b) { return a == b; }
inline bool same(const std::string& a, const std::string& b) { return a == b; }
inline bool same(const Tensor& a, const Tensor& b) {
  if (!a || !b) return !a && !b;
  return a.dtype() == b.dtype() && a.shape() == b.shape() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}
template <class T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!same(a[i], b[i])) return false;
  return true;
}
template <class T>
bool same(const std::optional<T>& a, const std::optional<T>& b) {
  return a.has_value() == b.has_value() && (!a || same(*a, *b));
}
template <class T>
bool same(const std::shared_ptr<const T>& a, const std::shared_ptr<const T>& b) {
  return bool(a) == bool(b) && (!a || same(*a, *b));
}
inline bool same(const Message& a, const Message& b) {
  return a.index() == b.index() &&
         std::visit([&](const auto& body) { return same(body, std::get<std::decay_t<decltype(body)>>(b)); }, a);
}
template <class T>
bool same(const T& a, const T& b) {
  if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
    return a == b;
  } else {
    const auto left = fields_of(a), right = fields_of(b);
    return [&]<size_t... i>(std::index_sequence<i...>) {
      return (same(std::get<i>(left), std::get<i>(right)) && ...);
    }(std::make_index_sequence<std::tuple_size_v<decltype(left)>>());
  }
}

}  // namespace troupe::ps::test
