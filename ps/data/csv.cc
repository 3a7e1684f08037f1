#include <troupe/ps/data/csv.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>
#include <vector>

#include <troupe/kernels/base/parse.h>
#include <troupe/ps/data/byte_source.h>

namespace troupe::ps {

namespace {

struct Field {
  std::string text;
  int64_t line = 0, column = 0;  ///< where it begins, from 1
};

/// Cuts a file into rows of fields, a block of bytes at a time.
class RowReader {
 public:
  explicit RowReader(ByteSource& source) : source_(source), block_(size_t{1} << 18) {}

  /// The next row that is not empty; none at the end.
  Result<bool> next(std::vector<Field>& row) {
    if (line_ == 1 && column_ == 1) TROUPE_TRY(skip_byte_order_mark());
    do {
      if (const auto more = read_row(row); !more || !*more) return more;
    } while (row.size() == 1 && row[0].text.empty() && !quoted_);
    return true;
  }

 private:
  /// Spreadsheets begin UTF-8 with one.
  Status skip_byte_order_mark() {
    if (const auto c = peek(); !c) return tl::unexpected(c.error());
    constexpr std::array<uint8_t, 3> kMark = {0xef, 0xbb, 0xbf};
    if (end_ - at_ >= kMark.size() && std::memcmp(block_.data() + at_, kMark.data(), kMark.size()) == 0)
      at_ += kMark.size();
    return {};
  }

  Result<bool> read_row(std::vector<Field>& row) {
    size_t fields = 0;
    quoted_ = false;
    const auto begin_field = [&] {
      if (fields == row.size()) row.emplace_back();
      Field& field = row[fields++];
      field.text.clear();
      field.line = line_, field.column = column_;
    };
    auto c = peek();
    if (!c) return tl::unexpected(c.error());
    if (*c < 0) return false;
    begin_field();
    bool inside = false;
    for (;; c = peek()) {
      if (!c) return tl::unexpected(c.error());
      if (*c < 0 && inside)
        return fail(ErrorKind::corrupt,
                    cat(source_.path(), ':', row[fields - 1].line, ':', row[fields - 1].column,
                        ": the quote that opens here is never closed"));
      if (*c < 0) break;
      take(*c);
      std::string& text = row[fields - 1].text;
      if (inside) {
        if (*c != '"') {
          text += static_cast<char>(*c);
          continue;
        }
        const auto after = peek();
        if (!after) return tl::unexpected(after.error());
        if (*after == '"')
          take('"'), text += '"';
        else
          inside = false;
      } else if (*c == '"' && text.empty()) {
        inside = quoted_ = true;
      } else if (*c == ',') {
        begin_field();
      } else if (*c == '\n') {
        break;
      } else if (*c != '\r') {
        text += static_cast<char>(*c);
      } else {  // alone it ends no line, and must not make one number of two
        const auto after = peek();
        if (!after) return tl::unexpected(after.error());
        if (*after >= 0 && *after != '\n') text += '\r';
      }
    }
    row.resize(fields);
    return true;
  }

  /// The next byte without taking it; -1 at the end.
  Result<int> peek() {
    if (at_ == end_) {
      const auto n = source_.read_some(block_);
      if (!n) return tl::unexpected(n.error());
      at_ = 0, end_ = *n;
      if (end_ == 0) return -1;
    }
    return block_[at_];
  }
  void take(int c) {
    ++at_, ++column_;
    if (c == '\n') ++line_, column_ = 1;
  }

  ByteSource& source_;
  std::vector<uint8_t> block_;
  size_t at_ = 0, end_ = 0;
  int64_t line_ = 1, column_ = 1;
  bool quoted_ = false;
};

std::string describe(size_t column, const std::vector<Field>& header) {
  return header.empty() ? cat("column ", column) : cat("column '", header[column].text, '\'');
}

/// A table while it is read.
struct Table {
  std::string path;
  std::vector<Field> header;  ///< empty where the file has none
  size_t columns = 0;
  size_t label = 0;
  std::vector<float> values;
  std::vector<int32_t> labels;
};

tl::unexpected<Error> fail_at(const Table& table, const Field& field, const std::string& what) {
  return fail(ErrorKind::invalid, cat(table.path, ':', field.line, ':', field.column, ": ", what));
}

Status find_label(Table& table, const std::string& label_column) {
  table.label = table.columns - 1;
  if (label_column.empty()) return {};
  for (size_t i = 0; i < table.header.size(); ++i)
    if (trimmed(table.header[i].text) == label_column) return table.label = i, Status{};
  const auto index = number_from<size_t>(trimmed(label_column));
  if (index && *index < table.columns) return table.label = *index, Status{};
  std::string names;
  for (const Field& f : table.header) names += (names.empty() ? ", named " : ", ") + f.text;
  return fail(ErrorKind::invalid,
              cat(table.path, " has no label column '", label_column, "': it has ", table.columns, " columns",
                  names, table.header.empty() ? " and no header" : ""));
}

Status add_row(Table& table, const std::vector<Field>& row) {
  if (row.size() != table.columns)
    return fail_at(table, row.back(),
                   cat("this row has ", row.size(), " fields, the first one has ", table.columns));
  for (size_t i = 0; i < row.size(); ++i) {
    const Field& field = row[i];
    if (trimmed(field.text).empty())
      return fail_at(table, field,
                     cat(describe(i, table.header), " is empty; fill in a number or remove the row"));
    const auto value = number_from<double>(trimmed(field.text));
    if (!value || !(std::abs(*value) <= std::numeric_limits<float>::max()))
      return fail_at(table, field,
                     cat(describe(i, table.header), " holds '", field.text.substr(0, 40),
                         "', which is not a number that can be trained on"));
    if (i != table.label) {
      table.values.push_back(static_cast<float>(*value));
      continue;
    }
    if (*value < 0 || *value > std::numeric_limits<int32_t>::max() || *value != std::floor(*value))
      return fail_at(table, field,
                     cat("the label in ", describe(i, table.header), " is '", field.text,
                         "'; labels are whole numbers from 0"));
    table.labels.push_back(static_cast<int32_t>(*value));
  }
  return {};
}

bool is_header(const std::vector<Field>& row) {
  for (const Field& field : row)
    if (!trimmed(field.text).empty() && !number_from<double>(trimmed(field.text))) return true;
  return false;
}

}  // namespace

Result<Samples> read_csv(const std::string& path, const std::string& label_column) {
  auto source = open_source(path);
  if (!source) return tl::unexpected(source.error());
  RowReader reader(**source);
  Table table{.path = path};
  std::vector<Field> row;
  auto more = reader.next(row);
  if (more && *more) {
    table.columns = row.size();
    if (is_header(row)) {
      table.header = row;
      more = reader.next(row);
    }
    if (table.columns < 2)
      return fail(ErrorKind::invalid,
                  cat(path, " has one column; a label and at least one value are needed"));
    TROUPE_TRY(find_label(table, label_column));
  }
  for (; more && *more; more = reader.next(row)) TROUPE_TRY(add_row(table, row));
  if (!more) return tl::unexpected(more.error());
  if (table.labels.empty()) return fail(ErrorKind::invalid, cat(path, " holds no samples"));
  const auto n = static_cast<int64_t>(table.labels.size());
  return Samples{path, Tensor::from<float>(table.values, {n, static_cast<int64_t>(table.columns) - 1}),
                 Tensor::from<int32_t>(table.labels, {n})};
}

}  // namespace troupe::ps
