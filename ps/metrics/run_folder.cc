#include <troupe/ps/metrics/run_folder.h>

#include <troupe/kernels/base/check.h>
#include <troupe/ps/checkpoint/file_ops.h>

namespace fs = std::filesystem;

namespace troupe::ps {
namespace {

tl::unexpected<Error> refuse(const fs::path& path, const std::string& what, const std::error_code& why) {
  return fail(ErrorKind::failed, path.string() + ": " + what + ": " + why.message());
}

}  // namespace

Result<RunFolder> RunFolder::create_under(const std::string& parent, const std::string& name,
                                          const std::string& stamp) {
  TROUPE_CHECK(name.find('/') == std::string::npos, "run name ", name);
  std::error_code error;
  fs::create_directories(parent, error);
  if (error) return refuse(parent, "cannot create the folder of runs", error);
  const fs::path base = fs::path(parent) / (name + "-" + stamp);
  fs::path path = base;
  // create_directory tells whether it was this call that made it: two runs in one second get two folders.
  for (int number = 2; !fs::create_directory(path, error); ++number) {
    if (error) return refuse(path, "cannot create the run's folder", error);
    path = base.string() + "-" + std::to_string(number);
  }
  return prepare(path);
}

Result<RunFolder> RunFolder::create_at(const std::string& path) {
  std::error_code error;
  if (fs::exists(path, error) && !fs::is_directory(path, error))
    return fail(ErrorKind::invalid, path + ": is a file, not a folder for a run; name another with --run-dir");
  fs::create_directories(path, error);
  if (error) return refuse(path, "cannot create the run's folder", error);
  if (!fs::is_empty(path, error))
    return fail(ErrorKind::invalid, path +
                                        ": the folder is not empty, and a run would write over what is in it; name "
                                        "another with --run-dir, or go on with its run by --resume");
  return prepare(path);
}

Result<RunFolder> RunFolder::open(const std::string& path) {
  std::error_code error;
  const RunFolder folder{fs::path(path)};
  if (!fs::is_directory(path, error)) return fail(ErrorKind::missing, path + ": there is no such run folder");
  if (!fs::exists(folder.config(), error))
    return fail(ErrorKind::missing, path + ": is not a run's folder: it has no config.resolved.toml");
  return prepare(path);
}

Result<RunFolder> RunFolder::prepare(const fs::path& path) {
  RunFolder folder{path};
  std::error_code error;
  fs::create_directories(folder.checkpoints(), error);
  if (error) return refuse(folder.checkpoints(), "cannot create the folder of checkpoints", error);
  return folder;
}

Status replace_file(const std::string& path, const std::string& text) {
  const auto files = make_posix_files();
  const std::string part = path + ".part";
  Status written = write_file(*files, part, text);
  if (written) written = files->rename(part, path);
  if (written) return {};
  (void)files->remove_file(part);
  return fail(path + " was not written", written.error());
}

}  // namespace troupe::ps
