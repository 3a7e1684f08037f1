#include <troupe/ps/pipeline/draw_schedule.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <vector>

#include <troupe/kernels/base/check.h>
#include <troupe/ps/metrics/human.h>

namespace troupe::ps {
namespace {

bool drawn(const TimedAction& span) { return span.action.kind <= ActionKind::backward_weight && span.end > span.begin; }

double last_end(const Timing& timing) {
  double end = 0;
  for (const auto& spans : timing.spans)
    for (const TimedAction& span : spans)
      if (drawn(span)) end = std::max(end, span.end);
  return end;
}

std::string padded(std::string text, size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text;
}

std::string escaped(const std::string& text) {
  std::string xml;
  for (const char c : text) {
    if (c == '&')
      xml += "&amp;";
    else if (c == '<')
      xml += "&lt;";
    else
      xml += c;
  }
  return xml;
}

/// "#rrggbb": the kind's colour, darker from chunk to chunk.
std::string colour(const Schedule& s, const Action& action) {
  static constexpr std::array<std::array<double, 3>, 3> kColours = {
      {{140, 180, 235}, {140, 205, 140}, {245, 190, 110}}};
  const uint32_t turns = (s.chunks + s.stages - 1) / s.stages;  // chunks of a stage
  const double shade = 1 - 0.4 * (action.chunk / s.stages) / std::max(1u, turns);
  std::array<char, 8> text{};
  const auto& rgb = kColours[static_cast<size_t>(action.kind)];
  const auto part = [&](size_t k) { return static_cast<unsigned>(rgb[k] * shade); };
  std::snprintf(text.data(), text.size(), "#%02x%02x%02x", part(0), part(1), part(2));
  return text.data();
}

constexpr double kRow = 24, kLeft = 70, kTop = 30, kUnit = 26, kMostWidth = 4000;

std::string svg_span(const Schedule& s, const TimedAction& span, double row_top, double scale) {
  const double x = kLeft + span.begin * scale, width = (span.end - span.begin) * scale;
  std::string text =
      cat("<rect x=\"", fixed(x, 2), "\" y=\"", row_top, "\" width=\"", fixed(width, 2), "\" height=\"", kRow - 2,
          "\" fill=\"", colour(s, span.action), "\" stroke=\"#555\" stroke-width=\"0.5\"><title>",
          action_text(s, span.action), "</title></rect>\n");
  const std::string number = cat(span.action.micro_batch);
  if (width >= 7 * static_cast<double>(number.size()))
    text += cat("<text x=\"", fixed(x + width / 2, 2), "\" y=\"", row_top + 15, "\" text-anchor=\"middle\">", number,
                "</text>\n");
  return text;
}

}  // namespace

std::string draw_text(const Schedule& s, const Timing& timing, size_t most_columns) {
  TROUPE_CHECK(timing.spans.size() == s.stages, "a timing without spans");
  const auto all = static_cast<size_t>(std::lround(last_end(timing)));
  const size_t columns = std::min(all, most_columns);
  size_t width = 0;
  for (const auto& spans : timing.spans)
    for (const TimedAction& span : spans)
      if (drawn(span)) width = std::max(width, action_text(s, span.action).size() + 1);
  const size_t label = cat("stage ", s.stages - 1, ' ').size();
  std::string text;
  for (uint32_t stage = 0; stage < s.stages; ++stage) {
    std::vector<std::string> cells(columns, ".");
    for (const TimedAction& span : timing.spans[stage]) {
      if (!drawn(span)) continue;
      const auto begin = static_cast<size_t>(std::lround(span.begin)), end = static_cast<size_t>(std::lround(span.end));
      for (size_t k = begin; k < std::min(end, columns); ++k) cells[k] = k == begin ? action_text(s, span.action) : "-";
    }
    std::string line = padded(cat("stage ", stage), label) + "| ";
    for (const std::string& cell : cells) line += padded(cell, width);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  if (columns < all) text += cat("... and ", all - columns, " more columns\n");
  return text;
}

std::string draw_svg(const Schedule& s, const Timing& timing) {
  TROUPE_CHECK(timing.spans.size() == s.stages, "a timing without spans");
  std::vector<double> lengths{last_end(timing)};
  for (const auto& spans : timing.spans)
    for (const TimedAction& span : spans)
      if (drawn(span)) lengths.push_back(span.end - span.begin);
  // The usual action has the usual width, whatever the shortest has.
  std::ranges::nth_element(lengths, lengths.begin() + static_cast<std::ptrdiff_t>(lengths.size() / 2));
  const double usual = lengths[lengths.size() / 2];
  const double end = last_end(timing), scale = std::min(kUnit / usual, kMostWidth / end);
  const double width = kLeft + end * scale + 10, height = kTop + kRow * s.stages + 10;
  std::string text = cat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", fixed(std::max(width, 620.0), 0), "\" height=\"", height,
      "\" font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n");
  text += cat("<text x=\"", kLeft, "\" y=\"18\" font-size=\"13\">", escaped(s.name), ": ", s.stages, " stages, ",
              s.micro_batches, " micro-batches; bubble ", fixed(100 * timing.bubble_of_total(), 1),
              " % of total time, ", fixed(100 * timing.bubble_of_ideal(), 1), " % of ideal time</text>\n");
  for (uint32_t stage = 0; stage < s.stages; ++stage) {
    const double top = kTop + kRow * stage;
    text += cat("<text x=\"8\" y=\"", top + 15, "\">stage ", stage, "</text>\n");
    for (const TimedAction& span : timing.spans[stage])
      if (drawn(span)) text += svg_span(s, span, top, scale);
  }
  return text + "</svg>\n";
}

}  // namespace troupe::ps
