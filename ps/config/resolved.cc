#include <troupe/ps/config/resolved.h>

#include <algorithm>
#include <cstdio>

#include <troupe/kernels/base/random.h>
#include <troupe/ps/config/setting.h>

namespace troupe::ps {
namespace {

constexpr size_t kSourceColumn = 44;

std::string line_text(const Setting& setting, const RunConfig& config, const Sources* sources,
                      const std::string& source_key) {
  std::string line = cat(setting.leaf(), " = ", value_text(setting, config));
  if (sources) {
    line.resize(std::max(line.size() + 2, kSourceColumn), ' ');
    line += "# " + sources->of(source_key);
  }
  return line + "\n";
}

std::string rules_text(const RunConfig& config, const Sources* sources) {
  std::string text;
  for (size_t i = 0; i < config.update.size(); ++i) {
    RunConfig one;
    one.update = {config.update[i]};
    text += "\n[[update]]\n";
    for (const Setting& setting : all_settings()) {
      const bool idle = (setting.leaf() == "staleness" && one.update[0].policy.mode != Mode::ssp) ||
                        (setting.leaf() == "from_step" && one.update[0].from_step == 0);
      if (setting.per_rule() && !idle)
        text += line_text(setting, one, sources, cat("update[", i, "].", setting.leaf()));
    }
  }
  return text;
}

}  // namespace

std::string resolved_toml(const RunConfig& config, const Sources* sources) {
  std::string text, table;
  for (const Setting& setting : all_settings()) {
    if (setting.table() != table) {
      table = setting.table();
      text += setting.per_rule() ? rules_text(config, sources) : cat(text.empty() ? "" : "\n", "[", table, "]\n");
    }
    if (!setting.per_rule()) text += line_text(setting, config, sources, setting.key);
  }
  return text;
}

std::string config_hash(const RunConfig& config) {
  std::string said = rules_text(config, nullptr);
  for (const Setting& setting : all_settings())
    if (!setting.per_rule() && setting.scope == Scope::run)
      said += cat(setting.key, " = ", value_text(setting, config), "\n");
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(derive_seed(0, said.c_str())));
  return text;
}

void keep_own(RunConfig& run, const RunConfig& own) {
  const RunConfig defaults;
  for (const Setting& setting : all_settings())
    if (setting.scope == Scope::process && value_text(setting, own) != value_text(setting, defaults))
      copy_value(setting, own, run);
}

}  // namespace troupe::ps
