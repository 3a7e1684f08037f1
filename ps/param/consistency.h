#pragma once
#include <troupe/ps/ids.h>
#include <troupe/ps/param/policy.h>
#include <troupe/ps/param/vector_clock.h>

namespace troupe::ps {

/// The gate, all of it: may a read for step `step` be answered now?
///
///   sync    version >= step                  every contribution to steps before `step` has been applied
///   ssp     slowest clock >= step - s        Ho et al., "More effective distributed ML via a stale synchronous
///                                            parallel parameter server", NIPS'13: at most s steps are missing
///   async   always
///   all_reduce  always (its home is read only between steps)
///
/// `version` is the step that the parameters are the input of; it only counts under sync.
bool may_read(const Policy& policy, Step step, Step version, const VectorClock& clock);

/// Steps of the slowest worker that a read for `step` does not see, never negative: the staleness reported.
int64_t lag(const Policy& policy, Step step, Step version, const VectorClock& clock);

}  // namespace troupe::ps
