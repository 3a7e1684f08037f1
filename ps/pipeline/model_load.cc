#include <troupe/ps/pipeline/model_load.h>

#include <algorithm>

#include <troupe/kernels/base/text.h>
#include <troupe/ps/pipeline/pieces.h>

namespace troupe::ps {
namespace {

LayerLoad transformer_block(const TransformerShape& shape) {
  const auto s = static_cast<double>(shape.context), h = static_cast<double>(shape.width);
  const auto a = static_cast<double>(shape.heads);
  LayerLoad block;
  block.parameters = 12 * h * h + 13 * h;
  block.forward_flops = 24 * s * h * h + 4 * s * s * h;
  block.attention_flops = 4 * s * s * h;
  block.whole_bytes = 10 * s * h;  // dropout masks, inputs of the norms and of both branches
  block.split_bytes = 24 * s * h;
  block.attention_bytes = 5 * a * s * s;
  block.weight_bytes = 32 * s * h;
  block.output_bytes = 2 * s * h;
  block.reduces = true;
  return block;
}

}  // namespace

double ModelLoad::parameters() const {
  double sum = 0;
  for (const LayerLoad& layer : layers) sum += layer.parameters;
  return sum;
}

double ModelLoad::forward_flops() const {
  double sum = 0;
  for (const LayerLoad& layer : layers) sum += layer.forward_flops;
  return sum;
}

ModelLoad transformer_load(const TransformerShape& shape, double bytes_a_value) {
  const auto s = static_cast<double>(shape.context), h = static_cast<double>(shape.width);
  const auto v = static_cast<double>(shape.vocabulary);
  ModelLoad load{.name = cat("transformer of ", shape.layers, " blocks, width ", shape.width, ", ", shape.heads,
                             " heads, context ", shape.context),
                 .heads = shape.heads,
                 .bytes_a_value = bytes_a_value};
  LayerLoad embedding{.name = "embedding", .whole_bytes = s * h, .output_bytes = 2 * s * h, .recomputes = false};
  embedding.parameters = (shape.learned_positions ? v + s : v) * h;
  load.layers.push_back(embedding);
  const LayerLoad block = transformer_block(shape);
  for (int64_t k = 1; k <= shape.layers; ++k) {
    load.layers.push_back(block);
    load.layers.back().name = cat("block", k);
  }
  LayerLoad head{.name = "head", .forward_flops = 2 * s * h * v, .recomputes = false};
  (shape.tied ? head.shared_parameters : head.parameters) = v * h;
  head.whole_bytes = 4 * s * h, head.split_bytes = 4 * s * v, head.weight_bytes = 2 * s * h + 4 * s * v;
  load.layers.push_back(head);
  for (LayerLoad& layer : load.layers)
    for (double* bytes :
         {&layer.whole_bytes, &layer.split_bytes, &layer.attention_bytes, &layer.weight_bytes, &layer.output_bytes})
      *bytes *= bytes_a_value / 2;
  return load;
}

ModelLoad profile_load(const LayerProfile& profile, const std::string& name) {
  ModelLoad load{.name = name};
  const auto samples = static_cast<double>(profile.micro_batch);
  for (const LayerCost& cost : profile.layers) {
    LayerLoad layer{.name = cost.name, .layers = cost.layers, .parameters = cost.parameter_bytes / load.bytes_a_value};
    layer.whole_bytes = cost.kept_bytes / samples;
    layer.weight_bytes = cost.kept_input_bytes / samples;
    layer.output_bytes = cost.output_bytes / samples;
    load.layers.push_back(std::move(layer));
  }
  return load;
}

ModelLoad model_load(const nn::Model& model, const std::string& name, double bytes_a_value) {
  ModelLoad load{.name = name, .bytes_a_value = bytes_a_value};
  for (const Piece& piece : pieces_of(model)) {
    LayerLoad block{.name = piece.name, .layers = static_cast<uint32_t>(piece.last - piece.first)};
    for (size_t layer = piece.first; layer < piece.last; ++layer) {
      block.parameters += static_cast<double>(model.parameters(layer));
      block.forward_flops += 2 * static_cast<double>(model.work(layer));
      block.whole_bytes += bytes_a_value * static_cast<double>(model.outputs(layer));
    }
    block.weight_bytes = block.whole_bytes;
    const Shape& output = piece.last < model.layers().size() ? model.shape_at(piece.last) : model.output_shape();
    block.output_bytes = bytes_a_value * static_cast<double>(output.count());
    load.layers.push_back(block);
  }
  return load;
}

}  // namespace troupe::ps
