#pragma once
#include <cstddef>
#include <span>
#include <string>

#include <troupe/ps/pipeline/simulate.h>

namespace troupe::ps {

/// A schedule as the table that one finds in papers: a line a stage, a column a unit of time, "." where the stage
/// idles. 1F1B on 2 stages, 2 micro-batches, all times 1:
///
///     stage 0 | F0 F1 .  .  I0 W0 .  I1 W1
///     stage 1 | .  F0 I0 W0 F1 I1 W1 .  .
///
/// `timing` has spans that begin and end at whole numbers. What is beyond `most_columns` is left out, and said so.
std::string draw_text(const Schedule& schedule, const Timing& timing, size_t most_columns = 200);

/// One run of a schedule in a picture, under a title of its own.
struct DrawnTiming {
  std::string title;
  const Timing* timing;
};

/// The same as an SVG picture, to scale, whatever the times: blue forwards, green gradients of inputs, orange ones of
/// weights, darker on later chunks, as the legend says. Several runs stand below each other on one time axis, each with
/// both bubble fractions in its title.
std::string draw_svg(const Schedule& schedule, std::span<const DrawnTiming> timings);
std::string draw_svg(const Schedule& schedule, const Timing& timing);

}  // namespace troupe::ps
