#include <troupe/ps/transport/combining_transport.h>

#include <algorithm>
#include <optional>
#include <utility>

#include <troupe/kernels/collective/rank_sum.h>
#include <troupe/ps/param/combined_push.h>

namespace troupe::ps {
namespace {

/// The pushes of one step of one parcel, by worker. A worker's is its newest: a repetition has the same gradients.
struct Round {
  enum class Phase : uint8_t { open, summing, said, stored };
  Step step = -1;
  Phase phase = Phase::stored;
  uint64_t attempt = 0;                   ///< sums of earlier ones do not count
  std::map<WorkerId, Envelope> brought;
  std::vector<WorkerId> members;          ///< from `summing` on, ascending; the first one's push carries the sum
  /// Who may be taken together after a sum was said that may be stored: nobody whom that did not cover.
  std::optional<std::vector<WorkerId>> only;
  std::vector<Tensor> sums;
  int64_t samples = 0;
  bool finite = true;
};

struct ParcelState {
  Round round;
  std::map<Endpoint, Step> asked;         ///< by worker: step of its last pull, what it contributes to next
  std::map<Endpoint, Step> since;         ///< by worker: the step behind its first push, from which it is taken in
  std::optional<Envelope> pulling;        ///< said for all who ask for that step
  std::map<Endpoint, uint64_t> waiting;   ///< for the same answer: their tickets
  std::optional<PullReply> last;          ///< answer
  Endpoint last_from;
};

bool among(const std::vector<WorkerId>& workers, WorkerId worker) {
  return std::ranges::find(workers, worker) != workers.end();
}

const Push& push_of(const Envelope& envelope) { return std::get<Push>(envelope.body); }

}  // namespace

class CombiningTransport::Core : public std::enable_shared_from_this<Core> {
 public:
  Core(std::shared_ptr<Transport> next, CombiningOptions options)
      : next(std::move(next)), options_(std::move(options)) {}

  void attach(const Endpoint& worker, const Sink& sink) {
    std::lock_guard lock(mutex_);
    sinks_[worker] = std::make_shared<Sink>(sink);
  }

  void detach(const Endpoint& worker) {
    std::map<Endpoint, std::shared_ptr<Sink>>::node_type sink;  // outlives the lock, as in LocalSinks::detach
    std::lock_guard lock(mutex_);
    sink = sinks_.extract(worker);
    for (auto& [id, parcel] : parcels_) {
      parcel.asked.erase(worker);
      parcel.since.erase(worker);
      parcel.waiting.erase(worker);
      if (parcel.pulling && parcel.pulling->from == worker) parcel.pulling.reset();
    }
  }

  /// What becomes of a worker's message: what is to be sent now, and answers that are here already.
  void send(Envelope envelope) {
    Effects out;
    {
      std::lock_guard lock(mutex_);
      const auto* push = std::get_if<Push>(&envelope.body);
      const auto* pull = std::get_if<Pull>(&envelope.body);
      if (push && options_.pushes && combines(push->parcel)) take_push(out, std::move(envelope));
      else if (pull && combines(pull->parcel)) take_pull(out, std::move(envelope));
      else out.send.push_back(std::move(envelope));
    }
    carry(out);
  }

  void arrived(const EnvelopePtr& envelope) {
    Effects out;
    {
      std::lock_guard lock(mutex_);
      if (const auto* membership = std::get_if<Membership>(&envelope->body)) adopt(out, *membership);
      else if (const auto* ack = std::get_if<PushAck>(&envelope->body)) take_ack(out, envelope->to.index, *ack);
      else if (const auto* reply = std::get_if<PullReply>(&envelope->body)) take_reply(out, *envelope, *reply);
      deliver(out, envelope);
    }
    carry(out);
  }

  const std::shared_ptr<Transport> next;

 private:
  struct Effects {
    std::vector<Envelope> send;
    std::vector<std::pair<std::shared_ptr<Sink>, EnvelopePtr>> deliver;
    std::vector<std::function<void()>> later;
  };

  void carry(Effects& out) {
    for (auto& [sink, envelope] : out.deliver) (*sink)(std::move(envelope));
    for (Envelope& envelope : out.send) next->send(std::move(envelope));
    for (auto& task : out.later) options_.later(std::move(task));
  }
  void deliver(Effects& out, EnvelopePtr envelope) {
    const auto sink = sinks_.find(envelope->to);
    if (sink != sinks_.end()) out.deliver.emplace_back(sink->second, std::move(envelope));
  }

  bool combines(ParcelId id) const {
    if (!membership_.layout || id >= membership_.layout->parcels.size()) return false;
    const Parcel& parcel = membership_.layout->parcels[id];
    return parcel.policy.mode == Mode::sync && std::ranges::all_of(parcel.slices, [&](SliceId slice) {
             return options_.combines(membership_.layout->slices[slice].layer);
           });
  }

  bool here(const Endpoint& worker) const {
    return worker.index < membership_.workers.size() &&
           membership_.workers[worker.index] == worker.incarnation && sinks_.contains(worker);
  }

  void adopt(Effects& out, const Membership& membership) {
    if (membership.generation <= membership_.generation || !membership.layout) return;
    membership_ = membership;
    if (membership.rebase) parcels_.clear();
    for (auto& [id, parcel] : parcels_) {
      parcel.pulling.reset();
      parcel.waiting.clear();
      Round& round = parcel.round;
      if (round.phase == Round::Phase::stored) continue;
      std::erase_if(round.brought, [&](const auto& entry) { return !here(entry.second.from); });
      // Everybody says again what is not answered, under the new generation.
      const bool same = std::ranges::all_of(round.members, [&](WorkerId w) { return round.brought.contains(w); });
      if (same && round.phase != Round::Phase::open) continue;
      if (round.phase == Round::Phase::said) round.only = round.members;
      round.phase = Round::Phase::open;
      round.members.clear();
      complete(out, id, parcel);
    }
  }

  // ---- pushes ---------------------------------------------------------------------------------------------------

  void take_push(Effects& out, Envelope envelope) {
    const Push& push = push_of(envelope);
    const ParcelId id = push.parcel;
    const WorkerId worker = envelope.from.index;
    ParcelState& parcel = parcels_[id];
    if (push.step < parcel.since.try_emplace(envelope.from, push.step + 1).first->second)
      return out.send.push_back(std::move(envelope));
    Round& round = parcel.round;
    if (push.step > round.step) {  // whose weights there are only once the one before is stored
      round = Round{.step = push.step, .phase = Round::Phase::open, .attempt = round.attempt + 1};
    } else if (push.step < round.step) {
      return out.send.push_back(without_samples(std::move(envelope)));
    }
    const bool late = round.phase != Round::Phase::open && !among(round.members, worker);
    if (late || (round.only && !among(*round.only, worker))) return out.send.push_back(std::move(envelope));
    round.brought[worker] = std::move(envelope);
    switch (round.phase) {
      case Round::Phase::open: return complete(out, id, parcel);
      case Round::Phase::summing: return;
      case Round::Phase::said:
        if (worker == round.members.front()) say(out, round);
        return;
      case Round::Phase::stored: return out.send.push_back(without_samples(round.brought[worker]));
    }
  }

  void complete(Effects& out, ParcelId id, ParcelState& parcel) {
    Round& round = parcel.round;
    if (round.brought.empty()) return;
    for (const auto& [worker, since] : parcel.since) {
      const auto asked = parcel.asked.find(worker);
      const bool comes = asked != parcel.asked.end() && asked->second <= round.step && since <= round.step;
      const bool may = here(worker) && (!round.only || among(*round.only, worker.index));
      if (comes && may && !round.brought.contains(worker.index)) return;
    }
    if (round.brought.size() == 1) {  // nobody to be taken together with: it goes as it is, as do its repetitions
      round.phase = Round::Phase::stored;
      return out.send.push_back(round.brought.begin()->second);
    }
    for (const auto& [worker, envelope] : round.brought) round.members.push_back(worker);
    round.phase = Round::Phase::summing;
    const uint64_t attempt = ++round.attempt;
    out.later.push_back([self = shared_from_this(), id, attempt, pushes = round.brought] {
      self->summed(id, attempt, sums_of(pushes));
    });
  }

  static std::vector<Tensor> sums_of(const std::map<WorkerId, Envelope>& pushes) {
    std::vector<std::vector<Tensor>> parts;
    for (const auto& [worker, envelope] : pushes) {
      const Push& push = push_of(envelope);
      if (push.samples == 0) continue;
      parts.resize(push.gradients.size());
      for (size_t i = 0; i < parts.size(); ++i) parts[i].push_back(push.gradients[i]);
    }
    std::vector<Tensor> sums;
    for (const std::vector<Tensor>& slice : parts) {
      Tensor& sum = sums.emplace_back(Tensor::to_lend(slice[0].shape()));
      sum_in_rank_order(slice, 0, sum.count(), sum);
    }
    return sums;
  }

  void summed(ParcelId id, uint64_t attempt, std::vector<Tensor> sums) {
    Effects out;
    {
      std::lock_guard lock(mutex_);
      const auto found = parcels_.find(id);
      if (found == parcels_.end()) return;
      Round& round = found->second.round;
      if (round.attempt != attempt || round.phase != Round::Phase::summing) return;
      round.samples = 0;
      round.finite = true;
      for (const auto& [worker, envelope] : round.brought) {
        round.samples += push_of(envelope).samples;
        round.finite = round.finite && push_of(envelope).finite;
      }
      if (!round.finite) round.samples = 0;
      round.sums = round.samples > 0 ? std::move(sums) : std::vector<Tensor>{};
      round.phase = Round::Phase::said;
      say(out, round);
    }
    carry(out);
  }

  static void say(Effects& out, const Round& round) {
    Envelope envelope = round.brought.at(round.members.front());
    Push& push = std::get<Push>(envelope.body);
    push.gradients = round.sums;
    push.samples = round.samples;
    push.finite = round.finite;
    cover(push, std::span(round.members).subspan(1));
    out.send.push_back(std::move(envelope));
  }

  static Envelope without_samples(Envelope envelope) {
    Push& push = std::get<Push>(envelope.body);
    push.gradients.clear();
    push.samples = 0;
    return envelope;
  }

  void take_ack(Effects& out, WorkerId worker, const PushAck& ack) {
    const auto found = parcels_.find(ack.parcel);
    if (found == parcels_.end()) return;
    Round& round = found->second.round;
    if (round.phase != Round::Phase::said || round.step != ack.step || round.members.front() != worker) return;
    round.phase = Round::Phase::stored;
    round.sums.clear();
    for (const WorkerId other : std::span(round.members).subspan(1))
      out.send.push_back(without_samples(round.brought.at(other)));
  }

  // ---- pulls ----------------------------------------------------------------------------------------------------

  void take_pull(Effects& out, Envelope envelope) {
    const Pull pull = std::get<Pull>(envelope.body);
    const Endpoint worker = envelope.from;
    ParcelState& parcel = parcels_[pull.parcel];
    parcel.asked[worker] = pull.step;
    // Who moves on with this pull does not contribute any more to the step before.
    if (parcel.round.phase == Round::Phase::open) complete(out, pull.parcel, parcel);
    if (parcel.last && parcel.last->step == pull.step)
      return answer(out, parcel, worker, pull.ticket, envelope.generation);
    const bool asked = parcel.pulling && std::get<Pull>(parcel.pulling->body).step == pull.step;
    if (asked && parcel.pulling->from != worker) {
      parcel.waiting[worker] = pull.ticket;
      return;
    }
    if (!asked) parcel.waiting.clear();
    parcel.pulling = envelope;
    out.send.push_back(std::move(envelope));
  }

  void answer(Effects& out, const ParcelState& parcel, const Endpoint& worker, uint64_t ticket, Generation generation) {
    PullReply reply = *parcel.last;
    reply.ticket = ticket;
    deliver(out, std::make_shared<const Envelope>(Envelope{parcel.last_from, worker, generation, std::move(reply)}));
  }

  void take_reply(Effects& out, const Envelope& envelope, const PullReply& reply) {
    const auto found = parcels_.find(reply.parcel);
    if (found == parcels_.end()) return;
    ParcelState& parcel = found->second;
    if (!parcel.pulling || parcel.pulling->from != envelope.to ||
        std::get<Pull>(parcel.pulling->body).ticket != reply.ticket)
      return;
    parcel.pulling.reset();
    parcel.last = reply;
    parcel.last_from = envelope.from;
    for (const auto& [worker, ticket] : std::exchange(parcel.waiting, {}))
      answer(out, parcel, worker, ticket, envelope.generation);
  }

  const CombiningOptions options_;
  std::mutex mutex_;
  Membership membership_;
  std::map<Endpoint, std::shared_ptr<Sink>> sinks_;  ///< of workers
  std::map<ParcelId, ParcelState> parcels_;
};

CombiningTransport::CombiningTransport(std::shared_ptr<Transport> next, CombiningOptions options)
    : core_(std::make_shared<Core>(std::move(next), std::move(options))) {}

void CombiningTransport::attach(const Endpoint& endpoint, Sink sink) {
  if (endpoint.role != Role::worker) return core_->next->attach(endpoint, std::move(sink));
  core_->attach(endpoint, sink);
  core_->next->attach(endpoint, [core = core_](const EnvelopePtr& envelope) { core->arrived(envelope); });
}

void CombiningTransport::detach(const Endpoint& endpoint) {
  if (endpoint.role == Role::worker) core_->detach(endpoint);
  core_->next->detach(endpoint);
}

void CombiningTransport::send(Envelope envelope) {
  if (envelope.from.role != Role::worker) return core_->next->send(std::move(envelope));
  core_->send(std::move(envelope));
}

bool CombiningTransport::reliable() const { return core_->next->reliable(); }

}  // namespace troupe::ps
