#include <troupe/ps/config/update_text.h>

#include <troupe/kernels/base/parse.h>
#include <troupe/ps/config/setting.h>

namespace troupe::ps {
namespace {

/// Commas inside a glob's [a,b] do not separate rules.
std::vector<std::string_view> split_rules(std::string_view text) {
  std::vector<std::string_view> parts;
  size_t begin = 0;
  bool bracket = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '[') bracket = true;
    if (text[i] == ']') bracket = false;
    if (text[i] != ',' || bracket) continue;
    parts.push_back(trimmed(text.substr(begin, i - begin)));
    begin = i + 1;
  }
  parts.push_back(trimmed(text.substr(begin)));
  return parts;
}

Result<UpdateRule> parse_rule(std::string_view text) {
  const auto colon = text.rfind(':');
  RunConfig one;  // the settings themselves check mode and staleness
  if (colon != std::string_view::npos) one.update[0].layers = std::string(trimmed(text.substr(0, colon)));
  std::string_view mode = colon == std::string_view::npos ? text : trimmed(text.substr(colon + 1));
  const auto open = mode.find('(');
  if (open != std::string_view::npos) {
    if (!mode.ends_with(')'))
      return fail(ErrorKind::invalid, cat("update = \"", text, "\": expected ssp(STEPS), as in ssp(2)"));
    const Setting& staleness = *find_setting("update.staleness");
    TROUPE_TRY(assign(staleness, parse_text(staleness, mode.substr(open + 1, mode.size() - open - 2)), one));
    mode = trimmed(mode.substr(0, open));
  }
  const Setting& setting = *find_setting("update.mode");
  TROUPE_TRY(assign(setting, std::string(mode), one));
  const Policy& policy = one.update[0].policy;
  if ((policy.mode == Mode::ssp) != (open != std::string_view::npos))
    return fail(ErrorKind::invalid, cat("update = \"", text, "\": ssp, and only ssp, takes a staleness: ssp(2)"));
  return one.update[0];
}

}  // namespace

Result<std::vector<UpdateRule>> parse_rules(std::string_view text) {
  std::vector<UpdateRule> rules;
  for (const std::string_view part : split_rules(text)) {
    auto rule = parse_rule(part);
    if (!rule) return tl::unexpected<Error>(rule.error());
    rules.push_back(std::move(*rule));
  }
  return rules;
}

}  // namespace troupe::ps
