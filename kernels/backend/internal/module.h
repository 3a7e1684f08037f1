#pragma once
#include <cstdint>
#include <string>

#include <troupe/kernels/backend/backend.h>

namespace troupe {

/// What program and module must agree on before either touches an object of the other: both are built from the same
/// headers. Sizes tell most changes of those.
struct ModuleAbi {
  uint32_t version = 3;  ///< raise it when a virtual function or a contract in backend.h or stream.h changes
  uint32_t ops_bytes = sizeof(ops::Ops);
  uint32_t update_bytes = sizeof(ops::UpdateOps);
  uint32_t tensor_bytes = sizeof(Tensor);
  uint32_t stream_bytes = sizeof(Stream);
  uint32_t options_bytes = sizeof(StreamOptions);
  bool operator==(const ModuleAbi&) const = default;
};

/// What a module exports under the name kModuleFactory: a new backend in `made` or why there is none. Throws nothing.
using ModuleFactory = Error (*)(const ModuleAbi& program, std::shared_ptr<Backend>& made);
inline constexpr const char* kModuleFactory = "troupe_make_backend";

/// Loads the first of `paths` that exists (a name without a slash is looked for as the system does) and asks it for its
/// backend. It stays in the process. For tests; everybody else calls load_backend.
Result<std::shared_ptr<Backend>> load_module(const std::vector<std::string>& paths);

}  // namespace troupe
