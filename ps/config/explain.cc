#include <troupe/ps/config/explain.h>

#include <troupe/ps/config/nearest.h>
#include <troupe/ps/config/setting.h>
#include <troupe/ps/config/variable.h>

namespace troupe::ps {
namespace {

/// The three ways; rules have short forms of their own outside the file.
std::string ways_text(const Setting& setting, const std::string& value) {
  if (setting.per_rule())
    return cat("    [[update]] ", setting.leaf(), " = ", value,
               "  |  --set 'update=fc1:sync,*:ssp(2)'  |  TROUPE_UPDATE=async\n");
  return cat("    [", setting.table(), "] ", setting.leaf(), " = ", value, "  |  --set ", setting.key, "=...  |  ",
             variable_of(setting.key), "=...\n");
}

const char* scope_text(Scope scope) {
  switch (scope) {
    case Scope::run: return "";
    case Scope::coordinator: return "    The coordinator's counts for all processes: nodes' configs may differ.\n";
    case Scope::process: return "    Each process may have its own: nodes' configs may differ.\n";
  }
  return "";
}

std::string explain_one(const Setting& setting) {
  const std::string value = value_text(setting, RunConfig{});
  const std::string range = range_text(setting);
  const std::string unit = setting.unit;
  return cat(setting.key, ": ", type_text(setting), unit.empty() ? "" : " (" + unit + ")",
             range.empty() ? "" : ", " + range, "; default ", value, "\n    ", setting.why, "\n",
             scope_text(setting.scope), ways_text(setting, value));
}

}  // namespace

Result<std::string> explain(std::string_view key) {
  std::string text;
  for (const Setting& setting : all_settings())
    if (key.empty() || key == setting.key || key == setting.table())
      text += (text.empty() ? "" : "\n") + explain_one(setting);
  if (!text.empty()) return text;
  std::string near = key.find('.') == std::string_view::npos ? nearest_table(key) : "";
  if (near.empty()) near = nearest_key(key);
  return fail(ErrorKind::invalid, cat("unknown key ", key, near.empty() ? "" : "; did you mean " + near + "?"));
}

}  // namespace troupe::ps
