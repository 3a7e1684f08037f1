#pragma once
#include <vector>

#include <troupe/kernels/backend/backend.h>

namespace troupe::cuda {

/// The devices that the driver shows, by index. `missing` where there is no driver, one too old for this runtime, or no
/// device, and says which.
Result<std::vector<DeviceFacts>> find_devices();

/// Makes `device` the current one of the calling thread; throws CudaFailure.
void use(int device);

}  // namespace troupe::cuda
