#pragma once
#include <cstdint>
#include <string>
#include <vector>

/// Numbers as people read them.
namespace troupe::ps {

std::string human_count(int64_t value);       ///< "17,000"
std::string human_bytes(int64_t bytes);       ///< "812 B", "12.3 MB" (powers of 1000)
std::string human_duration(double seconds);   ///< "0.4 s", "12 s", "3 min 05 s", "2 h 03 min"
std::string human_share(double share);        ///< "45.0 %"
std::string fixed(double value, int digits);  ///< "0.8812"; "-" where it is not a number

/// Columns padded to their widest cell, the first to the left, the others to the right; `rows[0]` is the
/// heading. Every row has as many cells.
std::string text_table(const std::vector<std::vector<std::string>>& rows);

}  // namespace troupe::ps
