#include <troupe/kernels/nn/make_gpt.h>

#include <cmath>

#include <troupe/kernels/nn/causal_attention.h>
#include <troupe/kernels/nn/dropout.h>
#include <troupe/kernels/nn/embedding.h>
#include <troupe/kernels/nn/layer_norm.h>
#include <troupe/kernels/nn/linear.h>
#include <troupe/kernels/nn/positions.h>
#include <troupe/kernels/nn/recompute.h>
#include <troupe/kernels/nn/residual_add.h>
#include <troupe/kernels/nn/swiglu.h>

namespace troupe::nn {
namespace {

constexpr double kDeviation = 0.02;
constexpr double kRotaryBase = 10000;
constexpr int64_t kLargestSize = int64_t{1} << 20;
constexpr int64_t kMostBlocks = 10000;

Status invalid(const std::string& message) { return fail(ErrorKind::invalid, message); }

Status check_size(const char* setting, int64_t size, int64_t largest) {
  if (size >= 1 && size <= largest) return {};
  return invalid(cat("model.", setting, " is ", size, "; it must be from 1 to ", largest));
}

Status check_choice(const char* setting, const std::string& choice, std::initializer_list<const char*> choices) {
  std::string known;
  for (const char* name : choices) {
    if (choice == name) return {};
    known += (known.empty() ? "\"" : ", \"") + std::string(name) + "\"";
  }
  return invalid(cat("model.", setting, " is \"", choice, "\"; it must be one of ", known));
}

// Builds one model; the dropouts of a model count up.
class Builder {
 public:
  explicit Builder(const ModelSpec& spec) : spec_(spec), model_(spec.input) {}

  Model build() {
    const int64_t width = spec_.width;
    model_.add("embedding", std::make_unique<Embedding>(spec_.classes, width, kDeviation, spec_.sparse_embedding));
    if (spec_.positions == "learned")
      model_.add("positions", std::make_unique<Positions>(spec_.context, width, kDeviation));
    drop();
    std::vector<int> ends{model_.nodes()};
    for (int64_t block = 1; block <= spec_.layers; ++block) {
      add_block(cat("block", block, "_"));
      ends.push_back(model_.nodes());
    }
    model_.add("norm", std::make_unique<LayerNorm>(width));
    auto head = std::make_unique<Linear>(width, spec_.classes, Linear::Options{.bias = false, .deviation = kDeviation});
    if (spec_.tied)
      model_.add_tied(0, std::move(head));
    else
      model_.add("head", std::move(head));
    recompute_blocks(spec_, ends, model_);
    return std::move(model_);
  }

 private:
  void add_block(const std::string& name) {
    const int input = model_.nodes() - 1;
    const int64_t width = spec_.width;
    model_.add(name + "norm1", std::make_unique<LayerNorm>(width));
    add_linear(name + "qkv", width, 3 * width);
    const double rotary_base = spec_.positions == "rotary" ? kRotaryBase : 0;
    model_.add("attention", std::make_unique<CausalAttention>(spec_.heads, rotary_base));
    const int middle = add_branch_end(name + "projection", width, input);
    model_.add(name + "norm2", std::make_unique<LayerNorm>(width));
    add_mlp(name + "mlp1");
    add_branch_end(name + "mlp2", mlp_width(spec_), middle);
  }

  void add_mlp(const std::string& name) {
    const int64_t units = mlp_width(spec_);
    if (spec_.mlp == "swiglu") {
      add_linear(name, spec_.width, 2 * units);
      model_.add("swiglu", std::make_unique<SwiGlu>());
      return;
    }
    add_linear(name, spec_.width, units, spec_.mlp == "gelu" ? Activation::gelu : Activation::gelu_tanh);
  }

  // What a branch adds to its input: as many of these are summed up as there are branches.
  int add_branch_end(const std::string& name, int64_t inputs, int skip) {
    const double deviation = kDeviation / std::sqrt(2 * static_cast<double>(spec_.layers));
    model_.add(name, std::make_unique<Linear>(inputs, spec_.width, Linear::Options{.deviation = deviation}));
    drop();
    return model_.add("add", std::make_unique<ResidualAdd>(Activation::none), Model::kPrevious, skip);
  }

  void add_linear(const std::string& name, int64_t inputs, int64_t outputs, Activation activation = Activation::none) {
    const Linear::Options options{.activation = activation, .deviation = kDeviation};
    model_.add(name, std::make_unique<Linear>(inputs, outputs, options));
  }

  void drop() {
    if (spec_.dropout > 0) model_.add("dropout", std::make_unique<Dropout>(spec_.dropout, dropouts_++));
  }

  const ModelSpec& spec_;
  Model model_;
  uint64_t dropouts_ = 0;
};

}  // namespace

Status check_gpt(const ModelSpec& spec) {
  TROUPE_TRY(check_size("layers", spec.layers, kMostBlocks));
  TROUPE_TRY(check_size("heads", spec.heads, kLargestSize));
  TROUPE_TRY(check_size("width", spec.width, kLargestSize));
  TROUPE_TRY(check_size("context", spec.context, kLargestSize));
  TROUPE_TRY(check_choice("positions", spec.positions, {"learned", "rotary"}));
  TROUPE_TRY(check_choice("mlp", spec.mlp, {"gelu", "gelu_tanh", "swiglu"}));
  if (spec.input.dims() != 1)
    return invalid(cat("model.kind \"gpt\" needs sequences of tokens, but the data's samples have shape ", spec.input,
                       "; use data.format \"text\" or \"tokens\""));
  if (spec.input[0] > spec.context)
    return invalid(cat("the data's samples have ", spec.input[0], " tokens, but model.context is ", spec.context));
  if (spec.width % spec.heads != 0)
    return invalid(cat("model.width is ", spec.width, ", which ", spec.heads,
                       " model.heads cannot share evenly; make it a multiple"));
  if (spec.sparse_embedding && spec.tied)
    return invalid("model.sparse_embedding needs an embedding of its own, and model.tied gives its weight to the head, "
                   "whose gradient touches every row: set model.tied = false");
  if (spec.positions == "rotary" && spec.width / spec.heads % 2 != 0)
    return invalid(cat("model.width ", spec.width, " and model.heads ", spec.heads, " make heads of ",
                       spec.width / spec.heads, " numbers; model.positions \"rotary\" turns them in pairs and needs an "
                       "even count"));
  return {};
}

Model make_gpt(const ModelSpec& spec) { return Builder(spec).build(); }

}  // namespace troupe::nn
