#include <troupe/kernels/collective/internal/collective_call.h>

#include <utility>

namespace troupe {
namespace {

std::string count_mistake(const char* what, int64_t count, int64_t wanted) {
  return count == wanted ? "" : cat(count, " elements in `", what, "` instead of ", wanted);
}

std::string peer_mistake(int peer, int rank, int size) {
  if (peer == rank) return "itself as the other rank";
  return peer >= 0 && peer < size ? "" : cat("rank ", peer, " in a group of ", size);
}

// A call whose dtypes are looked at, too.
CollectiveCall checked(CollectiveCall call, const Tensor& out) {
  if (out.dtype() != call.dtype)
    call.mistake = cat("an output of ", troupe::name_of(out.dtype()));
  else if (call.dtype != DType::f32 && call.dtype != DType::f64)
    call.mistake = "a dtype that cannot be summed (F32 and F64 can)";
  return call;
}

}  // namespace

const char* name_of(CollectiveOperation operation) {
  switch (operation) {
    case CollectiveOperation::all_reduce: return "all_reduce";
    case CollectiveOperation::reduce_scatter: return "reduce_scatter";
    case CollectiveOperation::all_gather: return "all_gather";
    case CollectiveOperation::broadcast: return "broadcast";
    case CollectiveOperation::send: return "send";
    case CollectiveOperation::receive: return "receive";
  }
  return "?";
}

CollectiveCall all_reduce_call(const Tensor& in, Tensor& out) {
  return checked({CollectiveOperation::all_reduce, in.dtype(), in.count(), 0, in.raw(), out.raw(),
                  count_mistake("out", out.count(), in.count())},
                 out);
}

CollectiveCall reduce_scatter_call(const Tensor& in, Tensor& out, int rank, int size) {
  return checked({CollectiveOperation::reduce_scatter, in.dtype(), in.count(), 0, in.raw(), out.raw(),
                  count_mistake("out", out.count(), part_of(in.count(), rank, size).count())},
                 out);
}

CollectiveCall all_gather_call(const Tensor& in, Tensor& out, int rank, int size) {
  return checked({CollectiveOperation::all_gather, in.dtype(), out.count(), 0, in.raw(), out.raw(),
                  count_mistake("in", in.count(), part_of(out.count(), rank, size).count())},
                 out);
}

CollectiveCall broadcast_call(Tensor& values, int root, int size) {
  return checked({CollectiveOperation::broadcast, values.dtype(), values.count(), root, values.raw(), values.raw(),
                  root >= 0 && root < size ? "" : cat("root ", root, " in a group of ", size)},
                 values);
}

CollectiveCall send_call(const Tensor& values, int to, int rank, int size) {
  return {CollectiveOperation::send, values.dtype(), values.count(), to, values.raw(), nullptr,
          peer_mistake(to, rank, size)};
}

CollectiveCall receive_call(Tensor& values, int from, int rank, int size) {
  return {CollectiveOperation::receive, values.dtype(), values.count(), from, nullptr, values.raw(),
          peer_mistake(from, rank, size)};
}

std::string describe(const CollectiveCall& call) {
  std::string text = cat(name_of(call.operation), " of ", call.count, " x ", troupe::name_of(call.dtype));
  using enum CollectiveOperation;
  if (call.operation == broadcast || call.operation == receive) text += cat(" from rank ", call.root);
  if (call.operation == send) text += cat(" to rank ", call.root);
  return text;
}

bool is_pair(const CollectiveCall& call) {
  return call.operation == CollectiveOperation::send || call.operation == CollectiveOperation::receive;
}

Status check_own(const CollectiveCall& call, int rank) {
  if (call.mistake.empty()) return {};
  return fail(ErrorKind::invalid, cat("rank ", rank, " calls ", describe(call), " with ", call.mistake));
}

std::string pair_mistake(const PairTable::Offer& offer, const CollectiveCall& receive, int rank) {
  if (offer.dtype == receive.dtype && offer.count == receive.count) return "";
  return cat("rank ", receive.root, " sends ", offer.count, " x ", troupe::name_of(offer.dtype), " to rank ", rank,
             ", who receives ", receive.count, " x ", troupe::name_of(receive.dtype));
}

std::optional<std::string> disagreement(const std::vector<CollectiveCall>& calls) {
  for (size_t rank = 0; rank < calls.size(); ++rank) {
    const CollectiveCall& call = calls[rank];
    if (!call.mistake.empty()) return cat("rank ", rank, " calls ", describe(call), " with ", call.mistake);
    const CollectiveCall& first = calls[0];
    if (call.operation != first.operation || call.dtype != first.dtype || call.count != first.count ||
        call.root != first.root)
      return cat("rank ", rank, " calls ", describe(call), " where rank 0 calls ", describe(first),
                 "; all ranks of a group must make the same calls in the same order");
  }
  return std::nullopt;
}

void CallGroup::begin() {
  TROUPE_CHECK(!open_, "a group of calls within another, after ", calls_.size(), " calls");
  open_ = true;
}

std::vector<CollectiveCall> CallGroup::end() {
  TROUPE_CHECK(open_, "the end of a group of calls that has not begun");
  open_ = false;
  return std::exchange(calls_, {});
}

CallTable::CallTable(int size) : pairs(size), barrier_(size), seats_(static_cast<size_t>(size)) {
  calls_.fill(std::vector<CollectiveCall>(static_cast<size_t>(size)));
}

void CallTable::abort(const std::string& reason) {
  barrier_.abort(reason);
  pairs.abort(reason);
}

Result<const std::vector<CollectiveCall>*> CallTable::meet(int rank, CollectiveCall call) {
  Seat& seat = seats_[static_cast<size_t>(rank)];
  std::vector<CollectiveCall>& calls = calls_[turn(rank)];
  ++seat.calls;
  calls[static_cast<size_t>(rank)] = std::move(call);
  if (barrier_.meet_or_abort(seat.lookout)) return &calls;
  return fail(ErrorKind::cancelled, "collective aborted: " + barrier_.abort_reason());
}

}  // namespace troupe
