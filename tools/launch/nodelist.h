#pragma once
#include <string>
#include <string_view>
#include <vector>

#include <troupe/kernels/base/result.h>

namespace troupe::launch {

/// More names than a nodelist may stand for.
inline constexpr size_t kMostNodes = 65536;

/// The hosts of a Slurm nodelist, in its order: "login,gpu[01-03,7]-ib[0-1]" is login, gpu01-ib0, gpu01-ib1, gpu02-ib0,
/// ... A number keeps the zeros of its range's first end. Several brackets in a name: the last one runs fastest.
/// Fails, saying where, on brackets that do not close, ranges that run backwards, empty names, characters that no
/// host's name has, and lists of more than kMostNodes.
Result<std::vector<std::string>> expand_nodelist(std::string_view text);

}  // namespace troupe::launch
