#include "process_output.h"

#include <troupe/kernels/base/text.h>

namespace troupe::launch {

ProcessOutput::ProcessOutput(Options options, Output& output, RunLogs& logs, std::function<void(const Error&)> report)
    : options_(std::move(options)),
      output_(output),
      logs_(logs),
      report_(std::move(report)),
      out_(Output::room(options_.prefix)),
      err_(Output::room(options_.prefix)) {}

void ProcessOutput::bytes(Stream stream, std::string_view bytes) {
  (stream == Stream::out ? out_ : err_).feed(bytes, piece(stream));
}

void ProcessOutput::end(Stream stream) { (stream == Stream::out ? out_ : err_).finish(piece(stream)); }

LineSplitter::Piece ProcessOutput::piece(Stream stream) {
  return [this, stream](std::string_view text, bool whole) {
    if (stream == Stream::out && filter && filter(text)) return;
    if (const auto added = logs_.add(options_.log, cat(text, whole ? "\n" : "")); !added) report_(added.error());
    if (options_.shown) output_.line(stream, options_.prefix, text);
    if (stream == Stream::out || text.empty()) return;
    last_lines_.emplace_back(text);
    if (last_lines_.size() > kLastLines) last_lines_.pop_front();
  };
}

std::vector<std::string> ProcessOutput::take_last_lines() {
  std::vector<std::string> lines(last_lines_.begin(), last_lines_.end());
  last_lines_.clear();
  return lines;
}

}  // namespace troupe::launch
