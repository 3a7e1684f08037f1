#include <troupe/ps/checkpoint/manifest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include <troupe/kernels/base/text.h>
#include <troupe/ps/checkpoint/digest.h>

namespace troupe::ps {

namespace {

using Json = nlohmann::ordered_json;

const std::vector<std::pair<ParamKind, std::string>> kKinds{
    {ParamKind::weight, "weight"}, {ParamKind::bias, "bias"}, {ParamKind::statistic, "statistic"}};

std::string name_of(ParamKind kind) {
  return std::find_if(kKinds.begin(), kKinds.end(), [&](const auto& k) { return k.first == kind; })->second;
}

ParamKind kind_named(const std::string& name) {
  const auto found =
      std::find_if(kKinds.begin(), kKinds.end(), [&](const auto& k) { return k.second == name; });
  if (found == kKinds.end()) throw std::invalid_argument("no parameter kind " + name);
  return found->first;
}

Json json_of(const LayerSpec& layer, const std::vector<UpdateRun>& updates) {
  Json params = Json::array(), runs = Json::array();
  for (const ParamSpec& p : layer.params)
    params.push_back({{"name", p.name},
                      {"shape", std::vector<int64_t>(p.shape.span().begin(), p.shape.span().end())},
                      {"offset", p.offset},
                      {"kind", name_of(p.kind)}});
  for (const UpdateRun& run : updates) runs.push_back({run.end, run.updates});
  return {{"name", layer.name}, {"count", layer.count}, {"params", params}, {"updates", runs}};
}

Json json_of(const DealerState& d) {
  Json returned = Json::array();
  for (const SampleRange& r : d.returned) returned.push_back({r.epoch, r.begin, r.count});
  return {{"train_samples", d.train_samples},
          {"epoch", d.epoch},
          {"begin", d.begin},
          {"step", d.step},
          {"returned", returned}};
}

/// Json itself would take 1e300, true and 2^63 for some int64_t.
int64_t whole(const Json& json) {
  const bool too_large = json.is_number_unsigned() && json.get<uint64_t>() > INT64_MAX;
  if (!json.is_number_integer() || too_large) throw std::invalid_argument("not a whole number: " + json.dump());
  return json.get<int64_t>();
}

DealerState dealer_of(const Json& json) {
  DealerState d;
  d.train_samples = whole(json.at("train_samples"));
  d.epoch = whole(json.at("epoch"));
  d.begin = whole(json.at("begin"));
  d.step = whole(json.at("step"));
  for (const Json& r : json.at("returned")) d.returned.push_back({whole(r.at(0)), whole(r.at(1)), whole(r.at(2))});
  return d;
}

LossScale loss_scale_of(const Json& json) {
  const LossScale scale{json.at("value").get<double>(), whole(json.at("good_steps"))};
  if (!std::isfinite(scale.value) || scale.value <= 0 || scale.good_steps < 0)
    throw std::invalid_argument("senseless loss scale " + json.dump());
  return scale;
}

std::string digest_of_text(const std::string& text) {
  Digest digest;
  digest.update(std::as_bytes(std::span(text)));
  return digest.hex();
}

constexpr const char* kChecksum = "checksum";

std::string sealed(Json json) {
  json.erase(kChecksum);
  json[kChecksum] = digest_of_text(json.dump(1));
  return json.dump(1) + '\n';
}

/// Discarded where the text is no JSON, or nested deeper than any manifest: what handles it afterwards recurses.
Json parse_shallow(const std::string& text) {
  constexpr int kMaxDepth = 16;
  bool deep = false;
  const auto watch = [&](int depth, Json::parse_event_t, Json&) { return !(deep |= depth > kMaxDepth); };
  Json json = Json::parse(text, watch, /*allow_exceptions=*/false);
  return deep ? Json(Json::value_t::discarded) : json;
}

/// Throws where a layer's tensors do not lie one after the other over its whole vector, or its update counts
/// do not reach its end.
void check_layer(const LayerSpec& layer, const std::vector<UpdateRun>& runs) {
  int64_t at = 0;
  for (const ParamSpec& p : layer.params) {
    int64_t count = 1;
    bool sound = p.offset == at;
    for (const int64_t n : p.shape.span()) sound = sound && !__builtin_mul_overflow(count, n, &count);
    if (!sound || __builtin_add_overflow(at, count, &at))
      throw std::invalid_argument("misplaced tensor " + p.name);
  }
  int64_t run_end = 0;
  for (const UpdateRun& run : runs) {
    if (run.end <= run_end || run.updates < 0)
      throw std::invalid_argument("senseless update counts of " + layer.name);
    run_end = run.end;
  }
  if (at != layer.count || run_end != layer.count)
    throw std::invalid_argument("incomplete layer " + layer.name);
}

Shape shape_of(const Json& json) {
  std::vector<int64_t> dims;
  for (const Json& n : json) dims.push_back(whole(n));
  const bool sound =
      dims.size() <= Shape::kMaxDims && std::all_of(dims.begin(), dims.end(), [](int64_t n) { return n >= 0; });
  if (!sound) throw std::invalid_argument("impossible shape " + json.dump());
  return Shape(std::span<const int64_t>(dims));
}

/// Throws where a field is missing, of another type, or senseless.
Manifest manifest_of(const Json& json) {
  Manifest m;
  m.step = whole(json.at("step"));
  m.dealer = dealer_of(json.at("dealer"));
  m.optimizer = json.at("optimizer");
  m.state_names = json.at("state_names").get<std::vector<std::string>>();
  if (json.contains("loss_scale")) m.loss_scale = loss_scale_of(json.at("loss_scale"));
  m.metrics = json.at("metrics").get<std::map<std::string, double>>();
  for (const Json& layer : json.at("layers")) {
    LayerSpec spec{layer.at("name"), whole(layer.at("count")), {}};
    for (const Json& p : layer.at("params"))
      spec.params.push_back({p.at("name"), shape_of(p.at("shape")), whole(p.at("offset")), kind_named(p.at("kind"))});
    m.layers.push_back(std::move(spec));
    auto& runs = m.updates.emplace_back();
    for (const Json& run : layer.at("updates")) runs.push_back({whole(run.at(0)), whole(run.at(1))});
    check_layer(m.layers.back(), runs);
  }
  for (const Json& file : json.at("files"))
    m.files.push_back({file.at("name"), static_cast<uint64_t>(whole(file.at("bytes"))), file.at("digest")});
  return m;
}

std::string describe(const ParamSpec& p) {
  return cat(p.name, ' ', p.shape, " at ", p.offset, " (", name_of(p.kind), ')');
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

}  // namespace

Result<std::string> to_json(const Manifest& m) {
  Json json{{"format", Manifest::kFormat}, {"step", m.step}, {"dealer", json_of(m.dealer)}};
  json["optimizer"] = m.optimizer;
  json["state_names"] = m.state_names;
  if (m.loss_scale) json["loss_scale"] = {{"value", m.loss_scale->value}, {"good_steps", m.loss_scale->good_steps}};
  json["metrics"] = Json::object();
  for (const auto& [name, value] : m.metrics)
    if (std::isfinite(value)) json["metrics"][name] = value;
  json["layers"] = Json::array();
  for (size_t i = 0; i < m.layers.size(); ++i) json["layers"].push_back(json_of(m.layers[i], m.updates[i]));
  json["files"] = Json::array();
  for (const Manifest::File& f : m.files)
    json["files"].push_back({{"name", f.name}, {"bytes", f.bytes}, {"digest", f.digest}});
  try {
    return sealed(std::move(json));
  } catch (const Json::exception& error) {
    return fail(ErrorKind::invalid, cat("a checkpoint's manifest cannot be written: ", error.what()));
  }
}

Result<Manifest> parse_manifest(const std::string& text, const std::string& path) {
  const Json json = parse_shallow(text);
  try {
    // Written again it must be the same bytes: blanks, key order and doubled keys count as damage too.
    if (!json.is_object() || sealed(json) != text)
      return fail(ErrorKind::corrupt,
                  cat(path, " does not match its own checksum: it is damaged or was edited"));
    if (json.at("format") != Manifest::kFormat)
      return fail(ErrorKind::invalid, cat(path, " has format ", json.at("format").dump(),
                                          ", this program reads ", Manifest::kFormat));
    return manifest_of(json);
  } catch (const std::exception& error) {  // Json's, and those above
    return fail(ErrorKind::corrupt, cat(path, " is not a checkpoint's manifest: ", error.what()));
  }
}

Status check_fits(const Manifest& m, const std::vector<LayerSpec>& layers, const std::string& optimizer,
                  const std::vector<std::string>& state_names) {
  const std::string what = cat("the checkpoint of step ", m.step, " does not fit this run: ");
  if (m.layers.size() != layers.size())
    return fail(ErrorKind::invalid,
                cat(what, "it has ", m.layers.size(), " layers, the model ", layers.size()));
  for (size_t i = 0; i < layers.size(); ++i) {
    const LayerSpec &a = m.layers[i], &b = layers[i];
    if (a.name != b.name || a.count != b.count || a.params.size() != b.params.size())
      return fail(ErrorKind::invalid, cat(what, "its layer ", i, " is ", a.name, " with ", a.count,
                                          " parameters in ", a.params.size(), " tensors, the model's ",
                                          b.name, " with ", b.count, " in ", b.params.size()));
    for (size_t p = 0; p < a.params.size(); ++p)
      if (describe(a.params[p]) != describe(b.params[p]))
        return fail(ErrorKind::invalid,
                    cat(what, "it has ", describe(a.params[p]), ", the model ", describe(b.params[p])));
  }
  if (m.optimizer != optimizer || m.state_names != state_names)
    return fail(ErrorKind::invalid,
                cat(what, "it was trained with ", m.optimizer, " (state: ", joined(m.state_names),
                    "), the run uses ", optimizer, " (state: ", joined(state_names), ')'));
  return {};
}

}  // namespace troupe::ps
