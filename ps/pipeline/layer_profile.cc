#include <troupe/ps/pipeline/layer_profile.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include <troupe/kernels/base/parse.h>
#include <troupe/kernels/base/text.h>
#include <troupe/ps/config/read_text.h>

namespace troupe::ps {
namespace {

struct Column {
  const char* name;
  double LayerCost::*value;
};

constexpr std::array<Column, 7> kColumns = {{{"forward_s", &LayerCost::forward},
                                             {"backward_input_s", &LayerCost::backward_input},
                                             {"backward_weight_s", &LayerCost::backward_weight},
                                             {"output_bytes", &LayerCost::output_bytes},
                                             {"kept_bytes", &LayerCost::kept_bytes},
                                             {"kept_input_bytes", &LayerCost::kept_input_bytes},
                                             {"parameter_bytes", &LayerCost::parameter_bytes}}};

std::string header() {
  std::string text = "layer,layers";
  for (const Column& column : kColumns) text += cat(',', column.name);
  return text;
}

/// The shortest text that reads back as `value`.
std::string number_text(double value) {
  std::array<char, 32> text;
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

std::vector<std::string_view> cells_of(std::string_view line) {
  std::vector<std::string_view> cells;
  for (size_t begin = 0; begin <= line.size();) {
    const size_t end = std::min(line.find(',', begin), line.size());
    cells.push_back(trimmed(line.substr(begin, end - begin)));
    begin = end + 1;
  }
  return cells;
}

Result<LayerCost> layer_of(std::string_view line) {
  const auto cells = cells_of(line);
  if (cells.size() != kColumns.size() + 2)
    return fail(ErrorKind::invalid, cat("this line has ", cells.size(), " columns, not the ", kColumns.size() + 2,
                                        " of the header \"", header(), '"'));
  LayerCost layer{.name = std::string(cells[0])};
  const auto layers = number_from<uint32_t>(cells[1]);
  if (!layers || *layers < 1)
    return fail(ErrorKind::invalid, cat("layers is '", cells[1].substr(0, 40), "'; a number from 1 is needed"));
  layer.layers = *layers;
  for (size_t k = 0; k < kColumns.size(); ++k) {
    const auto value = number_from<double>(cells[k + 2]);
    if (!value || !std::isfinite(*value) || *value < 0)
      return fail(ErrorKind::invalid,
                  cat(kColumns[k].name, " is '", cells[k + 2].substr(0, 40), "'; a number from 0 is needed"));
    layer.*kColumns[k].value = *value;
  }
  return layer;
}

/// "# micro_batch 16" and "# device ..."; other comments say nothing.
Status take_comment(std::string_view line, LayerProfile& profile) {
  const std::string_view text = trimmed(line.substr(1));
  if (text.starts_with("device ")) profile.device = std::string(trimmed(text.substr(7)));
  if (!text.starts_with("micro_batch ")) return {};
  const auto samples = number_from<int64_t>(trimmed(text.substr(12)));
  if (!samples || *samples < 1) return fail(ErrorKind::invalid, "micro_batch is no number from 1");
  profile.micro_batch = *samples;
  return {};
}

}  // namespace

std::string profile_csv(const LayerProfile& profile) {
  std::string text = cat("# device ", profile.device, "\n# micro_batch ", profile.micro_batch, '\n', header(), '\n');
  for (const LayerCost& layer : profile.layers) {
    text += cat(layer.name, ',', layer.layers);
    for (const Column& column : kColumns) text += cat(',', number_text(layer.*column.value));
    text += '\n';
  }
  return text;
}

Result<LayerProfile> parse_profile_csv(std::string_view text, const std::string& name) {
  LayerProfile profile;
  bool headed = false;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(text.size(), end + 1));
    if (line.ends_with('\r')) line.remove_suffix(1);
    line = trimmed(line);
    const std::string place = cat(name, ':', number);
    if (line.empty()) continue;
    if (line.front() == '#') {
      if (const auto taken = take_comment(line, profile); !taken) return fail(place, taken.error());
    } else if (!headed) {
      if (line != header()) return fail(ErrorKind::invalid, cat(place, ": the header should be \"", header(), '"'));
      headed = true;
    } else {
      auto layer = layer_of(line);
      if (!layer) return fail(place, layer.error());
      profile.layers.push_back(std::move(*layer));
    }
  }
  if (profile.layers.empty()) return fail(ErrorKind::invalid, name + " holds no layers; `troupe profile` writes one");
  return profile;
}

Result<LayerProfile> read_profile_csv(const std::string& path) {
  const auto text = read_text(path, "the profile", "a CSV file");
  if (!text) return tl::unexpected<Error>(text.error());
  return parse_profile_csv(*text, path);
}

}  // namespace troupe::ps
