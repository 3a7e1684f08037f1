#pragma once
#include <cstdint>
#include <string>
#include <vector>

/// Values as TOML writes them; a number read back is the same number.
namespace troupe::ps {

std::string toml_text(bool value);
std::string toml_text(int64_t value);
std::string toml_text(double value);  ///< always with a point or an exponent: 1.0
std::string toml_text(const std::string& value);
std::string toml_text(const std::vector<int64_t>& values);
std::string toml_text(const std::vector<double>& values);

}  // namespace troupe::ps
