#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace troupe::ps {

/// Where a run stands, for a person who watches.
struct Progress {
  int64_t step = 0, total_steps = 0;
  int64_t epoch = 0, epochs = 0;  ///< epoch from 0; epochs 0: the run ends by steps
  double loss = 0;
  double samples_per_second = 0;
  int64_t staleness_max = 0;  ///< steps, since the last call
  double loss_scale = 1;
  std::optional<double> test_accuracy;
};

/// "step 1200/2345  epoch 3/5  loss 0.3121  16,950 samples/s  staleness 2  ETA 12 s".
std::string progress_line(const Progress& progress, double eta_s);

/// Decides what is printed when. On a terminal one line is drawn over and over, ten times a second at most;
/// elsewhere plain lines come after 2 s, then every 10 s, and at every new epoch. Pure: takes numbers and the
/// time, returns the text to print, often none.
class ProgressPrinter {
 public:
  /// The run goes on from `first_step`. `columns`: width of the terminal; a longer line would wrap.
  ProgressPrinter(bool terminal, int columns, int64_t first_step, double now_s);

  std::string update(const Progress& progress, double now_s);
  /// The last line, which stays.
  std::string finish(const Progress& progress, double now_s);
  /// Something else that is printed meanwhile, whole lines: clears the drawn line, which the next update
  /// draws anew.
  std::string interrupt(const std::string& lines);

 private:
  double eta_s(const Progress& progress, double now_s) const;
  std::string draw(const Progress& progress, double now_s) const;

  bool terminal_;
  int columns_;
  int64_t first_step_;
  double start_s_;
  double next_s_;
  int64_t epoch_ = 0;
  bool drawn_ = false;
};

}  // namespace troupe::ps
