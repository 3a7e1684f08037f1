#pragma once
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "line_splitter.h"
#include "output.h"
#include "run_logs.h"

namespace troupe::launch {

/// Where the lines of one process go: its log, the launcher's output, and the last of its standard error in memory.
class ProcessOutput {
 public:
  struct Options {
    std::string log;     ///< "node-0"
    std::string prefix;  ///< "[node 0] "; empty: lines pass as they are
    bool shown = true;
  };
  static constexpr size_t kLastLines = 5;

  /// `output` and `logs` outlive it. `report` is told of a log that cannot be written.
  ProcessOutput(Options options, Output& output, RunLogs& logs, std::function<void(const Error&)> report);

  void bytes(Stream stream, std::string_view bytes);
  /// The stream has ended: its last line may lack a line end.
  void end(Stream stream);
  /// Of its standard error, since the last call.
  std::vector<std::string> take_last_lines();

  /// For each whole line of standard output; true: it was meant for the launcher, and is not shown.
  std::function<bool(std::string_view line)> filter;

 private:
  LineSplitter::Piece piece(Stream stream);

  Options options_;
  Output& output_;
  RunLogs& logs_;
  std::function<void(const Error&)> report_;
  LineSplitter out_, err_;
  std::deque<std::string> last_lines_;
};

}  // namespace troupe::launch
