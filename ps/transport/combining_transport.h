#pragma once
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include <troupe/ps/transport/transport.h>

namespace troupe::ps {

struct CombiningOptions {
  /// Which layers' parcels, where the servers aggregate them; the others pass as they are.
  std::function<bool(LayerId)> combines;
  /// False: pushes pass as they are, since devices have added them up; pulls are shared.
  bool pushes = true;
  /// Runs a sum on another thread, so that no actor's waits for it. Tasks may run at once; they run before it is gone.
  std::function<void(std::function<void()>)> later;
};

/// What the workers of one process say to servers elsewhere, said once: the second half of an all-reduce over
/// processes. A decorator; the workers, their repetitions and the servers stay as they are.
///
///     worker 2 --push--\                                       push of worker 2: the sum, covering worker 3
///     worker 3 --push---+-- the last who was expected: sum --> push of worker 3: no samples, once that is stored
///
///     worker 2 --pull--> one pull --> the answer goes to worker 2 and to worker 3, who share its memory
///
/// A push and what it covers are counted in one event of the shard (combined_push.h), which drops whatever comes again
/// of a worker that is counted. So nothing is lost or counted twice whoever is taken together, as long as nobody is who
/// may have been counted alone: an actor's first push goes for itself, since it may repeat a predecessor's, as does one
/// that comes late. A sum is begun again without whoever is not here any more in a new membership. Waited for is who
/// has asked for that step's weights. Sums are added in worker order.
class CombiningTransport final : public Transport {
 public:
  CombiningTransport(std::shared_ptr<Transport> next, CombiningOptions options);

  void attach(const Endpoint& endpoint, Sink sink) override;
  void detach(const Endpoint& endpoint) override;
  void send(Envelope envelope) override;
  bool reliable() const override;

 private:
  class Core;
  std::shared_ptr<Core> core_;  ///< sums under way and sinks hold it
};

}  // namespace troupe::ps
