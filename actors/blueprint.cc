#include <troupe/actors/blueprint.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include <troupe/actors/nan_source.h>
#include <troupe/kernels/base/cores.h>
#include <troupe/kernels/nn/forwarding_source.h>
#include <troupe/kernels/nn/make_model.h>
#include <troupe/kernels/nn/model_source.h>
#include <troupe/kernels/nn/model_stage_source.h>
#include <troupe/ps/checkpoint/gpt2_weights.h>
#include <troupe/ps/checkpoint/logged_store.h>
#include <troupe/ps/config/checks.h>
#include <troupe/ps/control/replicated_store.h>
#include <troupe/ps/pipeline/balance.h>
#include <troupe/ps/pipeline/configured.h>
#include <troupe/ps/pipeline/pieces.h>
#include <troupe/ps/param/layer_names.h>
#include <troupe/ps/wire/codec.h>

namespace troupe {
namespace {

SlowDown slow_down(const ps::DebugSection& debug) {
  const auto extra = std::chrono::microseconds(static_cast<int64_t>(debug.slow_ms * 1000));
  return {debug.slow_factor, extra};
}

/// Begins with weights that are there already.
class GivenWeights final : public ForwardingSource {
 public:
  GivenWeights(std::unique_ptr<GradientSource> source, std::vector<Tensor> weights)
      : ForwardingSource(std::move(source)), weights_(std::move(weights)) {}
  void initialize(size_t layer, uint64_t, std::span<float> values) override {
    std::ranges::copy(std::as_const(weights_[layer]).span<float>(), values.begin());
  }

 private:
  std::vector<Tensor> weights_;
};

}  // namespace

Result<std::shared_ptr<const Blueprint>> Blueprint::make(const ps::LoadedConfig& config, bool spread) {
  std::shared_ptr<Blueprint> made(new Blueprint);
  made->config_ = config.config;
  made->sources_ = config.sources;
  auto seats = DeviceSeats::choose(config.config, config.sources, spread);
  if (!seats) return tl::unexpected<Error>(seats.error());
  made->seats_ = std::move(*seats);
  auto servers = server_backend(config.config, config.sources);
  if (!servers) return tl::unexpected<Error>(servers.error());
  made->server_backend_ = std::move(*servers);
  TROUPE_TRY(made->load());
  TROUPE_TRY(made->choose());
  made->coordinator_.layout.spread = spread;
  return std::shared_ptr<const Blueprint>(std::move(made));
}

Status Blueprint::load() {
  auto sets = ps::load_dataset(ps::data_options(config_));
  if (!sets) return tl::unexpected<Error>(sets.error());
  data_ = std::move(*sets);
  TROUPE_TRY(ps::check_against_data(config_, sources_, data_.train->size()));
  auto made = nn::make_model(ps::model_spec(config_, data_.train->sample_shape(), data_.train->classes()));
  if (!made) return tl::unexpected<Error>(made.error());
  model_ = std::make_shared<const nn::Model>(std::move(*made));
  return load_weights();
}

Status Blueprint::load_weights() {
  if (config_.model.weights.empty()) return {};
  auto read = ps::read_gpt2_weights(*ps::make_posix_files(), config_.model.weights, model_->layers());
  if (!read) return tl::unexpected<Error>(read.error());
  weights_ = std::move(*read);
  return {};
}

Status Blueprint::choose() {
  ps::CoordinatorOptions& c = coordinator_;
  c.layers = model_->layers();
  TROUPE_TRY(ps::check_against_model(config_, sources_, ps::layer_names(c.layers)));
  c.changes = ps::rules_by_step(config_.update);
  auto policies = ps::resolve_policies(ps::layer_names(c.layers), c.changes.front().rules);
  if (!policies) return tl::unexpected<Error>(policies.error());
  c.policies = std::move(*policies);
  c.changes.erase(c.changes.begin());
  for (const ps::PolicyChange& change : c.changes)
    if (auto later = ps::resolve_policies(ps::layer_names(c.layers), change.rules); !later)
      return fail(cat("from step ", change.step), later.error());
  c.layout = ps::layout_options(config_);
  c.dealer = ps::dealer_options(config_, data_.train->size());
  c.checkpoint_every_steps = config_.checkpoint.every_steps;
  c.checkpoint_at_end = config_.checkpoint.at_end;
  c.evaluate_every_epochs = config_.train.evaluate_every_epochs;
  c.test_samples = data_.test->size();
  c.clip_norm = config_.train.clip_norm;
  c.loss_scaling = ps::loss_scaling(config_.precision);
  c.stop_at_least_scale = config_.train.on_nonfinite == ps::NonFinite::stop;
  c.skip_non_finite = !c.stop_at_least_scale || c.loss_scaling.dynamic;
  // A recording knows of no restarts: a recorded run that loses a worker ends.
  c.max_restarts = config_.debug.record ? 0 : config_.elastic.max_restarts;
  c.on_loss = config_.elastic.on_loss;
  c.min_workers = config_.elastic.min_workers;
  c.roster.lease_ms = config_.network.lease_ms;
  c.roster.start_timeout_ms = config_.network.start_timeout_s * 1000;
  c.roster.replace_ms = config_.elastic.replace_ms;

  // Of the whole run, so that a resumed one goes on with the same schedule.
  auto dealer = ps::Dealer::make(c.dealer);
  if (!dealer) return tl::unexpected<Error>(dealer.error());
  optimizer_options_ = ps::optimizer_options(config_, dealer->total_schedule_steps());
  auto optimizer = ps::make_optimizer(optimizer_options_);
  if (!optimizer) return tl::unexpected<Error>(optimizer.error());
  optimizer_ = std::move(*optimizer);
  c.layout.whole_layers = optimizer_->needs_whole_tensors();
  return config_.parallel.stages > 1 ? choose_stages() : Status{};
}

Status Blueprint::choose_stages() {
  const ps::ParallelSection& p = config_.parallel;
  auto schedule = ps::running_schedule(p);
  if (!schedule) return tl::unexpected<Error>(schedule.error());
  auto costs = layer_costs();
  if (!costs) return tl::unexpected<Error>(costs.error());
  auto plan = ps::plan_stages(*model_, std::make_shared<const ps::Schedule>(std::move(*schedule)), p.cuts, *costs);
  if (!plan) return tl::unexpected<Error>(plan.error());
  if (p.asynchronous() && !plan->tied.empty())
    return fail(ErrorKind::invalid,
                cat("layer ", coordinator_.layers[plan->tied.front().layer].name, " is used by two stages ",
                    "(model.tied), and parallel.schedule = ", p.schedule, " has each stage at another version of its weights: set ",
                    "model.tied = false, or use another schedule"));
  stage_.plan = std::move(*plan);
  stage_.strict = p.strict_schedule;
  stage_.stall_ms = p.stall_s * 1000;
  stage_.activations = ps::storage_type(config_.precision);
  coordinator_.layout.stages = stage_.plan.schedule->stages;
  coordinator_.layout.stage_of = stage_.plan.stage_of();
  coordinator_.judge_stages = [costs = std::move(*costs), plan = stage_.plan](const std::vector<double>& seconds) {
    return ps::imbalance(costs, plan, seconds);
  };
  return {};
}

Result<std::vector<ps::LayerCost>> Blueprint::layer_costs() const {
  const std::string& file = config_.parallel.profile;
  if (file.empty()) return ps::estimated_costs(*model_);
  const auto profile = ps::read_profile_csv(file);
  if (!profile) return tl::unexpected<Error>(profile.error());
  auto costs = ps::measured_costs(*model_, *profile);
  if (!costs) return fail(cat(file, " (", sources_.of("parallel.profile"), ")"), costs.error());
  return costs;
}

std::string Blueprint::device_note() const {
  if (!server_backend_) return seats_->note();
  const size_t devices = server_backend_->devices().size();
  return cat(seats_->note(), seats_->note().empty() ? "" : "; ", "servers keep parameters and optimizer state on ",
             devices, devices == 1 ? " GPU" : " GPUs");
}

ClusterParts Blueprint::parts() const {
  ClusterParts parts;
  const auto self = shared_from_this();
  parts.coordinator = coordinator_;
  parts.optimizer = optimizer_;
  parts.immediate_scale = config_.servers.immediate_scale;
  parts.seed = static_cast<uint64_t>(config_.train.seed);
  parts.shuffle = config_.data.shuffle;
  parts.threads_per_worker = static_cast<int>(config_.parallel.threads_per_worker);
  if (config_.metrics.trace)
    parts.trace = std::make_shared<Trace>(
        Trace::Options{.first_step = config_.metrics.trace_first_step, .last_step = config_.metrics.trace_last_step});
  parts.bucket_bytes = config_.parallel.bucket_bytes;
  parts.reduce_threads = static_cast<int>(ps::reduce_threads(config_, usable_cores()));
  parts.source = [self](ps::WorkerId worker) { return self->source(worker); };
  parts.wants_devices = config_.parallel.device != ps::DeviceChoice::cpu;
  if (seats_->backend()->kind() != DeviceKind::cpu)
    parts.devices = DeviceParts{seats_->backend(), [self](ps::WorkerId worker) { return self->seats_->seat(worker); },
                                optimizer_options_};
  if (server_backend_) {
    const size_t devices = server_backend_->devices().size();
    auto device_of = [devices](ps::ServerId server) -> Result<int> { return static_cast<int>(server % devices); };
    parts.server_devices = DeviceParts{server_backend_, std::move(device_of), optimizer_options_};
  }
  parts.stage = stage_;
  parts.stage_source = [self](ps::WorkerId worker) { return self->stage_source(worker); };
  // First parameters are made by the CPU, whatever computes later.
  std::unique_ptr<GradientSource> first = std::make_unique<nn::ModelSource>(model_, data_.train, data_.test);
  if (!weights_.empty()) first = std::make_unique<GivenWeights>(std::move(first), weights_);
  parts.initial = initial_from(std::move(first), *optimizer_, parts.seed);
  if (config_.debug.slow_worker >= 0)
    parts.slow_down = [debug = config_.debug](ps::WorkerId worker) {
      return worker == debug.slow_worker ? slow_down(debug) : SlowDown{};
    };
  return parts;
}

nn::LaunchOptions Blueprint::launches(ps::WorkerId worker) const {
  return {config_.parallel.launch_graphs, [self = shared_from_this(), worker](const std::string& note) {
            std::lock_guard lock(self->mutex_);
            self->worker_notes_.push_back(cat("worker ", worker, ": ", note));
          }};
}

std::vector<std::string> Blueprint::take_worker_notes() const {
  std::lock_guard lock(mutex_);
  return std::exchange(worker_notes_, {});
}

std::unique_ptr<GradientSource> Blueprint::source(ps::WorkerId worker) const {
  StreamOptions options;
  options.threads = static_cast<int>(config_.parallel.threads_per_worker);
  options.matmul = config_.precision.matmul;
  const auto device = seats_->seat(worker);
  if (!device) throw std::runtime_error(device.error().message);
  options.device = *device;
  auto made = nn::ModelSource::make(model_, data_.train, data_.test, seats_->backend(), options,
                                    ps::storage_type(config_.precision), launches(worker));
  if (!made) throw std::runtime_error(made.error().message);
  std::unique_ptr<GradientSource> source = std::move(*made);
  if (config_.debug.nan_at_step >= 0 && worker == config_.debug.nan_worker)
    source = make_nan_source(std::move(source), config_.debug.nan_at_step, config_.debug.nan_layer);
  return source;
}

std::unique_ptr<StageSource> Blueprint::stage_source(ps::WorkerId worker) const {
  const ps::Schedule& schedule = *stage_.plan.schedule;
  std::vector<nn::ModelPart> parts;
  for (uint32_t chunk = 0; chunk < schedule.chunks; ++chunk)
    if (schedule.stage_of[chunk] == worker % schedule.stages)
      parts.emplace_back(model_, stage_.plan.chunks[chunk].first, stage_.plan.chunks[chunk].last);
  return std::make_unique<nn::ModelStageSource>(model_, std::move(parts), data_.train, data_.test,
                                                static_cast<int>(config_.parallel.threads_per_worker),
                                                ps::storage_type(config_.precision));
}

void Blueprint::keep_promises(ClusterParts& parts, const ps::RunConfig& config, bool spread) {
  if (config.checkpoint.durability == ps::Durability::logged) {
    const auto sync = static_cast<ps::UpdateLogOptions::Sync>(config.checkpoint.log_sync);
    parts.store = [folder = config.checkpoint.log_folder, sync](ps::ServerId server) {
      ps::UpdateLogOptions options;
      options.folder = cat(folder, "/server-", server);
      options.sync = sync;
      const ps::EnvelopeCodec codec{
          [](const ps::Envelope& envelope) { return ps::wire::pack(envelope, 0); },
          [](std::span<const std::byte> block) { return ps::wire::unpack(block, ps::wire::DecodeLimits{}); }};
      return ps::make_logged_store(ps::make_posix_files(), std::move(options), codec);
    };
  } else if (spread) {
    parts.store = [](ps::ServerId server) { return ps::make_replicated_store({server}); };
  }
}

Status Blueprint::resume(ClusterParts& parts, std::shared_ptr<const ps::Checkpoint> checkpoint) {
  const ps::Manifest& manifest = checkpoint->manifest();
  if (auto fits = ps::check_fits(manifest, parts.coordinator.layers, parts.optimizer->name(),
                                 parts.optimizer->state_names());
      !fits)
    return fail(cat("cannot resume from ", checkpoint->folder()), fits.error());
  parts.coordinator.resume = manifest.dealer;
  parts.coordinator.resume_scale = manifest.loss_scale;
  parts.initial = [checkpoint](const ps::Slice& slice) {
    auto state = checkpoint->slice(slice);
    if (!state) throw std::runtime_error("cannot read the checkpoint: " + state.error().message);
    return std::move(*state);
  };
  return {};
}

}  // namespace troupe
