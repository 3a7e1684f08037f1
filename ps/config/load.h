#pragma once
#include <map>
#include <string>
#include <vector>

#include <troupe/kernels/base/result.h>
#include <troupe/ps/config/run_config.h>

namespace troupe::ps {

/// Where each value came from: "default", "configs/x.toml:7", "environment (TROUPE_TRAIN__EPOCHS)",
/// "command line". Keys are those of the settings, those of a `[[update]]` table with its index:
/// "update[0].mode".
class Sources {
 public:
  std::string of(const std::string& key) const {
    const auto found = by_key_.find(key);
    return found == by_key_.end() ? "default" : found->second;
  }
  bool given(const std::string& key) const { return by_key_.count(key) > 0; }
  void set(const std::string& key, std::string where) { by_key_[key] = std::move(where); }
  /// Forgets the `[[update]]` tables, which another source replaces.
  void drop_rules();

 private:
  std::map<std::string, std::string> by_key_;
};

/// What a configuration is made of; later ones win: defaults, file, environment, command line.
struct ConfigInput {
  std::string file_name;  ///< for messages
  std::string file_text;  ///< TOML
  /// Variables of the environment, all of them if that is easier. TROUPE_TRAIN__EPOCHS=3 sets train.epochs,
  /// TROUPE_UPDATE the rules.
  std::map<std::string, std::string> environment;
  /// "train.epochs=3". Lists as "32,64". `update=async` or `update=fc1:sync,fc*:ssp(2)` replaces all rules.
  std::vector<std::string> overrides;
};

struct LoadedConfig {
  RunConfig config;
  Sources sources;
  std::vector<std::string> warnings;  ///< settings without effect, each a sentence
};

/// Everything that is wrong is in the one error, a line each: "x.toml:7:1: unknown key train.epoch; did you
/// mean train.epochs?".
Result<LoadedConfig> load_config(const ConfigInput& input);

/// Reads the file `path` for `input.file_text`, then as above.
Result<LoadedConfig> load_config_file(const std::string& path, ConfigInput input = {});

}  // namespace troupe::ps
