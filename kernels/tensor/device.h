#pragma once
#include <cstdint>

namespace troupe {

enum class DeviceKind : uint8_t { cpu, cuda };

/// Where bytes live and work runs. `index` tells CUDA devices of a node apart; it is 0 for the CPU.
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;
  bool operator==(const Device&) const = default;
};

}  // namespace troupe
