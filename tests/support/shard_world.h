#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <troupe/ps/param/shard.h>

/// One shard with the workers and the coordinator that talk to it, driven by hand. Every layer is one slice and
/// one parcel, so that the three numbers are equal. SGD with rate 1 unless told otherwise: a parameter moves by
/// exactly the mean gradient.
namespace troupe::ps::test {

inline const Endpoint kCoordinator{Role::coordinator, 0, 1};

inline LayerSpec layer_of(const std::string& name, int64_t count, ParamKind kind = ParamKind::weight) {
  return {name, count, {{name + ".weight", Shape{count}, 0, kind}}};
}

inline std::shared_ptr<const Optimizer> optimizer_of(const std::string& name, double rate = 1, double momentum = 0) {
  OptimizerOptions options;
  options.name = name;
  options.learning_rate = rate;
  options.momentum = momentum;
  options.lazy_rows = true;  // where layers are by rows
  return make_optimizer(options).value();
}

/// Parameters that begin at 0, without optimizer state.
inline Shard::InitialState zeros() {
  return [](const Slice& slice) { return SliceState{slice.id, Tensor::zeros(Shape{slice.count()}), {}, 0}; };
}

class ShardWorld {
 public:
  static constexpr int64_t kCount = 20;  ///< elements a layer

  /// `row_width`: of layers that are by rows.
  explicit ShardWorld(std::vector<Policy> policies, size_t worker_count = 2, int64_t row_width = 0)
      : workers(worker_count, 1), sent(worker_count, 0), width(row_width) {
    options.self = {Role::server, 0, 1};
    options.optimizer = optimizer_of("sgd");
    options.scale = ImmediateScale::none;
    set_policies(std::move(policies));
  }

  void set_policies(std::vector<Policy> policies) {
    std::vector<LayerSpec> layers;
    for (size_t i = 0; i < policies.size(); ++i) layers.push_back(layer_of("fc" + std::to_string(i + 1), kCount));
    for (size_t i = 0; i < layers.size(); ++i)
      if (policies[i].mode != Mode::all_reduce) layers[i].row_width = width;
    LayoutOptions sizes;
    sizes.fuse_bytes = 0;
    layout = std::make_shared<Layout>(make_layout(std::move(layers), std::move(policies), sizes));
  }

  /// A new actor in the server's slot, which has not heard of any membership.
  void start() {
    shard = std::make_unique<Shard>(options, store, [](const Slice& slice) {
      SliceState first;
      first.values = Tensor::zeros(Shape{slice.count()});
      return first;
    });
  }

  Envelope membership(std::optional<Step> rebase = std::nullopt) const {
    return {kCoordinator, options.self, generation,
            Membership{generation, workers, {options.self.incarnation}, layout, rebase}};
  }
  Outbox admit(std::optional<Step> rebase = std::nullopt) { return shard->handle(membership(rebase)); }
  ShardWorld& run() {
    start();
    admit();
    return *this;
  }

  Outbox restart_worker(WorkerId w) {
    ++workers[w];
    sent[w] = 0;
    ++generation;
    return admit();
  }
  void restart_server() {
    ++options.self.incarnation;
    ++generation;
    start();
    admit();
  }

  Endpoint worker(WorkerId w) const { return {Role::worker, w, workers[w]}; }
  Envelope from_worker(WorkerId w, Message body) const {
    return {worker(w), options.self, generation, std::move(body)};
  }
  Envelope from_coordinator(Message body) const { return {kCoordinator, options.self, generation, std::move(body)}; }

  /// A push of gradients whose every element is `sum`, of all rows; the sequence is the worker's next.
  Envelope push_of(WorkerId w, ParcelId parcel, Step step, float sum = 1, int64_t samples = 1) {
    Push push{++sent[w], parcel, step, step, samples};
    if (samples > 0)
      for (SliceId s : layout->parcels[parcel].slices) push.gradients.push_back(filled(layout->slices[s].count(), sum));
    if (samples > 0 && layout->layers[parcel].row_width > 0) push.rows = all_rows();
    return from_worker(w, std::move(push));
  }
  Outbox push(WorkerId w, ParcelId parcel, Step step, float sum = 1, int64_t samples = 1) {
    return shard->handle(push_of(w, parcel, step, sum, samples));
  }
  Outbox pull(WorkerId w, ParcelId parcel, Step step) { return shard->handle(from_worker(w, Pull{parcel, step})); }
  Outbox verdict(Step step, bool skip = false, double scale = 1) {
    return shard->handle(from_coordinator(Verdict{step, skip, scale}));
  }
  StatsReply stats() { return std::get<StatsReply>(shard->handle(from_coordinator(StatsRequest{1})).at(0).body); }

  Tensor all_rows() const {
    std::vector<int32_t> rows(static_cast<size_t>(kCount / width));
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int32_t>(i);
    return Tensor::from<int32_t>(rows, {kCount / width});
  }
  static Tensor filled(int64_t count, float value) {
    Tensor t = Tensor::empty(Shape{count});
    for (float& x : t.span<float>()) x = value;
    return t;
  }

  float value(SliceId slice) const { return shard->state().at(slice).values.data<float>()[0]; }

  /// Everything a checkpoint would hold, as bytes.
  std::vector<std::vector<float>> dump() const {
    std::vector<std::vector<float>> all;
    const auto add = [&](const Tensor& t) { all.emplace_back(t.span<float>().begin(), t.span<float>().end()); };
    for (const auto& s : shard->state()) {
      add(s.values);
      for (const auto& t : s.state) add(t);
      all.push_back({static_cast<float>(s.updates)});
    }
    return all;
  }

  std::shared_ptr<const Layout> layout;
  ShardOptions options;
  std::shared_ptr<ShardStore> store = make_memory_store();
  std::vector<Incarnation> workers;
  std::vector<Sequence> sent;
  int64_t width;
  Generation generation = 1;
  std::unique_ptr<Shard> shard;
};

/// The messages of one kind in an outbox.
template <class T>
std::vector<T> only(const Outbox& out) {
  std::vector<T> found;
  for (const auto& e : out)
    if (const T* body = std::get_if<T>(&e.body)) found.push_back(*body);
  return found;
}

inline float first_value(const PullReply& reply) { return reply.values.at(0).data<float>()[0]; }

}  // namespace troupe::ps::test
