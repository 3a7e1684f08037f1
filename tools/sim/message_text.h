#pragma once
#include <cstdint>
#include <string>

#include <troupe/ps/messages.h>

namespace troupe::sim {

/// "worker 1 -> server 0, generation 2: Push sequence 7 parcel 3 step 4 samples 2".
std::string describe(const ps::Envelope& envelope);

/// Of everything in it that does not come from a clock.
uint64_t hash_of(const ps::Envelope& envelope);

}  // namespace troupe::sim
