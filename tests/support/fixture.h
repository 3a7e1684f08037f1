#pragma once
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <troupe/kernels/base/check.h>
#include <troupe/kernels/tensor/tensor.h>

namespace troupe::test {

/// One case of a file that tools/record_pytorch wrote; that script describes the format.
struct FixtureCase {
  std::map<std::string, std::string> settings;
  std::map<std::string, Tensor> tensors;  ///< F64

  const std::string& setting(const std::string& key) const {
    TROUPE_CHECK(settings.count(key), "no setting ", key);
    return settings.at(key);
  }
  double number(const std::string& key) const { return std::stod(setting(key)); }
  const Tensor& tensor(const std::string& name) const {
    TROUPE_CHECK(tensors.count(name), "no tensor ", name);
    return tensors.at(name);
  }
};

namespace detail {

inline Tensor parse_tensor(std::istringstream& words) {
  std::vector<int64_t> dims;
  std::string word;
  while (words >> word && word != ":") dims.push_back(std::stoll(word));
  std::vector<double> values;
  for (double value; words >> value;) values.push_back(value);
  return Tensor::from(std::span<const double>(values), Shape(std::span<const int64_t>(dims)));
}

}  // namespace detail

/// All cases of tests/fixtures/`path`, by name.
inline std::map<std::string, FixtureCase> load_fixture(const std::string& path) {
  std::ifstream file(cat(TROUPE_FIXTURES, "/", path));
  TROUPE_CHECK(file.good(), "cannot read ", path);
  std::map<std::string, FixtureCase> cases;
  FixtureCase* current = nullptr;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string verb, name;
    words >> verb >> name;
    if (verb == "case")
      current = &cases[name];
    else if (verb == "set")
      words >> current->settings[name];
    else if (verb == "tensor")
      current->tensors[name] = detail::parse_tensor(words);
    else
      TROUPE_CHECK(verb == "#", "in ", path, ": ", line);
  }
  return cases;
}

}  // namespace troupe::test
