#include <troupe/ps/pipeline/draw_schedule.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>
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

/// "#rrggbb": the kind's colour, shaded.
std::string colour(ActionKind kind, double shade) {
  static constexpr std::array<std::array<double, 3>, 3> kColours = {
      {{140, 180, 235}, {140, 205, 140}, {245, 190, 110}}};
  std::array<char, 8> text{};
  const auto& rgb = kColours[static_cast<size_t>(kind)];
  const auto part = [&](size_t k) { return static_cast<unsigned>(rgb[k] * shade); };
  std::snprintf(text.data(), text.size(), "#%02x%02x%02x", part(0), part(1), part(2));
  return text.data();
}

/// Darker from chunk to chunk.
double shade(const Schedule& s, const Action& action) {
  const uint32_t turns = (s.chunks + s.stages - 1) / s.stages;  // chunks of a stage
  return 1 - 0.4 * (action.chunk / s.stages) / std::max(1u, turns);
}

constexpr double kRow = 24, kLeft = 70, kTop = 30, kUnit = 26, kMostWidth = 4000, kLegend = 160;

std::string svg_span(const Schedule& s, const TimedAction& span, double row_top, double scale) {
  const double x = kLeft + span.begin * scale, width = (span.end - span.begin) * scale;
  std::string text =
      cat("<rect x=\"", fixed(x, 2), "\" y=\"", row_top, "\" width=\"", fixed(width, 2), "\" height=\"", kRow - 2,
          "\" fill=\"", colour(span.action.kind, shade(s, span.action)),
          "\" stroke=\"#555\" stroke-width=\"0.5\"><title>", action_text(s, span.action), "</title></rect>\n");
  const std::string number = cat(span.action.micro_batch);
  if (width >= 7 * static_cast<double>(number.size()))
    text += cat("<text x=\"", fixed(x + width / 2, 2), "\" y=\"", row_top + 15, "\" text-anchor=\"middle\">", number,
                "</text>\n");
  return text;
}

std::string svg_title(const DrawnTiming& drawn, double baseline) {
  return cat("<text x=\"", kLeft, "\" y=\"", baseline, "\" font-size=\"13\">", escaped(drawn.title), "; bubble ",
             fixed(100 * drawn.timing->bubble_of_total(), 1), " % of total time, ",
             fixed(100 * drawn.timing->bubble_of_ideal(), 1), " % of ideal time</text>\n");
}

std::string svg_legend(double baseline) {
  std::string text;
  double x = kLeft;
  for (const auto& [kind, words] : {std::pair{ActionKind::forward, "forward"},
                                    std::pair{ActionKind::backward_input, "gradient of the input"},
                                    std::pair{ActionKind::backward_weight, "gradient of the weights"}}) {
    text += cat("<circle cx=\"", x + 5, "\" cy=\"", baseline - 4, "\" r=\"5\" fill=\"", colour(kind, 1),
                "\"/><text x=\"", x + 15, "\" y=\"", baseline, "\">", words, "</text>\n");
    x += kLegend;
  }
  return text + cat("<text x=\"", x, "\" y=\"", baseline, "\">with the number of the micro-batch</text>\n");
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

std::string draw_svg(const Schedule& s, std::span<const DrawnTiming> timings) {
  std::vector<double> lengths;
  double end = 0;
  for (const DrawnTiming& each : timings) {
    TROUPE_CHECK(each.timing->spans.size() == s.stages, "a timing without spans");
    end = std::max(end, last_end(*each.timing));
    for (const auto& spans : each.timing->spans)
      for (const TimedAction& span : spans)
        if (drawn(span)) lengths.push_back(span.end - span.begin);
  }
  lengths.push_back(end);
  // The usual action has the usual width, whatever the shortest has.
  std::ranges::nth_element(lengths, lengths.begin() + static_cast<std::ptrdiff_t>(lengths.size() / 2));
  const double usual = lengths[lengths.size() / 2];
  const double scale = std::min(kUnit / usual, kMostWidth / end), width = kLeft + end * scale + 10;
  std::string text;
  double top = 0;
  for (const DrawnTiming& each : timings) {
    text += svg_title(each, top + 18);
    top += kTop;
    for (uint32_t stage = 0; stage < s.stages; ++stage, top += kRow) {
      text += cat("<text x=\"8\" y=\"", top + 15, "\">stage ", stage, "</text>\n");
      for (const TimedAction& span : each.timing->spans[stage])
        if (drawn(span)) text += svg_span(s, span, top, scale);
    }
  }
  text += svg_legend(top + 18);
  return cat("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", fixed(std::max(width, 620.0), 0), "\" height=\"",
             top + kTop, "\" font-family=\"sans-serif\" font-size=\"11\">\n",
             "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n", text, "</svg>\n");
}

std::string draw_svg(const Schedule& s, const Timing& timing) {
  const DrawnTiming one{cat(s.name, ": ", s.stages, " stages, ", s.micro_batches, " micro-batches"), &timing};
  return draw_svg(s, std::span(&one, 1));
}

}  // namespace troupe::ps
