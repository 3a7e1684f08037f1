#include <troupe/kernels/nn/model_source.h>

#include <algorithm>
#include <bit>
#include <utility>

#include <troupe/kernels/nn/loss.h>
#include <troupe/kernels/nn/loss_scale.h>

namespace troupe::nn {
namespace {

// Large enough for efficient kernels, small enough that activations stay within a few training steps' memory.
size_t evaluation_batch(const Dataset& data) {
  constexpr int64_t kSamples = 250, kPositions = 4096;
  const int64_t positions = std::max<int64_t>(1, data.label_shape().count());
  return static_cast<size_t>(std::clamp<int64_t>(kPositions / positions, 1, kSamples));
}

void check_fit(const Model& model, const Dataset& data) {
  TROUPE_CHECK(model.input_shape() == data.sample_shape(), "the model takes samples of shape ", model.input_shape(),
               ", the data's are ", data.sample_shape());
  const std::span<const int64_t> output = model.output_shape().span();
  TROUPE_CHECK(!output.empty() && output.back() == data.classes() &&
                   Shape(output.first(output.size() - 1)) == data.label_shape(),
               "the model's output is ", model.output_shape(), " for labels of shape ", data.label_shape(), " and ",
               data.classes(), " classes");
}

bool reads_rows(const Model& model) {
  return std::ranges::any_of(model.layers(), [](const LayerSpec& layer) { return layer.row_width > 0; });
}

}  // namespace

// The CPU's backend is always there, and so are its streams.
ModelSource::ModelSource(std::shared_ptr<const Model> model, std::shared_ptr<const Dataset> train,
                         std::shared_ptr<const Dataset> test, int threads, DType storage)
    : ModelSource(std::move(model), std::move(train), std::move(test), load_backend(DeviceKind::cpu).value(),
                  std::make_unique<Stream>(Device{}, threads), nullptr, storage, {}) {}

ModelSource::ModelSource(std::shared_ptr<const Model> model, std::shared_ptr<const Dataset> train,
                         std::shared_ptr<const Dataset> test, std::shared_ptr<Backend> backend,
                         std::unique_ptr<Stream> compute, std::unique_ptr<Stream> copies, DType storage,
                         LaunchOptions launches)
    : model_(std::move(model)),
      train_(std::move(train)),
      test_(std::move(test)),
      backend_(std::move(backend)),
      stream_(std::move(compute)),
      storage_(storage),
      courier_(backend_, *stream_, std::move(copies), model_->layers()),
      launch_(std::move(launches)) {
  check_fit(*model_, *train_);
  check_fit(*model_, *test_);
  if (!launch_.graphs) return;
  if (model_->draws()) graphs_.give_up("the model has dropout, which draws other numbers in every step");
  if (reads_rows(*model_)) graphs_.give_up("the model has a layer by rows, which are others in every step");
  if (!uses_graphs()) launch_.say("steps are not captured: " + graphs_.why_not());
}

Result<std::unique_ptr<ModelSource>> ModelSource::make(std::shared_ptr<const Model> model,
                                                       std::shared_ptr<const Dataset> train,
                                                       std::shared_ptr<const Dataset> test,
                                                       std::shared_ptr<Backend> backend,
                                                       const StreamOptions& options, DType storage,
                                                       LaunchOptions launches) {
  auto compute = backend->make_stream(options);
  if (!compute) return tl::unexpected<Error>(compute.error());
  auto copies = backend->make_stream(options);
  if (!copies) return tl::unexpected<Error>(copies.error());
  return std::unique_ptr<ModelSource>(new ModelSource(std::move(model), std::move(train), std::move(test),
                                                      std::move(backend), std::move(*compute), std::move(*copies),
                                                      storage, std::move(launches)));
}

void ModelSource::begin(const Dataset& data, std::span<const uint32_t> samples) {
  const auto count = static_cast<int64_t>(samples.size());
  Tensor inputs = courier_.host(batch_shape(count, data.sample_shape()), data.sample_dtype());
  Tensor labels = courier_.host(batch_shape(count, data.label_shape()), DType::i32);
  data.gather(samples, inputs, labels);
  rows_ = {};
  if (reads_rows(*model_)) inputs_ = inputs;
  courier_.begin_pass();
  labels_ = courier_.to_device(labels);
  batch_ = courier_.to_device(inputs);
  context_.begin(batch_);
}

bool ModelSource::is_same(const Batch& batch) const {
  return batch.seed == seed_ && std::ranges::equal(batch.samples, samples_);
}

void ModelSource::check_same(const Batch& batch) const {
  TROUPE_CHECK(is_same(batch), "a step began with ", samples_.size(), " samples and seed ", seed_,
               " and goes on with other samples: ", batch.samples.size(), ", seed ", batch.seed);
}

void ModelSource::prepare(const Batch& batch) {
  begun_ = waits_ = false;
  begin(*train_, batch.samples);
  samples_.assign(batch.samples.begin(), batch.samples.end());
  seed_ = batch.seed;
  prepared_ = true;
}

Tensor ModelSource::rows(const Batch& batch, size_t layer) {
  TROUPE_CHECK(layer < layers().size() && layers()[layer].row_width > 0, "layer ", layer, " is not by rows");
  if (!prepared_ || !is_same(batch)) prepare(batch);
  return named_rows();
}

const Tensor& ModelSource::named_rows() {
  if (rows_) return rows_;
  const auto ids = std::as_const(inputs_).span<int32_t>();
  std::vector<int32_t> rows(ids.begin(), ids.end());
  std::ranges::sort(rows);
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  rows_ = Tensor::from<int32_t>(rows, {static_cast<int64_t>(rows.size())});
  return rows_;
}

void ModelSource::begin_by_rows(std::span<const Tensor> weights) {
  for (size_t layer = 0; layer < weights.size(); ++layer) {
    const LayerSpec& spec = layers()[layer];
    if (spec.row_width == 0 || weights[layer].count() == spec.count) continue;
    const auto rows = named_rows().span<int32_t>();
    TROUPE_CHECK(weights[layer].count() == std::ssize(rows) * spec.row_width, "layer ", spec.name, " has weights of ",
                 weights[layer].count(), " elements in a step over ", rows.size(), " rows of ", spec.row_width);
    Tensor places = courier_.host(inputs_.shape(), DType::i32);
    std::ranges::transform(std::as_const(inputs_).span<int32_t>(), places.span<int32_t>().begin(), [&](int32_t row) {
      return static_cast<int32_t>(std::ranges::lower_bound(rows, row) - rows.begin());
    });
    context_.begin(courier_.to_device(places));
  }
}

void ModelSource::forward(const Batch& batch, std::span<const Tensor> weights, size_t first, size_t last) {
  if (first == 0) {
    if (!prepared_ || !is_same(batch)) prepare(batch);
    prepared_ = false;
    begun_ = true;
    if (reads_rows(*model_)) begin_by_rows(weights);
    waits_ = uses_graphs();
  }
  TROUPE_CHECK(begun_, "forward from layer ", first, " of a step that did not begin at layer 0");
  check_same(batch);
  if (waits_) return static_cast<void>(courier_.weights(weights, first, last));
  model_->forward(pass(true, batch.seed), courier_.weights(weights, first, last), first, last, context_);
}

StepStats ModelSource::backward(const Batch& batch, std::span<const Tensor> weights, const GradientReady& ready) {
  if (!begun_) forward(batch, weights, 0, layers().size());
  check_same(batch);
  std::optional<StepStats> stats;
  if (waits_) stats = step_by_graphs(batch, courier_.weights(weights, 0, layers().size()), ready);
  if (!stats) stats = run_step(batch, weights, ready);
  begun_ = waits_ = false;
  return *stats;
}

StepStats ModelSource::run_step(const Batch& batch, std::span<const Tensor> weights, const GradientReady& ready,
                                size_t given) {
  const LaunchCounts before = launches();
  const Pass training = pass(true, batch.seed, batch.loss_scale);
  const std::span<const Tensor> here = courier_.weights(weights, 0, layers().size());
  if (!model_->forward_done(context_))
    model_->forward(training, here, model_->layers_done(context_), layers().size(), context_);
  Tensor dlogits;
  auto sums = courier_.send_back(softmax_cross_entropy_sums(training, context_.take_output(), labels_, dlogits));
  model_->backward(
      training, here, std::move(dlogits),
      [&](size_t layer, Tensor gradient) {
        if (given > 0) return static_cast<void>(--given);
        unscale(training, layers()[layer], gradient);
        courier_.give(layer, std::move(gradient), ready);
      },
      context_);
  courier_.deliver(ready);
  report_launches(before, batch.samples.size());
  return stats_of(loss_sums(Courier::receive(std::move(sums)), labels_.shape()));
}

// The forward pass may have begun before: the second step's number is a whole one where graphs are used, or weights
// came at once.
void ModelSource::report_launches(const LaunchCounts& before, size_t samples) {
  if (++steps_ != 2 || launches().kernels == 0) return;
  launch_.say(cat("a step of ", samples, " samples is ", launches().kernels - before.kernels, " launches",
                  uses_graphs() ? "" : ", without those of forward passes that begin before all weights are there"));
}

GraphChoice::Step ModelSource::step_of(const Batch& batch, std::span<const Tensor> weights) const {
  GraphChoice::Step step = {batch.samples.size(), std::bit_cast<uint64_t>(batch.loss_scale)};
  for (const Tensor& w : weights) step.push_back(reinterpret_cast<uintptr_t>(w.raw()));
  return step;
}

std::optional<StepStats> ModelSource::step_by_graphs(const Batch& batch, std::span<const Tensor> weights,
                                                     const GradientReady& ready) {
  if (batch.samples.empty()) return {};
  const GraphChoice::Choice choice = graphs_.next(step_of(batch, weights));
  if (choice.drops) captured_[choice.slot].reset();
  if (!graphs_.why_not().empty()) {
    for (auto& captured : captured_) captured.reset();
    launch_.say("steps are not captured any more: " + graphs_.why_not());
  }
  switch (choice.action) {
    case GraphChoice::Action::run: return {};
    case GraphChoice::Action::capture: return capture_step(batch, weights, ready, choice.slot);
    case GraphChoice::Action::replay: return replay_step(ready, choice.slot);
  }
  return {};
}

StepStats ModelSource::capture_step(const Batch& batch, std::span<const Tensor> weights, const GradientReady& ready,
                                    size_t slot) {
  auto step = std::make_unique<CapturedStep>(backend_, *stream_);
  step->inputs = batch_;
  step->labels = labels_;
  const Pass training = pass(true, batch.seed, batch.loss_scale);
  size_t given = 0;
  bool handing_out = false;  // what fails then is no matter of capturing
  try {
    step->begin();
    model_->forward(training, weights, 0, layers().size(), context_);
    Tensor dlogits;
    step->end(0, softmax_cross_entropy_sums(training, context_.take_output(), labels_, dlogits));
    auto sums = courier_.send_back(step->output(0));
    step->begin();
    model_->backward(
        training, weights, std::move(dlogits),
        [&](size_t layer, Tensor gradient) {
          unscale(training, layers()[layer], gradient);
          step->end(layer, std::move(gradient));
          handing_out = true;
          give_captured(layer, step->output(step->sections() - 1), ready);
          handing_out = false;
          ++given;
          step->begin();
        },
        context_);
    step->abandon();  // nothing that follows the last gradient is wanted
    handing_out = true;
    courier_.deliver(ready);
    captured_[slot] = std::move(step);
    graphs_.captured(slot);
    launch_.say(cat("a step of ", batch.samples.size(), " samples is ", captured_[slot]->sections(),
                    " graphs from now on (capture ", graphs_.captures(), ")"));
    return stats_of(loss_sums(Courier::receive(std::move(sums)), labels_.shape()));
  } catch (const std::exception& e) {
    if (handing_out) throw;
    graphs_.give_up(e.what());
  }
  step->abandon();
  launch_.say("steps cannot be captured: " + graphs_.why_not());
  context_.begin(batch_);
  return run_step(batch, weights, ready, given);
}

std::optional<StepStats> ModelSource::replay_step(const GradientReady& ready, size_t slot) {
  CapturedStep& step = *captured_[slot];
  if (batch_.raw() != step.inputs.raw()) stream_->copy(batch_, step.inputs);
  if (labels_.raw() != step.labels.raw()) stream_->copy(labels_, step.labels);
  if (!step.replay_first()) {
    graphs_.invalidate(slot);
    captured_[slot].reset();
    return {};
  }
  auto sums = courier_.send_back(step.output(0));
  for (size_t section = 1; section < step.sections(); ++section) {
    step.replay(section);
    give_captured(step.layer(section), step.output(section), ready);
  }
  courier_.deliver(ready);
  return stats_of(loss_sums(Courier::receive(std::move(sums)), labels_.shape()));
}

// What goes to host memory has gone there before the step ends. What stays may be read later.
void ModelSource::give_captured(size_t layer, const Tensor& gradient, const GradientReady& ready) {
  if (!courier_.leaves(layer)) return courier_.give(layer, gradient, ready);
  Tensor own = stream_->empty(gradient.shape(), gradient.dtype());
  stream_->copy(gradient, own);
  courier_.give(layer, std::move(own), ready);
}

StepStats ModelSource::evaluate(std::span<const uint32_t> test_samples, std::span<const Tensor> weights) {
  begun_ = prepared_ = waits_ = false;
  StepStats total;
  while (!test_samples.empty()) {
    const size_t count = std::min(evaluation_batch(*test_), test_samples.size());
    begin(*test_, test_samples.first(count));
    model_->forward(pass(false, 0), courier_.weights(weights, 0, layers().size()), 0, layers().size(), context_);
    Tensor probabilities;
    const StepStats stats = softmax_cross_entropy(pass(false, 0), context_.take_output(), labels_, probabilities);
    total.loss_sum += stats.loss_sum;
    total.correct += stats.correct;
    total.samples += stats.samples;
    test_samples = test_samples.subspan(count);
  }
  return total;
}

}  // namespace troupe::nn
