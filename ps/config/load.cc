#include <troupe/ps/config/load.h>

#include <algorithm>
#include <iterator>

#include <troupe/ps/config/checks.h>
#include <troupe/ps/config/nearest.h>
#include <troupe/ps/config/read_text.h>
#include <troupe/ps/config/setting.h>
#include <troupe/ps/config/toml_file.h>
#include <troupe/ps/config/update_text.h>
#include <troupe/ps/config/variable.h>

namespace troupe::ps {
namespace {

// RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF.
bool valid_utf8(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  for (size_t i = 0; i < text.size();) {
    const unsigned first = byte(i);
    const size_t length = first < 0x80 ? 1 : first >> 5 == 6 ? 2 : first >> 4 == 14 ? 3 : first >> 3 == 30 ? 4 : 0;
    if (length == 0) return false;
    uint32_t letter = length == 1 ? first : first & (0x7Fu >> length);
    for (size_t k = 1; k < length; ++k) {
      if (byte(i + k) >> 6 != 2) return false;
      letter = letter << 6 | (byte(i + k) & 0x3Fu);
    }
    static constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
    if (letter < kLeast[length] || letter > 0x10FFFF || (letter >= 0xD800 && letter < 0xE000)) return false;
    i += length;
  }
  return true;
}

std::string rule_key(size_t rule, const Setting& setting) { return cat("update[", rule, "].", setting.leaf()); }

/// Assigns to one of the rules, where `assign` itself knows only the last.
Status assign_to_rule(const Setting& setting, const RawValue& value, UpdateRule& rule) {
  RunConfig one;
  one.update = {rule};
  TROUPE_TRY(assign(setting, value, one));
  rule = one.update.back();
  return {};
}

std::string unknown_table_text(const TomlEntry& entry) {
  // A table that should be a list of tables, the commonest slip with [[update]].
  if (entry.key == "update") return "[update] is a list of tables: write [[update]]";
  const std::string near = nearest_table(entry.key);
  return cat("unknown table [", entry.key, "]", near.empty() ? "" : "; did you mean [" + near + "]?");
}

std::string unknown_key_text(const std::string& key) {
  for (const Setting& setting : all_settings())
    if (setting.table() == key) return cat(key, " is a table of settings: set one of them, as in ", setting.key);
  const std::string near = nearest_key(key);
  return cat("unknown key ", key,
             near.empty() ? "; `troupe config --explain` lists all" : "; did you mean " + near + "?");
}

class Loader {
 public:
  Result<LoadedConfig> load(const ConfigInput& input) {
    const auto file = parse_toml(input.file_text, input.file_name);
    if (file)
      take_file(*file, input.file_name);
    else
      problems_.push_back(file.error().message);
    for (const auto& [name, value] : input.environment) take_variable(name, value);
    for (const std::string& text : input.overrides) take_override(text);
    if (problems_.empty()) {
      derive_from_worker_batch();
      derive_from_stages();
      check_config(loaded_.config, loaded_.sources, problems_, loaded_.warnings);
    }
    if (problems_.empty()) return std::move(loaded_);
    std::string text;
    for (const std::string& problem : problems_) text += (text.empty() ? "" : "\n") + problem;
    return fail(ErrorKind::invalid, text);
  }

 private:
  void take_file(const TomlFile& file, const std::string& name) {
    if (!file.rules.empty()) loaded_.config.update.assign(file.rules.size(), UpdateRule{});
    for (const TomlEntry& entry : file.entries) take_entry(entry, name);
  }

  void take_entry(const TomlEntry& entry, const std::string& file) {
    const auto at = [&](Place place) { return cat(file, ':', place.line, ':', place.column, ": "); };
    const Setting* setting = find_setting(entry.key);
    if (!setting) {
      problems_.push_back(at(entry.key_place) +
                          (entry.table ? unknown_table_text(entry) : unknown_key_text(entry.key)));
      return;
    }
    const size_t rule = static_cast<size_t>(entry.rule);
    const Status status = setting->per_rule() ? assign_to_rule(*setting, entry.value, loaded_.config.update[rule])
                                              : assign(*setting, entry.value, loaded_.config);
    if (!status) problems_.push_back(at(entry.value_place) + status.error().message);
    loaded_.sources.set(setting->per_rule() ? rule_key(rule, *setting) : entry.key,
                        cat(file, ':', entry.key_place.line));
  }

  void take_variable(const std::string& name, const std::string& value) {
    if (!name.starts_with(kVariablePrefix)) return;
    const std::string key = key_of(name);
    const std::string where = "environment (" + name + ")";
    if (key == "update" || find_setting(key)) return take_text(key, value, where);
    // Other TROUPE_ variables belong to scripts; what looks like a setting must be one.
    for (const Setting& setting : all_settings()) {
      std::string flat = variable_of(setting.key);
      flat.replace(flat.find("__"), 2, "_");
      if (name == flat) {
        problems_.push_back(cat(where, ": unknown; did you mean ", variable_of(setting.key), "?"));
        return;
      }
    }
    if (key.find('.') == std::string::npos) return;
    const std::string near = nearest_key(key);
    problems_.push_back(
        cat(where, ": unknown key ", key, near.empty() ? "" : "; did you mean " + variable_of(near) + "?"));
  }

  void take_override(const std::string& text) {
    const auto equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      problems_.push_back(cat("command line: --set ", text, ": expected KEY=VALUE, as in --set train.epochs=3"));
      return;
    }
    take_text(text.substr(0, equals), text.substr(equals + 1), "command line");
  }

  void take_text(const std::string& key, const std::string& text, const std::string& where) {
    if (!valid_utf8(text)) {  // a file's text is; the resolved config has to be readable, too
      problems_.push_back(cat(where, ": ", find_setting(key) || key == "update" ? key : "a value",
                              ": is not UTF-8 text"));
      return;
    }
    if (key == "update") return take_rules(text, where);
    const Setting* setting = find_setting(key);
    if (!setting) {
      problems_.push_back(where + ": " + unknown_key_text(key));
      return;
    }
    if (setting->per_rule() && loaded_.config.update.size() > 1) {
      problems_.push_back(cat(where, ": ", key, ": there are ", loaded_.config.update.size(),
                              " [[update]] tables; set all of them, as in update=fc1:sync,*:ssp(2)"));
      return;
    }
    const Status status = assign(*setting, parse_text(*setting, text), loaded_.config);
    if (!status) problems_.push_back(where + ": " + status.error().message);
    loaded_.sources.set(setting->per_rule() ? rule_key(0, *setting) : key, where);
  }

  void take_rules(const std::string& text, const std::string& where) {
    auto rules = parse_rules(text);
    if (!rules) {
      problems_.push_back(where + ": " + rules.error().message);
      return;
    }
    loaded_.config.update = std::move(*rules);
    loaded_.sources.drop_rules();
    for (size_t i = 0; i < loaded_.config.update.size(); ++i)
      for (const Setting& setting : all_settings())
        if (setting.per_rule()) loaded_.sources.set(rule_key(i, setting), where);
  }

  /// One replica, where nobody says how many workers there are.
  void derive_from_stages() {
    ParallelSection& p = loaded_.config.parallel;
    if (p.stages == 1 || loaded_.sources.given("parallel.workers")) return;
    p.workers = p.stages;
    loaded_.sources.set("parallel.workers", "from parallel.stages, " + loaded_.sources.of("parallel.stages"));
  }

  /// Shares that are given say how many workers and samples there are, unless those are given as well.
  void derive_from_worker_batch() {
    const auto& shares = loaded_.config.parallel.worker_batch;
    if (shares.empty()) return;
    int64_t sum = 0;
    for (const int64_t share : shares) sum += share;
    const std::string where = "from parallel.worker_batch, " + loaded_.sources.of("parallel.worker_batch");
    if (!loaded_.sources.given("parallel.workers")) {
      loaded_.config.parallel.workers = static_cast<int64_t>(shares.size()) * loaded_.config.parallel.stages;
      loaded_.sources.set("parallel.workers", where);
    }
    if (!loaded_.sources.given("train.batch_size")) {
      loaded_.config.train.batch_size = sum;
      loaded_.sources.set("train.batch_size", where);
    }
  }

  LoadedConfig loaded_;
  std::vector<std::string> problems_;
};

}  // namespace

void Sources::drop_rules() {
  for (auto it = by_key_.begin(); it != by_key_.end();)
    it = it->first.starts_with("update[") ? by_key_.erase(it) : std::next(it);
}

Result<LoadedConfig> load_config(const ConfigInput& input) { return Loader().load(input); }

Result<LoadedConfig> load_config_file(const std::string& path, ConfigInput input) {
  auto text = read_text(path, "the config file", "a TOML file");
  if (!text) return tl::unexpected<Error>(text.error());
  input.file_name = path;
  input.file_text = std::move(*text);
  return load_config(input);
}

}  // namespace troupe::ps
