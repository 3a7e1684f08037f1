#pragma once
#include <cstdint>

#include <troupe/ps/ids.h>

namespace troupe::ps {

/// The number of an arrow of a trace, from what both its ends know, so that no message carries it.
enum class Flow : uint8_t {
  push,        ///< worker, parcel
  activation,  ///< replica, chunk and micro-batch
};

/// Never 0. Different arrows of a run have different numbers, but for a chance of one in 2^64 a pair.
inline uint64_t flow_id(Flow kind, uint64_t who, uint64_t what, Step step) {
  uint64_t id = static_cast<uint64_t>(kind) + 1;
  for (const uint64_t part : {who, what, static_cast<uint64_t>(step)}) {
    // The finalizer of SplitMix64 (Steele, Lea and Flood, 2014).
    id = (id ^ part) + 0x9e3779b97f4a7c15;
    id = (id ^ (id >> 30)) * 0xbf58476d1ce4e5b9;
    id = (id ^ (id >> 27)) * 0x94d049bb133111eb;
    id ^= id >> 31;
  }
  return id | 1;
}

}  // namespace troupe::ps
