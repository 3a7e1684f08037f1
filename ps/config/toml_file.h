#pragma once
#include <string>
#include <string_view>
#include <vector>

#include <troupe/kernels/base/result.h>
#include <troupe/ps/config/setting.h>

namespace troupe::ps {

/// A line and column of a file, both from 1.
struct Place {
  uint32_t line = 0, column = 0;
};

/// One `key = value` of a TOML file.
struct TomlEntry {
  std::string key;     ///< "train.epochs", "update.mode", or a path that no setting has
  int rule = -1;       ///< which `[[update]]` table, from 0; -1: none
  bool table = false;  ///< a table or a list of tables that holds no known setting: "unknown table"
  RawValue value;
  Place key_place, value_place;
};

struct TomlFile {
  std::vector<TomlEntry> entries;  ///< in the order of their places
  std::vector<Place> rules;        ///< of the `[[update]]` tables
};

/// The entries of a TOML text. The error is a syntax error or a key set twice, "NAME:LINE:COLUMN: ...".
Result<TomlFile> parse_toml(std::string_view text, const std::string& name);

}  // namespace troupe::ps
