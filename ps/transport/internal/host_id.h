#pragma once
#include <string>

namespace troupe::ps {

/// Equal on two processes exactly when they can share memory: one boot of one kernel, one PID namespace, one user.
/// A hash, so that it tells nothing else. Empty where the system does not tell: such a process shares with nobody.
std::string host_id();

}  // namespace troupe::ps
