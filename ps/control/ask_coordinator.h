#pragma once
#include <chrono>
#include <string>

#include <troupe/kernels/base/result.h>
#include <troupe/ps/transport/transport.h>

namespace troupe::ps {

/// Asks the coordinator that `transport` reaches a StatusRequest or StopRequest, again and again until it answers: the
/// JSON of its RunStatus. `self`: a client that nobody else is; attached meanwhile. Waits, so not for an actor.
/// ErrorKind::failed where no answer has come within `patience`.
Result<std::string> ask_coordinator(Transport& transport, const Endpoint& self, const Message& question,
                                    std::chrono::milliseconds patience);

}  // namespace troupe::ps
