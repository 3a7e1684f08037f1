#pragma once
#include <string>

#include <troupe/kernels/base/result.h>
#include <troupe/ps/data/samples.h>

namespace troupe::ps {

/// A table of numbers, one sample a line, separated by commas; fields may stand in double quotes ("" inside
/// is one quote), lines end in \n or \r\n, empty lines and a byte order mark are skipped. A first line that
/// holds anything but numbers is a header with the columns' names. One column holds the label, a whole number;
/// the others are the values, F32[n, columns - 1].
///
/// `label_column` is a name of the header, or a number from 0; empty means the last column. Errors are told
/// as file:line:column (column: characters, from 1): empty or non-numeric fields, rows of another length.
Result<Samples> read_csv(const std::string& path, const std::string& label_column = "");

}  // namespace troupe::ps
