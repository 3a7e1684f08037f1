#include <troupe/ps/checkpoint/gpt2_weights.h>

#include <algorithm>
#include <optional>

#include <troupe/kernels/base/parse.h>
#include <troupe/ps/checkpoint/safetensors.h>

namespace troupe::ps {
namespace {

struct Name {
  std::string text;
  bool transposed = false;
};

std::optional<Name> part_of_block(std::string_view part) {
  if (part == "norm1") return Name{"ln_1"};
  if (part == "norm2") return Name{"ln_2"};
  if (part == "qkv") return Name{"attn.c_attn", true};
  if (part == "projection") return Name{"attn.c_proj", true};
  if (part == "mlp1") return Name{"mlp.c_fc", true};
  if (part == "mlp2") return Name{"mlp.c_proj", true};
  return {};
}

// GPT-2's name of a layer; none for one that it does not have.
std::optional<Name> gpt2_name(std::string_view layer) {
  if (layer == "embedding") return Name{"wte"};
  if (layer == "positions") return Name{"wpe"};
  if (layer == "norm") return Name{"ln_f"};
  if (layer == "head") return Name{"lm_head"};
  const size_t end = layer.find('_');
  if (!layer.starts_with("block") || end == std::string_view::npos) return {};
  const auto number = number_from<int64_t>(layer.substr(5, end - 5));
  auto part = part_of_block(layer.substr(end + 1));
  if (!number || !part) return {};
  return Name{cat("h.", *number - 1, ".", part->text), part->transposed};
}

void transpose(const Tensor& from, std::span<float> to) {
  const int64_t rows = from.shape()[0], columns = from.shape()[1];
  const float* const x = from.data<float>();
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) to[static_cast<size_t>(c * rows + r)] = x[r * columns + c];
}

class Loader {
 public:
  Loader(const SafetensorsFile& file, const std::string& path) : file_(file), path_(path) {}

  Result<Tensor> layer(const LayerSpec& layer) const {
    const auto name = gpt2_name(layer.name);
    if (!name) return invalid(cat("the model's layer ", layer.name, " has no counterpart in GPT-2"));
    Tensor flat = Tensor::empty({layer.count});
    for (const ParamSpec& param : layer.params) {
      const std::string kind = param.name.substr(param.name.rfind('.'));  // .weight or .bias
      std::string in_file = name->text + kind;
      if (layer.name == "head" && !find(in_file)) in_file = "wte.weight";
      Tensor into = flat.view(param.offset, param.shape);
      TROUPE_TRY(read(in_file, name->transposed && kind == ".weight", layer.name == "positions", into));
    }
    return flat;
  }

 private:
  const SafetensorsFile::Entry* find(const std::string& name) const {
    const auto* entry = file_.find("transformer." + name);
    return entry ? entry : file_.find(name);
  }

  Status read(const std::string& name, bool transposed, bool first_rows, Tensor& into) const {
    const auto* entry = find(name);
    if (!entry) return invalid(cat("has no tensor ", name, ", which the model needs"));
    std::vector<int64_t> expected(into.shape().span().begin(), into.shape().span().end());
    if (transposed) std::ranges::reverse(expected);
    const bool enough = first_rows && entry->shape.size() == 2 && entry->shape[0] > expected[0];
    if (entry->dtype != "F32") return invalid(cat(name, " is ", entry->dtype, "; F32 can be read: convert the file"));
    if (entry->shape != expected && !(enough && entry->shape[1] == expected[1]))
      return invalid(cat(name, " has shape ", text_of(entry->shape), ", the model needs ", text_of(expected),
                         ": model.vocabulary, width, context and layers must be those of the file"));
    if (!transposed) return file_.read(entry->name, 0, into.span<float>());
    auto whole = file_.read(entry->name);
    if (!whole) return tl::unexpected(whole.error());
    transpose(*whole, into.span<float>());
    return {};
  }

  static std::string text_of(const std::vector<int64_t>& dims) {
    std::string text = "[";
    for (const int64_t dim : dims) text += (text.size() > 1 ? ", " : "") + std::to_string(dim);
    return text + "]";
  }
  tl::unexpected<Error> invalid(const std::string& what) const {
    return fail(ErrorKind::invalid, cat("model.weights = ", path_, ": ", what));
  }

  const SafetensorsFile& file_;
  const std::string& path_;
};

}  // namespace

Result<std::vector<Tensor>> read_gpt2_weights(FileOps& files, const std::string& path,
                                              const std::vector<LayerSpec>& layers) {
  const auto file = SafetensorsFile::open(files, path);
  if (!file) return fail("model.weights", file.error());
  const Loader loader(*file, path);
  std::vector<Tensor> weights;
  for (const LayerSpec& layer : layers) {
    auto flat = loader.layer(layer);
    if (!flat) return tl::unexpected(flat.error());
    weights.push_back(std::move(*flat));
  }
  return weights;
}

}  // namespace troupe::ps
