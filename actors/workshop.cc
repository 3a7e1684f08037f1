#include <troupe/actors/workshop.h>

#include <stdexcept>

#include <troupe/actors/actor_queue.h>
#include <troupe/actors/combine_pushes.h>
#include <troupe/actors/device_reducer.h>
#include <troupe/actors/host_reducer.h>
#include <troupe/actors/own_copy_reducer.h>
#include <troupe/actors/replica.h>
#include <troupe/actors/worker.h>
#include <troupe/ps/pipeline/measured.h>
#include <troupe/ps/transport/memory_transport.h>

namespace troupe {

namespace {

std::shared_ptr<Reducer> own_copy_reducer(const ClusterParts& parts, const ps::Endpoint& who) {
  OwnCopyReducerParts own;
  own.all_reducer = parts.all_reducer(who.index);
  own.make_queue = [executor = parts.executor, who] { return executor(who, "collective"); };
  own.layers = parts.coordinator.layers;
  own.optimizer = parts.optimizer;
  own.norm = parts.coordinator.clip_norm > 0;
  if (parts.trace) own.track = parts.trace->track(cat("worker ", who.index, " reduce"));
  return make_own_copy_reducer(std::move(own));
}

int device_of(const ClusterParts& parts, ps::WorkerId worker) {
  const auto device = parts.devices->seat(worker);
  if (!device) throw std::runtime_error(device.error().message);
  return *device;
}

std::shared_ptr<Reducer> device_reducer(const ClusterParts& parts, const ps::Endpoint& who,
                                        std::shared_ptr<DeviceGroup> group) {
  const DeviceParts& devices = *parts.devices;
  DeviceReducerParts device{.backend = devices.backend,
                            .device = device_of(parts, who.index),
                            .join = [group, rank = who.index] { return group->join(rank); },
                            .abort = [group](const std::string& reason) { group->abort(reason); },
                            .queue = parts.executor(who, "collective"),
                            .layers = parts.coordinator.layers,
                            .optimizer = {devices.optimizer, *devices.backend->update_ops()},
                            .norm = parts.coordinator.clip_norm > 0,
                            .track = {}};
  if (parts.trace) device.track = parts.trace->track(cat("worker ", who.index, " reduce"));
  return make_device_reducer(std::move(device));
}

std::unique_ptr<ps::Shard> from_image(const ps::ShardImage& image, const ps::ShardOptions& options,
                                      std::shared_ptr<ps::ShardStore> store, ps::Shard::InitialState initial) {
  auto shard = ps::Shard::make_from(image, options, std::move(store), std::move(initial));
  if (!shard) throw std::runtime_error(cat("its image cannot be: ", shard.error().message));
  return std::move(*shard);
}

// Until a lost process is noticed, replaced or done without, and whoever follows it has started.
std::chrono::milliseconds patience_of(const ps::RosterOptions& roster) {
  return std::chrono::milliseconds(roster.lease_ms + roster.replace_ms + roster.start_timeout_ms);
}

std::shared_ptr<Reducer> host_reducer(const ClusterParts& parts, const ps::Endpoint& who) {
  HostReducerParts host{.backend = parts.devices->backend,
                        .device = device_of(parts, who.index),
                        .queue = parts.executor(who, "collective"),
                        .layers = parts.coordinator.layers,
                        .norm = parts.coordinator.clip_norm > 0,
                        .track = {},
                        .patience = patience_of(parts.coordinator.roster)};
  if (parts.trace) host.track = parts.trace->track(cat("worker ", who.index, " reduce"));
  return make_host_reducer(std::move(host));
}

}  // namespace

void fill_defaults(caf::actor_system& system, ClusterParts& parts) {
  if (!parts.transport) parts.transport = std::make_shared<ps::MemoryTransport>();
  if (!parts.transport->reliable() && parts.retry_interval.count() == 0)
    parts.retry_interval = std::chrono::milliseconds(200);
  if (!parts.executor)
    parts.executor = [&system, threads = parts.threads_per_worker](const ps::Endpoint& who, const char* use) {
      return make_actor_queue(system, cat(name_of(who.role), who.index, '.', use), threads);
    };
  if (!parts.store) parts.store = [](ps::ServerId) { return ps::make_null_store(); };
  if (!parts.read_checkpoint)
    parts.read_checkpoint = [initial = parts.initial,
                             start = parts.coordinator.resume ? parts.coordinator.resume->step : 0](
                                const ps::ReloadRequest& request) -> Result<ps::Reload> {
      return first_parameters(request, initial, start);
    };
}

ps::Reload first_parameters(const ps::ReloadRequest& request, const ps::Shard::InitialState& initial, ps::Step start) {
  ps::Reload reload;
  reload.step = start;
  for (const ps::Slice& slice : request.layout->slices)
    if (slice.server == request.server.index) reload.slices.push_back(initial(slice));
  return reload;
}

Workshop::Workshop(caf::actor_system& system, ClusterParts parts) : system_(system), parts_(std::move(parts)) {
  fill_defaults(system_, parts_);
}

caf::actor Workshop::make(const ps::Spawn& order, ps::Generation since) {
  switch (order.who.role) {
    case ps::Role::server: return order.takes_over ? successor(order.who, *order.takes_over) : server(order, since);
    case ps::Role::replica: return replica(order.who, since);
    case ps::Role::worker: return worker(order.who, since);
    default: throw std::runtime_error(cat("a node starts no ", order.who));
  }
}

ServerParts Workshop::server_parts(const ps::Endpoint& who, ps::Generation since) const {
  ServerParts server;
  server.since = since;
  server.options.self = who;
  server.options.coordinator = parts_.coordinator.self;
  server.options.optimizer = parts_.optimizer;
  server.options.scale = parts_.immediate_scale;
  server.options.global_batch = parts_.coordinator.dealer.global_batch;
  server.options.needs_verdict = parts_.coordinator.clip_norm > 0 || parts_.coordinator.skip_non_finite;
  server.store = parts_.store(who.index);
  server.commits = [executor = parts_.executor, who] { return executor(who, "log"); };
  server.transport = parts_.transport;
  server.retry_interval = parts_.retry_interval;
  if (parts_.trace) server.track = parts_.trace->track(cat("server ", who.index));
  if (parts_.server_devices) server.device = server_device(who);
  return server;
}

ServerDevice Workshop::server_device(const ps::Endpoint& who) const {
  const auto open = [devices = *parts_.server_devices, who]() -> Result<std::shared_ptr<ps::ShardDevice>> {
    const auto index = devices.seat(who.index);
    if (!index) return tl::unexpected<Error>(index.error());
    return ps::ShardDevice::make(cat(who), devices.backend, *index, devices.optimizer);
  };
  return {open, parts_.executor(who, "shard")};
}

caf::actor Workshop::server(const ps::Spawn& order, ps::Generation since) {
  const ps::Endpoint& who = order.who;
  ServerParts server = server_parts(who, since);
  server.make_shard = [image = order.image, store = server.store, initial = parts_.initial,
                       record = parts_.record_event, replay = parts_.replay](const ps::ShardOptions& options) {
    auto shard = image ? from_image(*image, options, store, initial)
                       : std::make_unique<ps::Shard>(options, store, initial);
    const ps::ServerId index = options.self.index;
    if (record) shard->on_event([record, index](const ps::Shard::Event& event) { record(index, event); });
    if (replay && index < replay->events.size()) shard->replay(replay->events[index]);
    return shard;
  };
  return caf::actor_cast<caf::actor>(spawn_server(system_, std::move(server)));
}

caf::actor Workshop::replica(const ps::Endpoint& who, ps::Generation since) {
  ReplicaParts replica;
  replica.options.self = who;
  replica.options.since = since;
  replica.options.shard = server_parts({ps::Role::server, who.index, 1}, since).options;
  replica.options.initial = parts_.initial;
  replica.transport = parts_.transport;
  replica.retry_interval = parts_.retry_interval;
  replica.successor = [this, since](const ps::Endpoint& server) { return server_parts(server, since); };
  const ServerActor actor = spawn_replica(system_, std::move(replica));
  replicas_[who] = actor;
  return caf::actor_cast<caf::actor>(actor);
}

caf::actor Workshop::successor(const ps::Endpoint& who, const ps::Endpoint& replica) {
  const auto found = replicas_.find(replica);
  if (found == replicas_.end()) throw std::runtime_error(cat("its ", replica, " is not here"));
  const ServerActor actor = found->second;
  replicas_.erase(found);
  take_over(actor, who, *parts_.transport);
  return caf::actor_cast<caf::actor>(actor);
}

caf::actor Workshop::worker(const ps::Endpoint& who, ps::Generation since) {
  const std::shared_ptr<GradientSource> source = parts_.source(who.index);
  check_layers(who, *source);
  ps::WorkerOptions options;
  options.self = who;
  options.coordinator = parts_.coordinator.self;
  options.since = since;
  options.clip_norm = parts_.coordinator.clip_norm;
  options.skip_non_finite = parts_.coordinator.skip_non_finite;
  options.bucket_bytes = parts_.bucket_bytes;
  if (parts_.spread && parts_.wants_devices && parts_.coordinator.layout.stages == 1) {
    options.device = parts_.devices || parts_.host_reducer ? "cuda" : "cpu";
    const std::set<ps::LayerId> layers = ever_all_reduced(parts_.coordinator);
    options.host_layers.assign(layers.begin(), layers.end());
    options.broadcasts = !parts_.server_devices;
  }
  WorkerParts worker{options, source, parts_.executor(who, "compute"), {}, parts_.transport,
                     ps::Sampler(parts_.coordinator.dealer.train_samples, parts_.seed, parts_.shuffle),
                     parts_.seed, {}, parts_.retry_interval};
  const uint32_t stages = parts_.coordinator.layout.stages;
  if (parts_.trace) {
    worker.actor_track = parts_.trace->track(cat("worker ", who.index));
    worker.compute_track = parts_.trace->track(
        stages > 1 ? ps::stage_track(who.index % stages, who.index / stages) : cat("worker ", who.index, " compute"));
  }
  worker.make_reducer = reducer(who, worker.compute, worker.compute_track);
  if (parts_.slow_down) worker.slow_down = parts_.slow_down(who.index);
  if (stages > 1) {
    worker.stage = StageParts{};
    worker.stage->track = worker.compute_track;
    worker.stage->options = parts_.stage;
    worker.options.weight_lag = ps::weight_lag(*parts_.stage.plan.schedule, who.index % stages);
    worker.stage->source = parts_.stage_source(who.index);
    for (const ps::TiedLayer& tied : parts_.stage.plan.tied)
      if (parts_.stage.plan.schedule->stage_of[tied.reader] == who.index % stages)
        worker.options.reads.push_back(tied.layer);
  }
  return caf::actor_cast<caf::actor>(spawn_worker(system_, std::move(worker)));
}

std::function<std::shared_ptr<Reducer>()> Workshop::reducer(const ps::Endpoint& who, std::shared_ptr<Executor> compute,
                                                            Track track) {
  const uint32_t stages = parts_.coordinator.layout.stages;
  if (parts_.host_reducer && parts_.spread) return [make = parts_.host_reducer, who] { return make(who); };
  if (parts_.all_reducer) return [parts = parts_, who] { return own_copy_reducer(parts, who); };
  if (parts_.devices && parts_.spread) return [parts = parts_, who] { return host_reducer(parts, who); };
  if (parts_.devices)
    return [parts = parts_, who, group = device_group()] { return device_reducer(parts, who, group); };
  return [group = local_group(who.index % stages), rank = who.index / stages, compute, track] {
    return group->join(rank, compute, track);
  };
}

std::shared_ptr<DeviceGroup> Workshop::device_group() {
  if (!device_group_)
    device_group_ = std::make_shared<DeviceGroup>(parts_.devices->backend, parts_.devices->seat,
                                                  parts_.coordinator.dealer.worker_batch.size());
  return device_group_;
}

std::shared_ptr<LocalGroup> Workshop::local_group(uint32_t stage) {
  std::shared_ptr<LocalGroup>& group = groups_[stage];
  if (group) return group;
  LocalGroupOptions options;
  options.workers = parts_.coordinator.dealer.worker_batch.size() / parts_.coordinator.layout.stages;
  options.layers = parts_.coordinator.layers;
  options.optimizer = parts_.optimizer;
  options.norm = parts_.coordinator.clip_norm > 0;
  options.helpers = static_cast<size_t>(parts_.reduce_threads);
  const auto number = [first = stage * options.helpers](size_t i) { return static_cast<uint32_t>(first + i); };
  options.make_helper = [executor = parts_.executor, number](size_t i) {
    return executor({ps::Role::worker, number(i), 1}, "reduce");
  };
  for (size_t i = 0; parts_.trace && i < options.helpers; ++i)
    options.helper_tracks.push_back(parts_.trace->track(cat("reduce ", number(i))));
  return group = std::make_shared<LocalGroup>(std::move(options));
}

void Workshop::check_layers(const ps::Endpoint& who, const GradientSource& source) const {
  const auto& expected = parts_.coordinator.layers;
  TROUPE_CHECK(source.layers().size() == expected.size(), who, " has ", source.layers().size(), " layers, the run ",
               expected.size());
  for (size_t i = 0; i < expected.size(); ++i)
    TROUPE_CHECK(source.layers()[i].name == expected[i].name && source.layers()[i].count == expected[i].count, who,
                 ": layer ", i, " is ", source.layers()[i].name, " with ", source.layers()[i].count,
                 " parameters, in the run ", expected[i].name, " with ", expected[i].count);
}

ps::Shard::InitialState initial_from(std::shared_ptr<GradientSource> source, const ps::Optimizer& optimizer,
                                     uint64_t seed) {
  const size_t states = optimizer.state_names().size();
  return [source, states, seed](const ps::Slice& slice) {
    const LayerSpec& layer = source->layers()[slice.layer];
    Tensor whole = Tensor::empty({layer.count});
    source->initialize(slice.layer, seed, whole.span<float>());
    ps::SliceState state;
    state.slice = slice.id;
    state.values = whole.view(slice.begin, {slice.count()}).clone();
    for (size_t i = 0; i < states; ++i) state.state.push_back(Tensor::zeros({slice.count()}));
    return state;
  };
}

}  // namespace troupe
