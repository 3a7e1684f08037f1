#include <troupe/ps/config/variable.h>

namespace troupe::ps {

std::string variable_of(std::string_view key) {
  std::string name(kVariablePrefix);
  for (const char c : key) {
    if (c == '.')
      name += "__";
    else
      name += static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  }
  return name;
}

std::string key_of(std::string_view variable) {
  std::string key;
  for (size_t i = kVariablePrefix.size(); i < variable.size(); ++i) {
    if (variable.substr(i, 2) == "__") {
      key += '.';
      ++i;
    } else {
      const char c = variable[i];
      key += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    }
  }
  return key;
}

}  // namespace troupe::ps
