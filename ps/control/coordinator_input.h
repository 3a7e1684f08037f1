#pragma once
#include <cstdint>
#include <variant>
#include <vector>

#include <troupe/ps/control/coordinator_core.h>
#include <troupe/ps/transport/transport.h>

namespace troupe::ps {

/// Everything that a CoordinatorCore is told while a run lasts, as values. The core has no other source: one that was
/// made of the same options and is told the same in the same order is in the same state, which is what a journal rests
/// on (journal.h).
struct CoordinatorInput {
  struct Start {};
  struct Heard {
    EnvelopePtr envelope;
  };
  struct CheckpointWritten {
    Status status;
  };
  struct Stop {};
  struct ChangePolicies {
    std::vector<UpdateRule> rules;
  };
  struct LinkLost {
    uint32_t node = 0;
  };
  struct Tick {};
  /// A process went on from where another had stopped.
  struct Recovered {};
  struct CheckpointRead {
    Endpoint server;
    Result<Reload> read;
  };
  /// A new kind goes to the end: journals hold the number.
  using What = std::variant<Start, Heard, CheckpointWritten, Stop, ChangePolicies, LinkLost, Tick, Recovered,
                            CheckpointRead>;

  int64_t now_ms = 0;  ///< the coordinator's clock
  What what;
};

/// Tells it. An error is one of ChangePolicies; it has changed nothing.
Result<CoordinatorCore::Effects> tell(CoordinatorCore& core, const CoordinatorInput& input);

}  // namespace troupe::ps
