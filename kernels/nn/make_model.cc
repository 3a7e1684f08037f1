#include <troupe/kernels/nn/make_model.h>

#include <troupe/kernels/nn/batch_norm.h>
#include <troupe/kernels/nn/conv.h>
#include <troupe/kernels/nn/dropout.h>
#include <troupe/kernels/nn/flatten.h>
#include <troupe/kernels/nn/layer_norm.h>
#include <troupe/kernels/nn/linear.h>
#include <troupe/kernels/nn/make_gpt.h>
#include <troupe/kernels/nn/make_resnet.h>
#include <troupe/kernels/nn/pool.h>
#include <troupe/kernels/nn/recompute.h>

namespace troupe::nn {
namespace {

constexpr int64_t kLargestSize = int64_t{1} << 20;
constexpr int64_t kMostBlocks = 1000;
/// Offsets of BLAS and oneDNN are 32-bit in places.
constexpr int64_t kLargestLayer = int64_t{1} << 31;

Status invalid(const std::string& message) {
  return fail(ErrorKind::invalid, message);
}

Status check_sizes(const char* setting, const std::vector<int64_t>& sizes, int64_t largest) {
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] < 1 || sizes[i] > largest)
      return invalid(cat("model.", setting, "[", i, "] is ", sizes[i], "; it must be from 1 to ", largest));
  return {};
}

Status check_only_for(bool used, const char* setting, const char* kinds, const ModelSpec& spec) {
  if (!used) return {};
  return invalid(cat("model.", setting, " has no meaning for model.kind \"", spec.kind, "\" (only for ",
                     kinds, "); leave it out"));
}

Status check_numbers(const ModelSpec& spec) {
  if (spec.activation != "relu" && spec.activation != "gelu")
    return invalid(cat("model.activation is \"", spec.activation, "\"; it must be \"relu\" or \"gelu\""));
  if (!(spec.dropout >= 0 && spec.dropout < 1))
    return invalid(cat("model.dropout is ", spec.dropout, "; it must be at least 0 and below 1"));
  if (spec.classes < 1 || spec.classes > kLargestSize)
    return invalid(cat("the data has ", spec.classes, " classes; there must be from 1 to ", kLargestSize));
  if (spec.input.dims() == 0 || spec.input.count() < 1)
    return invalid(cat("the data's samples have shape ", spec.input, ", which holds nothing to learn from"));
  TROUPE_TRY(check_recompute(spec));
  TROUPE_TRY(check_sizes("hidden", spec.hidden, kLargestSize));
  TROUPE_TRY(check_sizes("channels", spec.channels, kLargestSize));
  return check_sizes("blocks", spec.blocks, kMostBlocks);
}

Status check_images(const ModelSpec& spec) {
  if (spec.input.dims() != 3)
    return invalid(cat("model.kind \"", spec.kind,
                       "\" needs images [channels, height, width], but the data's samples "
                       "have shape ",
                       spec.input, "; use model.kind \"mlp\" for them"));
  if (spec.channels.empty())
    return invalid(cat("model.channels is empty; model.kind \"", spec.kind, "\" needs at least one number"));
  return {};
}

// Halving `times` must leave a pixel.
Status check_halvings(const ModelSpec& spec, size_t times) {
  const int64_t side = std::min(spec.input[1], spec.input[2]);
  if (times < 62 && (side >> times) >= 1) return {};
  return invalid(cat("model.channels has ", spec.channels.size(), " entries, which halve images of ",
                     spec.input[1], " x ", spec.input[2], " pixels ", times,
                     " times: nothing would be left; use fewer"));
}

Status check(const ModelSpec& spec) {
  TROUPE_TRY(check_numbers(spec));
  if (spec.kind == "mlp") {
    TROUPE_TRY(check_only_for(!spec.channels.empty(), "channels", "cnn and resnet", spec));
    TROUPE_TRY(check_only_for(!spec.blocks.empty(), "blocks", "resnet", spec));
    return check_only_for(spec.batch_norm, "batch_norm", "cnn", spec);
  }
  if (spec.kind == "cnn") {
    TROUPE_TRY(check_images(spec));
    TROUPE_TRY(check_only_for(!spec.blocks.empty(), "blocks", "resnet", spec));
    TROUPE_TRY(check_only_for(spec.layer_norm, "layer_norm", "mlp", spec));
    if (spec.kernel < 1 || spec.kernel % 2 == 0 || spec.kernel > 31)
      return invalid(cat("model.kernel is ", spec.kernel, "; it must be odd, from 1 to 31"));
    return check_halvings(spec, spec.channels.size());
  }
  if (spec.kind == "resnet") {
    TROUPE_TRY(check_images(spec));
    TROUPE_TRY(check_only_for(!spec.hidden.empty(), "hidden", "mlp and cnn", spec));
    TROUPE_TRY(check_only_for(spec.layer_norm, "layer_norm", "mlp", spec));
    return check_resnet(spec);
  }
  if (spec.kind == "gpt") {
    TROUPE_TRY(check_only_for(!spec.hidden.empty(), "hidden", "mlp and cnn", spec));
    TROUPE_TRY(check_only_for(!spec.channels.empty(), "channels", "cnn and resnet", spec));
    TROUPE_TRY(check_only_for(!spec.blocks.empty(), "blocks", "resnet", spec));
    TROUPE_TRY(check_only_for(spec.batch_norm, "batch_norm", "cnn", spec));
    TROUPE_TRY(check_only_for(spec.layer_norm, "layer_norm", "mlp", spec));
    return check_gpt(spec);
  }
  return invalid(cat("model.kind is \"", spec.kind, "\"; it must be \"mlp\", \"cnn\", \"resnet\" or \"gpt\""));
}

Activation activation_of(const ModelSpec& spec) {
  return spec.activation == "gelu" ? Activation::gelu : Activation::relu;
}

// Fully connected layers fc1, fc2, ... of `hidden` units, then the logits.
void add_fully_connected(const ModelSpec& spec, Model& model) {
  if (model.output_shape().dims() > 1) model.add("flatten", std::make_unique<Flatten>());
  std::vector<int64_t> widths = spec.hidden;
  widths.push_back(spec.classes);
  for (size_t i = 0; i < widths.size(); ++i) {
    const std::string name = cat("fc", i + 1);
    const bool hidden = i + 1 < widths.size();
    const Activation activation = hidden ? activation_of(spec) : Activation::none;
    const bool norm = hidden && spec.layer_norm;
    if (i > 0 && spec.dropout > 0) model.add("dropout", std::make_unique<Dropout>(spec.dropout, i));
    model.add(name, std::make_unique<Linear>(model.output_shape()[0], widths[i],
                                             norm ? Activation::none : activation));
    if (norm) model.add(name + "_norm", std::make_unique<LayerNorm>(widths[i], activation));
  }
}

Model make_mlp(const ModelSpec& spec) {
  Model model(spec.input);
  add_fully_connected(spec, model);
  return model;
}

Model make_cnn(const ModelSpec& spec) {
  Model model(spec.input);
  const bool relu = activation_of(spec) == Activation::relu;
  const Activation activation = relu ? Activation::relu_before_pool : activation_of(spec);
  for (size_t i = 0; i < spec.channels.size(); ++i) {
    const std::string name = cat("conv", i + 1);
    const Conv2d::Options options{.stride = 1,
                                  .padding = spec.kernel / 2,
                                  .bias = !spec.batch_norm,
                                  .activation = spec.batch_norm ? Activation::none : activation};
    model.add(name,
              std::make_unique<Conv2d>(model.output_shape()[0], spec.channels[i], spec.kernel, options));
    if (spec.batch_norm) model.add(name + "_bn", std::make_unique<BatchNorm>(spec.channels[i], activation));
    model.add("pool", std::make_unique<MaxPool>(ops::PoolGeometry{.window = 2, .stride = 2}, relu));
  }
  add_fully_connected(spec, model);
  return model;
}

Status check_layer_sizes(const Model& model) {
  for (const LayerSpec& layer : model.layers())
    if (layer.count >= kLargestLayer)
      return invalid(cat("layer ", layer.name, " would have ", layer.count,
                         " parameters; a layer must have fewer than ", kLargestLayer,
                         ": make model.hidden, model.channels or model.width smaller"));
  return {};
}

}  // namespace

Result<Model> make_model(const ModelSpec& spec) {
  TROUPE_TRY(check(spec));
  Model model = spec.kind == "mlp"   ? make_mlp(spec)
                : spec.kind == "cnn" ? make_cnn(spec)
                : spec.kind == "gpt" ? make_gpt(spec)
                                     : make_resnet(spec);
  TROUPE_TRY(check_layer_sizes(model));
  return model;
}

}  // namespace troupe::nn
