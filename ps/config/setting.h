#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <troupe/kernels/base/result.h>
#include <troupe/ps/config/run_config.h>

namespace troupe::ps {

/// A member of RunConfig that is an enum; its values are the setting's choices in their order.
struct EnumField {
  size_t (*get)(const RunConfig&);
  void (*set)(RunConfig&, size_t);
};

/// Where a setting lives; the alternative is also its type.
template <class T>
using FieldOf = T& (*)(RunConfig&);
using Field = std::variant<FieldOf<bool>, FieldOf<int64_t>, FieldOf<double>, FieldOf<std::string>,
                           FieldOf<std::vector<int64_t>>, FieldOf<std::vector<double>>, EnumField>;

inline constexpr double kNoBound = std::numeric_limits<double>::infinity();

/// Whose value counts in a run of several processes, where a node has a config of its own.
enum class Scope : uint8_t {
  run,          ///< the run's: what is computed, or what becomes of it, depends on it; a node whose own is another is
                ///< refused (config_hash)
  coordinator,  ///< the coordinator's: nobody else looks at it, or it tells all what it made of it (a folder with the
                ///< time in its name, a pipeline's cuts from a profile); a node's own need not agree
  process,      ///< each process's own: where it puts things, how it is connected; a node that says nothing of its own
                ///< has the run's
};

/// Everything there is to know about one setting. Parsing, `--set`, the environment, `--explain`, the
/// resolved config and the errors all come from this.
struct Setting {
  const char* key;  ///< "train.epochs"; "update.*" settings exist once a `[[update]]` table
  Field field;
  const char* unit;          ///< "" where there is none
  const char* why;           ///< one sentence: what it is and when to change it
  double least = -kNoBound;  ///< of the number, or of every element of a list
  double most = kNoBound;
  bool below_most = false;  ///< `most` itself is not allowed
  std::vector<const char*> choices = {};
  bool or_number = false;  ///< a text that takes a number as well as its choices, within the bounds
  const char* also = "";  ///< what other programs call it, for "did you mean"
  Scope scope = Scope::run;

  std::string_view table() const;  ///< "train"
  std::string_view leaf() const;   ///< "epochs"
  bool per_rule() const { return table() == "update"; }
};

/// All settings, table by table, in the order in which they are explained and written.
const std::vector<Setting>& all_settings();
const Setting* find_setting(std::string_view key);

/// A value as a file or a text gives it, before a setting says what it should be. `monostate`: something no
/// setting takes (a date, a table, a list of texts).
using RawValue =
    std::variant<std::monostate, bool, int64_t, double, std::string, std::vector<int64_t>, std::vector<double>>;

/// Reads `text` (of the environment or the command line) as the type of `setting`. Lists: `32,64` or `[32,
/// 64]`.
RawValue parse_text(const Setting& setting, std::string_view text);

/// Checks type, range and choices, then stores; per-rule settings go to the last rule. An integer is taken
/// where a number is asked for, a single number where a list is. The error is a sentence without its place:
/// "train.epochs = -3: must be 0 or more".
Status assign(const Setting& setting, const RawValue& value, RunConfig& config);

/// The setting's value as TOML writes it. Per-rule settings: of the last rule.
std::string value_text(const Setting& setting, const RunConfig& config);

void copy_value(const Setting& setting, const RunConfig& from, RunConfig& to);

/// "integer", "list of numbers", "one of stop, skip".
std::string type_text(const Setting& setting);
/// "1 or more", "from 0 to 1"; "" without bounds.
std::string range_text(const Setting& setting);

}  // namespace troupe::ps
