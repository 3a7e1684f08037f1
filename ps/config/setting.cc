#include <troupe/ps/config/setting.h>

#include <algorithm>
#include <cmath>

#include <troupe/kernels/base/parse.h>
#include <troupe/ps/config/toml_text.h>

namespace troupe::ps {
namespace {

template <class... Ts>
struct overloaded : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
overloaded(Ts...) -> overloaded<Ts...>;

RawValue number_or_text(std::string_view text) {
  if (const auto i = number_from<int64_t>(text)) return *i;
  if (const auto d = number_from<double>(text)) return *d;
  return std::string(text);
}

/// Integers where all are, else numbers; a text where some entry is neither.
RawValue parse_list(std::string_view text) {
  const std::string whole(text);
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  std::vector<int64_t> integers;
  std::vector<double> numbers;
  text = trimmed(text);
  while (!text.empty()) {
    const auto comma = std::min(text.find(','), text.size());
    const std::string_view entry = trimmed(text.substr(0, comma));
    if (const auto i = number_from<int64_t>(entry)) integers.push_back(*i);
    if (const auto d = number_from<double>(entry))
      numbers.push_back(*d);
    else
      return whole;
    text = comma < text.size() ? trimmed(text.substr(comma + 1)) : std::string_view{};
  }
  if (integers.size() == numbers.size()) return integers;
  return numbers;
}

std::string unquoted(std::string_view text) {
  const bool quoted = text.size() >= 2 && (text.front() == '"' || text.front() == '\'') && text.back() == text.front();
  return std::string(quoted ? text.substr(1, text.size() - 2) : text);
}

std::string kind_text(const RawValue& value) {
  return std::visit(overloaded{[](std::monostate) { return "something else"; }, [](bool) { return "true or false"; },
                               [](int64_t) { return "an integer"; }, [](double) { return "a number"; },
                               [](const std::string&) { return "a text"; },
                               [](const std::vector<int64_t>&) { return "a list of integers"; },
                               [](const std::vector<double>&) { return "a list of numbers"; }},
                    value);
}

std::string raw_text(const RawValue& value) {
  return std::visit(overloaded{[](std::monostate) { return std::string("a value"); },
                               [](const auto& known) { return toml_text(known); }},
                    value);
}

std::string choices_text(const Setting& setting) {
  std::string text;
  for (const char* choice : setting.choices) text += cat(text.empty() ? "" : ", ", choice);
  return text;
}

tl::unexpected<Error> refuse(const Setting& setting, const RawValue& value, const std::string& why) {
  return fail(ErrorKind::invalid, cat(setting.key, " = ", raw_text(value), ": ", why));
}

tl::unexpected<Error> wrong_type(const Setting& setting, const RawValue& value) {
  return refuse(setting, value, cat("takes ", type_text(setting), ", not ", kind_text(value)));
}

bool in_range(const Setting& s, double x) {
  return std::isfinite(x) && x >= s.least && (s.below_most ? x < s.most : x <= s.most);
}

std::string allowed_text(const Setting& setting) {
  const std::string range = range_text(setting);
  return range.empty() ? "finite" : range;
}

template <class T>
Status store_number(const Setting& setting, const RawValue& value, T number, T& target) {
  if (!in_range(setting, static_cast<double>(number))) {
    return refuse(setting, value, "must be " + allowed_text(setting));
  }
  target = number;
  return {};
}

template <class T>
Status store_list(const Setting& setting, const RawValue& value, std::vector<T> list, std::vector<T>& target) {
  for (const T x : list)
    if (!in_range(setting, static_cast<double>(x)))
      return refuse(setting, value, cat("every entry must be ", allowed_text(setting), ", ", x, " is not"));
  target = std::move(list);
  return {};
}

struct Assign {
  const Setting& setting;
  const RawValue& value;
  RunConfig& config;

  Status operator()(FieldOf<bool> at) const {
    if (const bool* b = std::get_if<bool>(&value)) return at(config) = *b, Status{};
    return wrong_type(setting, value);
  }
  Status operator()(FieldOf<int64_t> at) const {
    if (const int64_t* i = std::get_if<int64_t>(&value)) return store_number(setting, value, *i, at(config));
    return wrong_type(setting, value);
  }
  Status operator()(FieldOf<double> at) const {
    if (const double* d = std::get_if<double>(&value)) return store_number(setting, value, *d, at(config));
    if (const int64_t* i = std::get_if<int64_t>(&value))
      return store_number(setting, value, static_cast<double>(*i), at(config));
    return wrong_type(setting, value);
  }
  /// The number that is meant where a text takes one; a resolved config gives it as a text.
  std::optional<double> number() const {
    if (!setting.or_number) return {};
    if (const auto* d = std::get_if<double>(&value)) return *d;
    if (const auto* i = std::get_if<int64_t>(&value)) return static_cast<double>(*i);
    if (const auto* text = std::get_if<std::string>(&value)) return number_from<double>(*text);
    return {};
  }

  Status operator()(FieldOf<std::string> at) const {
    if (const auto given = number()) {
      double stored = 0;
      TROUPE_TRY(store_number(setting, value, *given, stored));
      at(config) = toml_text(stored);
      return {};
    }
    const std::string* text = std::get_if<std::string>(&value);
    if (!text) return wrong_type(setting, value);
    if (!setting.choices.empty()) TROUPE_TRY(choice_of(*text));
    at(config) = *text;
    return {};
  }
  Status operator()(FieldOf<std::vector<int64_t>> at) const {
    if (const auto* list = std::get_if<std::vector<int64_t>>(&value))
      return store_list(setting, value, *list, at(config));
    if (const int64_t* i = std::get_if<int64_t>(&value)) return store_list(setting, value, {*i}, at(config));
    return wrong_type(setting, value);
  }
  Status operator()(FieldOf<std::vector<double>> at) const {
    if (const auto* list = std::get_if<std::vector<double>>(&value))
      return store_list(setting, value, *list, at(config));
    if (const auto* list = std::get_if<std::vector<int64_t>>(&value))
      return store_list(setting, value, std::vector<double>(list->begin(), list->end()), at(config));
    if (const double* d = std::get_if<double>(&value)) return store_list(setting, value, {*d}, at(config));
    if (const int64_t* i = std::get_if<int64_t>(&value))
      return store_list(setting, value, {static_cast<double>(*i)}, at(config));
    return wrong_type(setting, value);
  }
  Status operator()(const EnumField& at) const {
    const std::string* text = std::get_if<std::string>(&value);
    if (!text) return wrong_type(setting, value);
    const auto choice = choice_of(*text);
    if (!choice) return tl::unexpected<Error>(choice.error());
    at.set(config, *choice);
    return {};
  }

  Result<size_t> choice_of(const std::string& text) const {
    const auto found = std::find(setting.choices.begin(), setting.choices.end(), text);
    if (found != setting.choices.end()) return static_cast<size_t>(found - setting.choices.begin());
    return refuse(setting, value, "must be " + type_text(setting));
  }
};

}  // namespace

RawValue parse_text(const Setting& setting, std::string_view raw) {
  const std::string_view text = trimmed(raw);
  return std::visit(overloaded{[&](FieldOf<bool>) -> RawValue {
                                 if (text == "true") return true;
                                 if (text == "false") return false;
                                 return std::string(text);
                               },
                               [&](FieldOf<int64_t>) { return number_or_text(text); },
                               [&](FieldOf<double>) { return number_or_text(text); },
                               [&](FieldOf<std::string>) -> RawValue { return unquoted(text); },
                               [&](FieldOf<std::vector<int64_t>>) { return parse_list(text); },
                               [&](FieldOf<std::vector<double>>) { return parse_list(text); },
                               [&](const EnumField&) -> RawValue { return unquoted(text); }},
                    setting.field);
}

Status assign(const Setting& setting, const RawValue& value, RunConfig& config) {
  return std::visit(Assign{setting, value, config}, setting.field);
}

std::string value_text(const Setting& setting, const RunConfig& config) {
  // The accessors give out references to change; here they only read.
  RunConfig& readable = const_cast<RunConfig&>(config);
  return std::visit(
      overloaded{[&](const EnumField& at) { return toml_text(std::string(setting.choices[at.get(config)])); },
                 [&](auto at) { return toml_text(at(readable)); }},
      setting.field);
}

void copy_value(const Setting& setting, const RunConfig& from, RunConfig& to) {
  RunConfig& readable = const_cast<RunConfig&>(from);
  std::visit(overloaded{[&](const EnumField& at) { at.set(to, at.get(from)); },
                        [&](auto at) { at(to) = at(readable); }},
             setting.field);
}

std::string type_text(const Setting& setting) {
  if (!setting.choices.empty())
    return "one of " + choices_text(setting) + (setting.or_number ? ", or a number, " + range_text(setting) : "");
  return std::visit(
      overloaded{[](FieldOf<bool>) { return "true or false"; }, [](FieldOf<int64_t>) { return "an integer"; },
                 [](FieldOf<double>) { return "a number"; }, [](FieldOf<std::string>) { return "a text"; },
                 [](FieldOf<std::vector<int64_t>>) { return "a list of integers"; },
                 [](FieldOf<std::vector<double>>) { return "a list of numbers"; },
                 [](const EnumField&) { return "a choice"; }},
      setting.field);
}

std::string range_text(const Setting& setting) {
  const bool below = setting.below_most;
  if (setting.least == kNoBound * -1 && setting.most == kNoBound) return "";
  if (setting.most == kNoBound) return cat(setting.least, " or more");
  if (below) return cat("at least ", setting.least, " and below ", setting.most);
  return cat("from ", setting.least, " to ", setting.most);
}

}  // namespace troupe::ps
