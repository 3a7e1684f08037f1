#pragma once
#include <cstdint>

#include <troupe/ps/pipeline/composition.h>
#include <troupe/ps/pipeline/model_load.h>

namespace troupe::ps {

/// Bytes a parameter on one device, with Adam. In half precision (2 bytes a value) they add up to 16; 4 + 12/N;
/// 2 + 14/N; 16/N for ZeRO's stages 0 to 3 among N replicas (arXiv 1910.02054); in fp32 to 16 as well at stage 0.
struct StateBytes {
  double weights = 0, gradients = 0, optimizer = 0;
  double sum() const { return weights + gradients + optimizer; }
};
StateBytes state_bytes(uint32_t zero, double replicas, double bytes_a_value = 2);

/// Activations of `samples` that a device keeps of a layer from forward to backward (arXiv 2205.05198, table 2).
double kept_bytes(const LayerLoad& layer, double samples, const Composition& composition);

}  // namespace troupe::ps
