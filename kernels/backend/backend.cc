#include <troupe/kernels/backend/backend.h>

#include <troupe/kernels/tensor/internal/block_cache.h>

namespace troupe {

Status Backend::begin_capture(Stream&, std::shared_ptr<BlockCache>&) {
  return fail(ErrorKind::missing, "this backend has no graphs of launches");
}
Result<std::unique_ptr<LaunchGraph>> Backend::end_capture(Stream&) {
  return fail(ErrorKind::missing, "this backend has no graphs of launches");
}
Status Backend::replay(LaunchGraph&, Stream&) {
  return fail(ErrorKind::missing, "this backend has no graphs of launches");
}

}  // namespace troupe
