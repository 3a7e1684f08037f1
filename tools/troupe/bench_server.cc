#include "bench_server.h"

#include <troupe/ps/param/layout.h>

#include "bench.h"

using namespace troupe;

namespace {

const ps::Endpoint kServer{ps::Role::server, 0, 1}, kCoordinator{ps::Role::coordinator, 0, 1};

ps::Endpoint endpoint(ps::WorkerId worker) { return {ps::Role::worker, worker, 1}; }

}  // namespace

BenchServer::BenchServer(size_t workers, size_t parcels, int64_t elements)
    : parcels_(parcels),
      gradients_(synthetic_gradients(synthetic_layers(workers * parcels, elements))),
      sequences_(workers, 1),
      transport_(std::make_shared<ps::MemoryTransport>()) {
  const std::vector<LayerSpec> layers = synthetic_layers(parcels, elements);
  ps::LayoutOptions options;
  options.slice_bytes = elements * 4;
  options.fuse_bytes = 0;
  ps::Membership membership;
  membership.generation = 1;
  membership.workers.assign(workers, 1);
  membership.servers = {1};
  membership.layout =
      std::make_shared<const ps::Layout>(ps::make_layout(layers, std::vector<ps::Policy>(parcels), options));
  membership.rebase = 0;

  ServerParts parts;
  parts.options.self = kServer;
  parts.options.optimizer = *ps::make_optimizer({.name = "sgd", .learning_rate = 0.01});
  parts.options.global_batch = static_cast<int64_t>(workers);
  parts.store = ps::make_null_store();
  parts.make_shard = [store = parts.store](const ps::ShardOptions& options) {
    return std::make_unique<ps::Shard>(options, store, [](const ps::Slice& slice) {
      return ps::SliceState{slice.id, Tensor::zeros({slice.count()})};
    });
  };
  parts.transport = transport_;

  for (ps::WorkerId worker = 0; worker < workers; ++worker)
    transport_->attach(endpoint(worker), [this](ps::EnvelopePtr envelope) { received(*envelope); });
  transport_->attach(kCoordinator, [](const ps::EnvelopePtr&) {});
  config_.set("scheduler.policy", caf::atom("sharing"));
  config_.set("scheduler.max-threads", 2);
  system_ = std::make_unique<caf::actor_system>(config_);
  spawn_server(*system_, std::move(parts));
  transport_->send({kCoordinator, kServer, 1, std::move(membership)});
}

BenchServer::~BenchServer() { transport_->send({kCoordinator, kServer, 1, ps::Finish{}}); }

void BenchServer::send(ps::WorkerId worker, ps::Message body) {
  transport_->send({endpoint(worker), kServer, 1, std::move(body)});
}

void BenchServer::push(ps::WorkerId worker, ps::ParcelId parcel, ps::Step step) {
  ps::Push push;
  push.sequence = sequences_[worker]++;
  push.parcel = parcel;
  push.step = push.schedule_step = step;
  push.samples = 1;
  push.gradients = {gradients_[worker * parcels_ + parcel]};
  send(worker, std::move(push));
}

void BenchServer::pull(ps::WorkerId worker, ps::ParcelId parcel, ps::Step step) {
  send(worker, ps::Pull{parcel, step, static_cast<uint64_t>(step) + 1});
}

void BenchServer::received(const ps::Envelope& envelope) {
  Answer answer{envelope.to.index};
  if (const auto* ack = std::get_if<ps::PushAck>(&envelope.body)) {
    answer.parcel = ack->parcel, answer.step = ack->step;
  } else if (const auto* reply = std::get_if<ps::PullReply>(&envelope.body)) {
    answer.parcel = reply->parcel, answer.step = reply->step, answer.values = reply->values;
  } else if (const auto* refused = std::get_if<ps::Refused>(&envelope.body)) {
    TROUPE_CHECK(false, "the server refused parcel ", refused->parcel, ": ", refused->detail);
  } else {
    return;
  }
  {
    std::lock_guard lock(mutex_);
    answers_.push_back(std::move(answer));
  }
  there_.notify_one();
}

BenchServer::Answer BenchServer::wait() {
  std::unique_lock lock(mutex_);
  there_.wait(lock, [this] { return !answers_.empty(); });
  Answer answer = std::move(answers_.front());
  answers_.pop_front();
  return answer;
}
