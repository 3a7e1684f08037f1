#include <troupe/ps/pipeline/measure_layers.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include <troupe/kernels/nn/model_stage_source.h>
#include <troupe/kernels/tensor/buffer.h>
#include <troupe/ps/pipeline/pieces.h>

namespace troupe::ps {
namespace {

double bytes_of(const Tensor& tensor) {
  return tensor ? static_cast<double>(tensor.shape().count()) * static_cast<double>(size_of(tensor.dtype())) : 0;
}

double used_bytes() { return static_cast<double>(buffer_stats().used_bytes); }

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::vector<nn::ModelPart> parts_of(const std::shared_ptr<const nn::Model>& model, const std::vector<Piece>& pieces) {
  std::vector<nn::ModelPart> parts;
  for (const Piece& piece : pieces) parts.emplace_back(model, piece.first, piece.last);
  return parts;
}

class Measurement {
 public:
  Measurement(const std::shared_ptr<const nn::Model>& model, const std::shared_ptr<const nn::Dataset>& data,
              const MeasureOptions& options, const std::function<double()>& now_s)
      : model_(*model),
        now_s_(now_s),
        pieces_(pieces_of(*model)),
        source_(model, parts_of(model, pieces_), data, data, options.threads, options.storage),
        samples_(static_cast<size_t>(options.micro_batch)),
        times_(pieces_.size()),
        costs_(pieces_.size()) {
    std::iota(samples_.begin(), samples_.end(), 0u);
    for (size_t layer = 0; layer < model_.layers().size(); ++layer) {
      std::vector<float> values(static_cast<size_t>(model_.layers()[layer].count));
      model_.initialize(layer, options.seed, values);
      weights_.push_back(Tensor::from<float>(values, {static_cast<int64_t>(values.size())}));
    }
    for (size_t k = 0; k < pieces_.size(); ++k) describe(k);
  }

  void pass() {
    Tensor passed;
    for (uint32_t k = 0; k < pieces_.size(); ++k) {
      const double before = used_bytes() - bytes_of(passed);
      passed = timed(k, 0, [&] { return source_.forward(micro(k), weights_, std::move(passed)); });
      costs_[k].kept_bytes = std::max(0.0, used_bytes() - bytes_of(passed) - before);
      costs_[k].output_bytes = bytes_of(passed);
    }
    for (auto k = static_cast<uint32_t>(pieces_.size()); k-- > 0;) {
      const double before = used_bytes() - bytes_of(passed);
      passed = timed(k, 1, [&] { return source_.backward_input(micro(k), weights_, std::move(passed)); });
      const double more = used_bytes() - bytes_of(passed) - before;
      costs_[k].kept_input_bytes = std::max(0.0, costs_[k].kept_bytes + more);
      timed(k, 2, [&] {
        source_.backward_weight(micro(k), weights_);
        return Tensor{};
      });
    }
    for (size_t layer = 0; layer < model_.layers().size(); ++layer) source_.take_gradient(layer);
  }

  void forget_times() {
    for (auto& piece : times_)
      for (auto& kind : piece) kind.clear();
  }

  std::vector<LayerCost> costs() const {
    std::vector<LayerCost> costs = costs_;
    for (size_t k = 0; k < costs.size(); ++k) {
      costs[k].forward = median(times_[k][0]);
      costs[k].backward_input = median(times_[k][1]);
      costs[k].backward_weight = median(times_[k][2]);
    }
    return costs;
  }

 private:
  void describe(size_t k) {
    LayerCost& cost = costs_[k];
    const auto& [first, last, name] = pieces_[k];
    cost.name = name;
    cost.layers = static_cast<uint32_t>(last - first);
    for (size_t layer = first; layer < last; ++layer) cost.parameter_bytes += bytes_of(weights_[layer]);
  }

  MicroBatch micro(uint32_t part) const { return {.part = part, .samples = samples_}; }

  template <class Work>
  Tensor timed(size_t piece, size_t kind, Work&& work) {
    const double begin = now_s_();
    Tensor result = work();
    times_[piece][kind].push_back(now_s_() - begin);
    return result;
  }

  const nn::Model& model_;
  const std::function<double()>& now_s_;
  std::vector<Piece> pieces_;
  nn::ModelStageSource source_;
  std::vector<uint32_t> samples_;
  std::vector<Tensor> weights_;                            // by layer
  std::vector<std::array<std::vector<double>, 3>> times_;  // by piece: forward, backward_input, backward_weight
  std::vector<LayerCost> costs_;
};

}  // namespace

LayerProfile measure_layers(std::shared_ptr<const nn::Model> model, std::shared_ptr<const nn::Dataset> data,
                            const MeasureOptions& options, const std::function<double()>& now_s) {
  MeasureOptions possible = options;
  possible.micro_batch = std::min(options.micro_batch, data->size());
  Measurement measurement(model, data, possible, now_s);
  measurement.pass();
  measurement.forget_times();
  const double begin = now_s();
  for (int passes = 0; passes < 3 || now_s() - begin < options.seconds; ++passes) measurement.pass();
  return {.micro_batch = possible.micro_batch, .layers = measurement.costs()};
}

}  // namespace troupe::ps
