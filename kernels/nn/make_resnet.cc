#include <troupe/kernels/nn/make_resnet.h>

#include <troupe/kernels/nn/batch_norm.h>
#include <troupe/kernels/nn/conv.h>
#include <troupe/kernels/nn/dropout.h>
#include <troupe/kernels/nn/linear.h>
#include <troupe/kernels/nn/pool.h>
#include <troupe/kernels/nn/recompute.h>
#include <troupe/kernels/nn/residual_add.h>

namespace troupe::nn {
namespace {

constexpr int64_t kExpansion = 4;

Status check_choice(const char* setting, const std::string& choice, const char* one, const char* other) {
  if (choice == one || choice == other) return {};
  return fail(ErrorKind::invalid,
              cat("model.", setting, " is \"", choice, "\"; it must be \"", one, "\" or \"", other, "\""));
}

// Builds one model, block by block.
class Builder {
 public:
  explicit Builder(const ModelSpec& spec)
      : spec_(spec),
        activation_(spec.activation == "gelu" ? Activation::gelu : Activation::relu),
        bottleneck_(spec.block == "bottleneck"),
        model_(spec.input) {}

  Model build() {
    add_stem();
    std::vector<int> ends{model_.nodes()};
    for (size_t group = 0; group < spec_.channels.size(); ++group)
      for (int64_t block = 0; block < spec_.blocks[group]; ++block) {
        const int64_t stride = group > 0 && block == 0 ? 2 : 1;
        add_block(cat("group", group + 1, "_block", block + 1), spec_.channels[group], stride);
        ends.push_back(model_.nodes());
      }
    model_.add("pool", std::make_unique<GlobalAvgPool>());
    if (spec_.dropout > 0) model_.add("dropout", std::make_unique<Dropout>(spec_.dropout, 0));
    model_.add("fc", std::make_unique<Linear>(model_.output_shape()[0], spec_.classes));
    recompute_blocks(spec_, ends, model_);
    return std::move(model_);
  }

 private:
  void add_stem() {
    const int64_t width = spec_.channels[0];
    if (spec_.stem == "small") {
      add_conv_norm("stem", "stem_bn", width, 3, 1, activation_);
      return;
    }
    const bool relu = activation_ == Activation::relu;
    add_conv_norm("stem", "stem_bn", width, 7, 2, relu ? Activation::relu_before_pool : activation_);
    model_.add("stem_pool", std::make_unique<MaxPool>(ops::PoolGeometry{.window = 3, .stride = 2, .padding = 1}, relu));
  }

  //   input -- conv1 3x3 - bn1 - act -- conv2 3x3 - bn2 ----------------------------------- add - act
  //   input -- conv1 1x1 - bn1 - act -- conv2 3x3 - bn2 - act -- conv3 1x1 - bn3 ---------- add - act
  //      \------- (shortcut 1x1 - bn, where sizes differ) ----------------------------------/
  void add_block(const std::string& name, int64_t width, int64_t stride) {
    const int input = model_.nodes() - 1;
    const Shape entry = model_.output_shape();
    int residual;
    if (bottleneck_) {
      add_conv_norm(name + "_conv1", name + "_bn1", width, 1, 1, activation_);
      add_conv_norm(name + "_conv2", name + "_bn2", width, 3, stride, activation_);
      residual = add_conv_norm(name + "_conv3", name + "_bn3", kExpansion * width, 1, 1, Activation::none);
    } else {
      add_conv_norm(name + "_conv1", name + "_bn1", width, 3, stride, activation_);
      residual = add_conv_norm(name + "_conv2", name + "_bn2", width, 3, 1, Activation::none);
    }
    const int64_t outputs = model_.output_shape()[0];
    int skip = input;
    if (stride != 1 || entry[0] != outputs) {
      model_.add(name + "_shortcut", conv(entry[0], outputs, 1, stride), input);
      skip = model_.add(name + "_shortcut_bn", std::make_unique<BatchNorm>(outputs));
    }
    model_.add(name, std::make_unique<ResidualAdd>(activation_), residual, skip);
  }

  // A conv of the last node's output and its batch norm; the latter's node.
  int add_conv_norm(const std::string& name, const std::string& norm, int64_t outputs, int64_t kernel, int64_t stride,
                    Activation activation) {
    model_.add(name, conv(model_.output_shape()[0], outputs, kernel, stride));
    return model_.add(norm, std::make_unique<BatchNorm>(outputs, activation));
  }

  static std::unique_ptr<const Layer> conv(int64_t inputs, int64_t outputs, int64_t kernel, int64_t stride) {
    const Conv2d::Options options{.stride = stride, .padding = kernel / 2, .bias = false};
    return std::make_unique<Conv2d>(inputs, outputs, kernel, options);
  }

  const ModelSpec& spec_;
  Activation activation_;
  bool bottleneck_;
  Model model_;
};

}  // namespace

Status check_resnet(const ModelSpec& spec) {
  if (spec.blocks.size() != spec.channels.size())
    return fail(ErrorKind::invalid,
                cat("model.blocks has ", spec.blocks.size(), " entries and model.channels ", spec.channels.size(),
                    "; a resnet needs one number of blocks for each number of channels"));
  TROUPE_TRY(check_choice("block", spec.block, "basic", "bottleneck"));
  return check_choice("stem", spec.stem, "small", "large");
}

Model make_resnet(const ModelSpec& spec) { return Builder(spec).build(); }

}  // namespace troupe::nn
