#include <troupe/ps/config/replay_settings.h>

#include <string_view>

#include <troupe/ps/config/resolved.h>
#include <troupe/ps/config/setting.h>

namespace troupe::ps {
namespace {

/// What may be another in a replay: it changes neither the numbers nor which events there are.
bool free_in_replay(const Setting& setting) {
  for (const char* table : {"run", "network", "elastic", "metrics"})
    if (setting.table() == table) return true;
  for (const char* key : {"data.path", "checkpoint.keep", "checkpoint.at_end", "debug.record", "debug.slow_worker",
                          "debug.slow_factor", "debug.slow_ms"})
    if (std::string_view(setting.key) == key) return true;
  return false;
}

std::string rules_text(const RunConfig& config) {
  RunConfig rules;
  rules.update = config.update;
  return resolved_toml(rules);
}

}  // namespace

// Another config has other events: waiting for the recorded ones might never end, or give other parameters.
Status check_same_run(const RunConfig& config, const Sources& sources, const std::string& run) {
  const auto recorded = load_config_file(run + "/config.resolved.toml");
  if (!recorded) return tl::unexpected<Error>(recorded.error());
  const char* advice = ": a replay needs the settings of the run that it repeats; leave out what changes them";
  for (const Setting& setting : all_settings()) {
    if (setting.per_rule() || free_in_replay(setting)) continue;
    const std::string before = value_text(setting, recorded->config), now = value_text(setting, config);
    if (before != now)
      return fail(ErrorKind::invalid, cat(setting.key, " = ", now, " (", sources.of(setting.key),
                                          ") was ", before, " when it was recorded", advice));
  }
  if (rules_text(recorded->config) != rules_text(config))
    return fail(ErrorKind::invalid, cat("[[update]] was another when it was recorded", advice));
  return {};
}

}  // namespace troupe::ps
