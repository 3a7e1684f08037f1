#include <troupe/ps/metrics/run_folder.h>

#include <troupe/kernels/base/check.h>
#include <troupe/ps/checkpoint/file_ops.h>

namespace fs = std::filesystem;

namespace troupe::ps {
namespace {

tl::unexpected<Error> refuse(const fs::path& path, const std::string& what, const std::error_code& why) {
  return fail(ErrorKind::failed, path.string() + ": " + what + ": " + why.message());
}

/// Creates `path` and its parents; the folders that were not there, outermost first.
std::vector<fs::path> create_folders(const fs::path& path, std::error_code& error) {
  std::vector<fs::path> missing;
  std::error_code ignored;
  for (fs::path p = path; !p.empty() && !fs::exists(p, ignored); p = p.parent_path()) {
    if (p.has_filename()) missing.insert(missing.begin(), p);
    if (p == p.parent_path()) break;
  }
  fs::create_directories(path, error);
  return missing;
}

}  // namespace

Result<RunFolder> RunFolder::create_under(const std::string& parent, const std::string& name,
                                          const std::string& stamp) {
  TROUPE_CHECK(name.find('/') == std::string::npos, "run name ", name);
  std::error_code error;
  std::vector<fs::path> made = create_folders(parent, error);
  if (error) return refuse(parent, "cannot create the folder of runs", error);
  const fs::path base = fs::path(parent) / (name + "-" + stamp);
  fs::path path = base;
  // create_directory tells whether it was this call that made it: two runs in one second get two folders.
  for (int number = 2; !fs::create_directory(path, error); ++number) {
    if (error) return refuse(path, "cannot create the run's folder", error);
    path = base.string() + "-" + std::to_string(number);
  }
  made.push_back(path);
  return prepare(path, std::move(made));
}

Result<RunFolder> RunFolder::create_at(const std::string& path) {
  std::error_code error;
  if (fs::exists(path, error) && !fs::is_directory(path, error))
    return fail(ErrorKind::invalid, path + ": is a file, not a folder for a run; name another with --run-dir");
  std::vector<fs::path> made = create_folders(path, error);
  if (error) return refuse(path, "cannot create the run's folder", error);
  const bool empty = fs::is_empty(path, error);
  if (error) return refuse(path, "cannot look into the run's folder", error);
  if (!empty)
    return fail(ErrorKind::invalid, path +
                                        ": the folder is not empty, and a run would write over what is in it; name "
                                        "another with --run-dir, or go on with its run by --resume");
  return prepare(path, std::move(made));
}

Result<RunFolder> RunFolder::open(const std::string& path) {
  std::error_code error;
  const RunFolder folder{fs::path(path)};
  if (!fs::is_directory(path, error)) return fail(ErrorKind::missing, path + ": there is no such run folder");
  if (!fs::exists(folder.config(), error))
    return fail(ErrorKind::missing, path + ": is not a run's folder: it has no config.resolved.toml");
  auto opened = prepare(path, {});
  if (opened) opened->opened_ = true;
  return opened;
}

Result<RunFolder> RunFolder::prepare(const fs::path& path, std::vector<fs::path> made) {
  RunFolder folder{path};
  folder.made_ = std::move(made);
  std::error_code error;
  fs::create_directories(folder.checkpoints(), error);
  if (!error) return folder;
  const auto refused = refuse(folder.checkpoints(), "cannot create the folder of checkpoints", error);
  for (auto made_one = folder.made_.rbegin(); made_one != folder.made_.rend(); ++made_one) fs::remove(*made_one, error);
  return refused;
}

void RunFolder::discard() {
  if (opened_) return;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(path_, ignored)) fs::remove_all(entry.path(), ignored);
  // A folder that somebody else has put something into by now stays.
  for (auto made = made_.rbegin(); made != made_.rend(); ++made) fs::remove(*made, ignored);
}

std::string journal_folder(const std::string& run) { return run + "/journal"; }
std::string record_folder(const std::string& run) { return run + "/record"; }

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
