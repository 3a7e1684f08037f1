#pragma once
#include <string>
#include <string_view>

namespace troupe::ps {

/// What every environment variable of a setting begins with.
inline constexpr std::string_view kVariablePrefix = "TROUPE_";

/// "TROUPE_TRAIN__EPOCHS" of "train.epochs", and back (a variable that begins with the prefix). Letters are ASCII.
std::string variable_of(std::string_view key);
std::string key_of(std::string_view variable);

}  // namespace troupe::ps
