#include <troupe/ps/pipeline/schedule_csv.h>

#include <algorithm>
#include <optional>

#include <troupe/kernels/base/parse.h>
#include <troupe/kernels/base/text.h>
#include <troupe/ps/config/read_text.h>
#include <troupe/ps/pipeline/check_schedule.h>
#include <troupe/ps/pipeline/internal/orders.h>

namespace troupe::ps {
namespace {

/// More than this is a typing error, and would be taken as so many chunks or micro-batches.
constexpr uint32_t kMostNumber = 1'000'000;

struct Cell {
  std::optional<uint32_t> chunk;
  char letter = 'F';
  uint32_t micro_batch = 0;
  size_t line = 0, column = 0;
};

tl::unexpected<Error> fail_at(const std::string& name, size_t line, size_t column, const std::string& what) {
  return fail(ErrorKind::invalid, cat(name, ':', line, ':', column, ": ", what));
}

class Parser {
 public:
  explicit Parser(const std::string& name) : name_(name) {}

  Status read(std::string_view text) {
    size_t line = 0;
    while (!text.empty()) {
      const size_t end = std::min(text.find('\n'), text.size());
      TROUPE_TRY(read_line(text.substr(0, end), ++line));
      text.remove_prefix(std::min(text.size(), end + 1));
    }
    if (stages_.empty()) return fail(ErrorKind::invalid, name_ + " holds no stages: one line each is needed");
    return {};
  }

  Result<Schedule> schedule() {
    Schedule s{.name = name_, .stages = static_cast<uint32_t>(stages_.size()), .chunks = 0, .micro_batches = 0};
    const bool with_chunks = first_ && first_->chunk.has_value();
    for (uint32_t stage = 0; stage < s.stages; ++stage)
      for (Cell& cell : stages_[stage]) {
        if (cell.chunk.has_value() != with_chunks)
          return fail_at(name_, cell.line, cell.column,
                         "this cell and the first one differ in whether they begin with a chunk");
        if (!with_chunks) cell.chunk = stage;
        TROUPE_TRY(place(s, stage, cell));
        s.micro_batches = std::max(s.micro_batches, cell.micro_batch + 1);
      }
    s.chunks = static_cast<uint32_t>(s.stage_of.size());
    for (uint32_t chunk = 0; chunk < s.chunks; ++chunk)
      if (s.stage_of[chunk] == kNowhere)
        return fail(ErrorKind::invalid,
                    cat(name_, ": chunk ", chunk, " is on no stage, though chunk ", s.chunks - 1, " is"));
    s.fused_backward = fused_;
    for (const auto& cells : stages_) s.actions.push_back(orders::with_steps(actions(cells), s.micro_batches));
    TROUPE_TRY(check(s));
    return s;
  }

 private:
  static constexpr uint32_t kNowhere = ~uint32_t{0};

  Status read_line(std::string_view line, size_t number) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (trimmed(line).empty() || trimmed(line).front() == '#') return {};
    auto& cells = stages_.emplace_back();
    for (size_t begin = 0; begin <= line.size();) {
      const size_t end = std::min(line.find(',', begin), line.size());
      const std::string_view text = trimmed(line.substr(begin, end - begin));
      if (!text.empty()) {
        auto cell = parse(text);
        const size_t column = static_cast<size_t>(text.data() - line.data()) + 1;
        if (!cell)
          return fail_at(
              name_, number, column,
              cat("'", text.substr(0, 40),
                  "' is no action: [CHUNK]LETTER MICRO-BATCH with F, I, W or B, as in 0F3, both numbers at most ",
                  kMostNumber));
        cell->line = number, cell->column = column;
        fused_ = fused_ && (cell->letter == 'F' || cell->letter == 'B');
        if (!first_) first_ = *cell;
        cells.push_back(*cell);
      }
      begin = end + 1;
    }
    return {};
  }

  static std::optional<Cell> parse(std::string_view text) {
    const size_t letter = text.find_first_not_of("0123456789");
    if (letter == std::string_view::npos || std::string_view("FIWB").find(text[letter]) == std::string_view::npos)
      return {};
    Cell cell{.letter = text[letter]};
    const std::string_view after = text.substr(letter + 1);
    if (letter > 0) {
      cell.chunk = number_from<uint32_t>(text.substr(0, letter));
      if (!cell.chunk || *cell.chunk > kMostNumber) return {};
    }
    const auto micro_batch = number_from<uint32_t>(after);
    if (!micro_batch || *micro_batch > kMostNumber || after.front() == '+') return {};
    cell.micro_batch = *micro_batch;
    return cell;
  }

  Status place(Schedule& s, uint32_t stage, const Cell& cell) const {
    if (*cell.chunk >= s.stage_of.size()) s.stage_of.resize(*cell.chunk + 1, kNowhere);
    uint32_t& on = s.stage_of[*cell.chunk];
    if (on == kNowhere) on = stage;
    if (on != stage)
      return fail_at(name_, cell.line, cell.column,
                     cat("chunk ", *cell.chunk, " is on stage ", on, " already; a chunk has one stage"));
    return {};
  }

  static orders::Order actions(const std::vector<Cell>& cells) {
    orders::Order order;
    for (const Cell& cell : cells) {
      const auto add = [&](ActionKind kind) { order.push_back({kind, cell.micro_batch, *cell.chunk}); };
      if (cell.letter == 'F') add(ActionKind::forward);
      if (cell.letter == 'I' || cell.letter == 'B') add(ActionKind::backward_input);
      if (cell.letter == 'W' || cell.letter == 'B') add(ActionKind::backward_weight);
    }
    return order;
  }

  std::string name_;
  std::vector<std::vector<Cell>> stages_;
  std::optional<Cell> first_;
  bool fused_ = true;
};

}  // namespace

Result<Schedule> parse_schedule_csv(std::string_view text, const std::string& name) {
  Parser parser(name);
  TROUPE_TRY(parser.read(text));
  return parser.schedule();
}

Result<Schedule> read_schedule_csv(const std::string& path) {
  const auto text = read_text(path, "the schedule", "a CSV file");
  if (!text) return tl::unexpected<Error>(text.error());
  return parse_schedule_csv(*text, path);
}

std::string schedule_csv(const Schedule& s) {
  std::string text;
  for (uint32_t stage = 0; stage < s.stages; ++stage) {
    std::string line;
    for (const Action& action : s.actions[stage]) {
      const bool input = action.kind == ActionKind::backward_input;
      if (action.kind > ActionKind::backward_weight || (s.fused_backward && input)) continue;
      const char letter = action.kind == ActionKind::forward ? 'F' : input ? 'I' : s.fused_backward ? 'B' : 'W';
      line += cat(line.empty() ? "" : ",", action.chunk, letter, action.micro_batch);
    }
    text += line + '\n';
  }
  return text;
}

}  // namespace troupe::ps
