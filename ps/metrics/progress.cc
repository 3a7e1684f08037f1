#include <troupe/ps/metrics/progress.h>

#include <algorithm>
#include <limits>

#include <troupe/kernels/base/text.h>
#include <troupe/ps/metrics/human.h>

namespace troupe::ps {
namespace {

constexpr double kRedraw_s = 0.1, kFirstLine_s = 2, kNextLine_s = 10;
// Return to the line's begin and clear to its end (ECMA-48 EL).
constexpr const char* kClearLine = "\r\x1b[K";

}  // namespace

std::string progress_line(const Progress& p, double eta_s) {
  std::string line = cat("step ", p.step, '/', p.total_steps);
  if (p.epochs > 0) line += cat("  epoch ", std::min(p.epoch + 1, p.epochs), '/', p.epochs);
  line += cat("  loss ", fixed(p.loss, 4), "  ", human_count(static_cast<int64_t>(p.samples_per_second)),
              " samples/s  staleness ", p.staleness_max);
  if (p.loss_scale != 1) line += cat("  loss scale ", p.loss_scale);
  if (p.test_accuracy) line += "  test accuracy " + fixed(*p.test_accuracy, 4);
  return line + "  ETA " + human_duration(eta_s);
}

ProgressPrinter::ProgressPrinter(bool terminal, int columns, int64_t first_step, double now_s)
    : terminal_(terminal),
      columns_(columns),
      first_step_(first_step),
      start_s_(now_s),
      next_s_(terminal ? now_s : now_s + kFirstLine_s) {}

std::string ProgressPrinter::update(const Progress& progress, double now_s) {
  const bool new_epoch = progress.epoch != epoch_;
  if (now_s < next_s_ && !(new_epoch && !terminal_)) return "";
  epoch_ = progress.epoch;
  next_s_ = now_s + (terminal_ ? kRedraw_s : kNextLine_s);
  if (!terminal_) return draw(progress, now_s) + "\n";
  drawn_ = true;
  return kClearLine + draw(progress, now_s);
}

std::string ProgressPrinter::finish(const Progress& progress, double now_s) {
  const std::string before = terminal_ ? kClearLine : "";
  drawn_ = false;
  return before + draw(progress, now_s) + "\n";
}

std::string ProgressPrinter::interrupt(const std::string& lines) {
  const std::string before = drawn_ ? kClearLine : "";
  drawn_ = false;
  if (terminal_) next_s_ = start_s_;
  return before + lines;
}

double ProgressPrinter::eta_s(const Progress& progress, double now_s) const {
  const int64_t left = progress.total_steps - progress.step, done = progress.step - first_step_;
  if (left <= 0) return 0;
  if (done <= 0) return std::numeric_limits<double>::quiet_NaN();
  return (now_s - start_s_) / static_cast<double>(done) * static_cast<double>(left);
}

std::string ProgressPrinter::draw(const Progress& progress, double now_s) const {
  std::string line = progress_line(progress, eta_s(progress, now_s));
  if (terminal_ && columns_ > 0) line.resize(std::min(line.size(), static_cast<size_t>(columns_)));
  return line;
}

}  // namespace troupe::ps
