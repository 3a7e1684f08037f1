#include <troupe/ps/transport/simulated_transport.h>

namespace troupe::ps {

void SimulatedTransport::send(Envelope envelope) {
  ++counts_.sent;
  if (cut_ && cut_(envelope)) {
    ++counts_.cut;
    return;
  }
  const bool lost = random_.chance(faults_.loss);
  const bool doubled = random_.chance(faults_.duplication);
  counts_.lost += lost;
  counts_.doubled += doubled;
  const auto shared = std::make_shared<const Envelope>(std::move(envelope));
  for (int copies = (lost ? 0 : 1) + (doubled ? 1 : 0); copies > 0; --copies) {
    const auto spread = static_cast<uint64_t>(faults_.max_delay_us - faults_.min_delay_us + 1);
    under_way_.emplace(now_us_ + faults_.min_delay_us + static_cast<int64_t>(random_.below(spread)), shared);
  }
}

void SimulatedTransport::deliver_next() {
  auto first = under_way_.begin();
  now_us_ = first->first;
  const EnvelopePtr envelope = std::move(first->second);
  under_way_.erase(first);
  auto sink = sinks_.find(envelope->to);
  if (sink == sinks_.end()) {
    ++counts_.unattached;
    return;
  }
  ++counts_.delivered;
  if (observer_) observer_(*envelope);
  sink->second(envelope);
}

}  // namespace troupe::ps
