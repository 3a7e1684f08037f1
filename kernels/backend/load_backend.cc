#include <unistd.h>

#include <array>
#include <mutex>

#include <troupe/kernels/backend/internal/cpu_backend.h>
#include <troupe/kernels/backend/internal/module.h>

namespace troupe {
namespace {

constexpr const char* kCudaModule = "libtroupe_cuda.so";

// The folder of the running program, with a slash; empty where the system does not say.
std::string program_folder() {
  std::array<char, 4096> path{};
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  if (length <= 0 || static_cast<size_t>(length) == path.size()) return {};
  const std::string whole(path.data(), static_cast<size_t>(length));
  return whole.substr(0, whole.rfind('/') + 1);
}

// A module is loaded once; what it found then (a driver, devices) does not change while the process lives. Never
// destroyed: the CUDA runtime may be gone by the time static objects are.
struct Loaded {
  std::mutex mutex;
  std::array<std::shared_ptr<Backend>, 2> backends;  ///< by kind
};
Loaded& loaded() {
  static Loaded* const all = new Loaded;
  return *all;
}

Result<std::shared_ptr<Backend>> load_cuda() {
  const std::string here = program_folder();
  auto made = load_module({here + kCudaModule, here + "../lib/troupe/" + kCudaModule, kCudaModule});
  if (made) return made;
  return fail("no CUDA device can be used", made.error());
}

}  // namespace

Result<std::shared_ptr<Backend>> load_backend(DeviceKind kind) {
  std::lock_guard lock(loaded().mutex);
  std::shared_ptr<Backend>& backend = loaded().backends[static_cast<size_t>(kind)];
  if (backend) return backend;
  auto made = kind == DeviceKind::cpu ? Result<std::shared_ptr<Backend>>(make_cpu_backend()) : load_cuda();
  if (made) backend = *made;
  return made;
}

}  // namespace troupe
