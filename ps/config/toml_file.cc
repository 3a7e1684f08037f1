#include <troupe/ps/config/toml_file.h>

#include <algorithm>
#include <optional>

// The only file that sees toml++: header-only and without exceptions, so that nothing needs to be linked.
#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#include <toml++/impl/preprocessor.h>
// The parser asserts what a mistyped key breaks, and assumes it where assertions are off. It finds the mistake right
// after.
#undef TOML_ASSERT_ASSUME
#define TOML_ASSERT_ASSUME(expr) static_assert(true)
#include <toml++/toml.h>

namespace troupe::ps {
namespace {

Place place_of(const toml::source_region& region) { return {region.begin.line, region.begin.column}; }

std::vector<int64_t> integers(const toml::array& array) {
  std::vector<int64_t> list;
  for (const auto& element : array) list.push_back(element.as_integer()->get());
  return list;
}

/// Integers that no double holds are rounded.
std::vector<double> numbers(const toml::array& array) {
  std::vector<double> list;
  for (const auto& element : array) {
    const auto* integer = element.as_integer();
    list.push_back(integer ? static_cast<double>(integer->get()) : element.as_floating_point()->get());
  }
  return list;
}

RawValue raw_value(const toml::node& node) {
  if (const auto* v = node.as_boolean()) return v->get();
  if (const auto* v = node.as_integer()) return v->get();
  if (const auto* v = node.as_floating_point()) return v->get();
  if (const auto* v = node.as_string()) return v->get();
  if (const auto* v = node.as_array()) {
    const auto all = [&](auto test) { return std::all_of(v->begin(), v->end(), test); };
    if (all([](const auto& n) { return n.is_integer(); })) return integers(*v);
    if (all([](const auto& n) { return n.is_number(); })) return numbers(*v);
  }
  return std::monostate{};
}

bool known_table(std::string_view name) {
  const auto& all = all_settings();
  return std::any_of(all.begin(), all.end(), [&](const Setting& s) { return s.table() == name; });
}

bool tables_only(const toml::node& node) {
  const toml::array* array = node.as_array();
  return array && !array->empty() &&
         std::all_of(array->begin(), array->end(), [](const auto& n) { return n.is_table(); });
}

class Collector {
 public:
  TomlFile take(const toml::table& root) {
    for (const auto& [key, node] : root) top_level(key, node);
    std::sort(file_.entries.begin(), file_.entries.end(), [](const TomlEntry& a, const TomlEntry& b) {
      return std::pair(a.key_place.line, a.key_place.column) < std::pair(b.key_place.line, b.key_place.column);
    });
    return std::move(file_);
  }

 private:
  void top_level(const toml::key& key, const toml::node& node) {
    const std::string name(key.str());
    if (name == "update" && tables_only(node)) {
      for (const auto& table : *node.as_array()) rule(*table.as_table());
    } else if (node.is_table() && known_table(name) && name != "update") {
      for (const auto& [inner, value] : *node.as_table()) add(name + "." + std::string(inner.str()), -1, inner, value);
    } else {
      add(name, -1, key, node);
    }
  }

  void rule(const toml::table& table) {
    const int index = static_cast<int>(file_.rules.size());
    file_.rules.push_back(place_of(table.source()));
    for (const auto& [key, value] : table) add("update." + std::string(key.str()), index, key, value);
  }

  void add(std::string name, int rule, const toml::key& key, const toml::node& node) {
    file_.entries.push_back({std::move(name), rule, node.is_table() || tables_only(node), raw_value(node),
                             place_of(key.source()), place_of(node.source())});
  }

  TomlFile file_;
};

/// The first letter beyond ASCII that is in neither a string nor a comment, where TOML has no place for any. toml++ 3.3
/// would take some of them for what cannot be (undefined behaviour in its tables of white space).
std::optional<size_t> stray_letter(std::string_view text) {
  enum class In : uint8_t { nothing, comment, basic, literal, long_basic, long_literal } in = In::nothing;
  const auto three = [&](size_t at, char quote) { return text.substr(at, 3) == std::string(3, quote); };
  for (size_t i = text.starts_with("\xEF\xBB\xBF") ? 3 : 0; i < text.size(); ++i) {
    const char c = text[i];
    switch (in) {
      case In::nothing:
        if (static_cast<unsigned char>(c) >= 0x80) return i;
        if (c == '#') in = In::comment;
        if (c == '"') in = three(i, c) ? In::long_basic : In::basic;
        if (c == '\'') in = three(i, c) ? In::long_literal : In::literal;
        if (in == In::long_basic || in == In::long_literal) i += 2;
        break;
      case In::comment:
        if (c == '\n') in = In::nothing;
        break;
      case In::basic:
        if (c == '\\') ++i;
        else if (c == '"' || c == '\n') in = In::nothing;
        break;
      case In::literal:
        if (c == '\'' || c == '\n') in = In::nothing;
        break;
      case In::long_basic:
        if (c == '\\') ++i;
        else if (three(i, '"')) in = In::nothing, i += 2;
        break;
      case In::long_literal:
        if (three(i, '\'')) in = In::nothing, i += 2;
        break;
    }
  }
  return {};
}

Place place_at(std::string_view text, size_t at) {
  const std::string_view before = text.substr(0, at);
  const size_t line_begin = before.rfind('\n') == before.npos ? 0 : before.rfind('\n') + 1;
  return {static_cast<uint32_t>(std::count(before.begin(), before.end(), '\n') + 1),
          static_cast<uint32_t>(at - line_begin + 1)};
}

}  // namespace

Result<TomlFile> parse_toml(std::string_view text, const std::string& name) {
  if (const auto stray = stray_letter(text)) {
    const Place place = place_at(text, *stray);
    return fail(ErrorKind::invalid, cat(name, ':', place.line, ':', place.column,
                                        ": not valid TOML: a letter beyond ASCII, which may only stand in strings and "
                                        "comments"));
  }
  const toml::parse_result parsed = toml::parse(text, std::string_view(name));
  if (!parsed) {
    const Place place = place_of(parsed.error().source());
    return fail(ErrorKind::invalid,
                cat(name, ':', place.line, ':', place.column, ": not valid TOML: ", parsed.error().description()));
  }
  return Collector().take(parsed.table());
}

}  // namespace troupe::ps
