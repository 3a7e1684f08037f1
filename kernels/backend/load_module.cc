#include <dlfcn.h>
#include <unistd.h>

#include <troupe/kernels/backend/internal/module.h>

namespace troupe {
namespace {

bool exists(const std::string& path) {
  // What is looked up by name is for dlopen to find.
  return path.find('/') == std::string::npos || ::access(path.c_str(), F_OK) == 0;
}

std::string listed(const std::vector<std::string>& paths) {
  std::string text;
  for (const std::string& path : paths) text += (text.empty() ? "" : ", ") + path;
  return text;
}

// RTLD_NOW: a library that lacks something says so here. RTLD_LOCAL: its names are its own.
void* open_module(const std::string& path) { return ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE); }

std::string last_dl_error() {
  const char* text = ::dlerror();
  return text ? text : "no reason given";
}

Result<std::shared_ptr<Backend>> make(void* module, const std::string& path) {
  const auto factory = reinterpret_cast<ModuleFactory>(::dlsym(module, kModuleFactory));
  if (!factory) return fail(ErrorKind::missing, cat(path, " is no backend of Troupe: it has no ", kModuleFactory));
  std::shared_ptr<Backend> made;
  const Error error = factory(ModuleAbi{}, made);
  if (!made) return fail(error.kind, error.message);
  return made;
}

}  // namespace

Result<std::shared_ptr<Backend>> load_module(const std::vector<std::string>& paths) {
  std::string why;
  for (const std::string& path : paths) {
    if (!exists(path)) continue;
    if (void* module = open_module(path)) return make(module, path);
    why += (why.empty() ? "" : "; ") + last_dl_error();
    if (path.find('/') != std::string::npos) break;  // it is there and broken: another one would hide that
  }
  return fail(ErrorKind::missing, cat("the backend could not be loaded from any of ", listed(paths), " (", why, ")"));
}

}  // namespace troupe
