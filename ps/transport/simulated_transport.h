#pragma once
#include <cstdint>
#include <functional>
#include <map>

#include <troupe/kernels/base/random.h>
#include <troupe/ps/transport/transport.h>

namespace troupe::ps {

/// What a network may do to messages. Probabilities are per message.
struct NetworkFaults {
  double loss = 0;
  double duplication = 0;
  int64_t min_delay_us = 50;
  int64_t max_delay_us = 5000;  ///< each copy draws its own delay, so that messages overtake each other
};

/// A network in virtual time, decided by a seed: the twin of the real ones, for simulation and tests. One
/// thread drives it. Between `send` and its time of delivery a message lies here; `deliver_next` hands the
/// earliest over.
class SimulatedTransport final : public Transport {
 public:
  SimulatedTransport(uint64_t seed, NetworkFaults faults) : random_(seed), faults_(faults) {}

  void attach(const Endpoint& endpoint, Sink sink) override { sinks_[endpoint] = std::move(sink); }
  void detach(const Endpoint& endpoint) override { sinks_.erase(endpoint); }
  void send(Envelope envelope) override;
  bool reliable() const override { return false; }

  /// Virtual time is the driver's: it says what time it is before anything is sent.
  void set_now_us(int64_t now_us) { now_us_ = now_us; }
  bool empty() const { return under_way_.empty(); }
  int64_t next_us() const { return under_way_.begin()->first; }
  void deliver_next();

  /// From now on, no faults: for the end of a simulation, when everything must come to rest.
  void heal() {
    faults_ = {0, 0, faults_.min_delay_us, faults_.min_delay_us + 1};
    cut_ = {};
  }

  /// Which messages meet a link that is cut (a partition), asked as each is sent: they are lost.
  void cut(std::function<bool(const Envelope&)> is_cut) { cut_ = std::move(is_cut); }

  /// Sees every message as it is handed over (an oracle, a trace).
  void on_delivery(std::function<void(const Envelope&)> observer) { observer_ = std::move(observer); }

  /// That the injector injects what it says: counted, for its own test.
  struct Counts {
    int64_t sent = 0, lost = 0, doubled = 0, delivered = 0, unattached = 0, cut = 0;
  };
  const Counts& counts() const { return counts_; }

 private:
  Random random_;
  NetworkFaults faults_;
  int64_t now_us_ = 0;
  std::map<Endpoint, Sink> sinks_;
  std::multimap<int64_t, EnvelopePtr> under_way_;  ///< equal times: first in, first out
  std::function<void(const Envelope&)> observer_;
  std::function<bool(const Envelope&)> cut_;
  Counts counts_;
};

}  // namespace troupe::ps
