#pragma once
#include <troupe/kernels/base/random.h>
#include <troupe/ps/param/layout.h>

#include <tests/support/message_fields.h>

/// Envelopes that a peer could send, of every kind, with every field filled: for tests of whatever carries them.
/// The same seed gives the same envelopes.
namespace troupe::ps::test {

class RandomMessages {
 public:
  explicit RandomMessages(uint64_t seed) : random_(seed) {}

  static constexpr size_t kKinds = std::variant_size_v<Message>;

  /// `kind`: index into Message.
  Envelope next(size_t kind) {
    Envelope out;
    fill(out.from);
    fill(out.to);
    fill(out.generation);
    [&]<size_t... i>(std::index_sequence<i...>) { ((i == kind ? fill(out.body.emplace<i>()) : void()), ...); }
    (std::make_index_sequence<kKinds>());
    return out;
  }
  Envelope next() { return next(random_.below(kKinds)); }
  Random& random() { return random_; }

 private:
  void fill(bool& x) { x = random_.chance(0.5); }
  void fill(uint32_t& x) { x = random_.chance(0.1) ? 0xffffffffu : random_.bits32() >> random_.below(32); }
  void fill(uint64_t& x) { x = random_.chance(0.1) ? ~uint64_t{0} : random_.bits64() >> random_.below(64); }
  // Every signed number of the protocol is a step or a count, and either may be so large.
  void fill(int64_t& x) { x = static_cast<int64_t>(random_.bits64() >> (16 + random_.below(48))); }
  void fill(double& x) { x = random_.normal() * 1e3; }
  void fill(Role& x) { x = static_cast<Role>(random_.below(6)); }
  void fill(Mode& x) { x = static_cast<Mode>(random_.below(4)); }
  void fill(ParamKind& x) { x = static_cast<ParamKind>(random_.below(3)); }
  void fill(Activation::Kind& x) { x = static_cast<Activation::Kind>(random_.below(3)); }
  void fill(Work::Kind& x) { x = static_cast<Work::Kind>(random_.below(3)); }
  void fill(Refused::Reason& x) { x = static_cast<Refused::Reason>(random_.below(3)); }
  void fill(std::string& x) {
    x.resize(random_.below(20));
    for (char& c : x) c = static_cast<char>(random_.below(256));
  }
  void fill(Shape& x) {
    std::array<int64_t, Shape::kMaxDims> dims{};
    for (auto& n : dims) n = static_cast<int64_t>(random_.below(5));
    x = Shape(std::span<const int64_t>(dims.data(), random_.below(dims.size() + 1)));
  }
  void fill(Tensor& x) {
    Shape shape;
    fill(shape);
    x = floats(shape);
  }
  template <class T>
  void fill(std::vector<T>& x) {
    x.resize(random_.below(4));
    for (T& element : x) fill(element);
  }
  template <class T>
  void fill(std::optional<T>& x) {
    if (random_.chance(0.5)) fill(x.emplace());
  }
  template <class T>
  void fill(std::shared_ptr<const T>& x) {
    if (random_.chance(0.2)) return;
    auto made = std::make_shared<T>();
    fill(*made);
    x = std::move(made);
  }
  template <class T>
  void fill(T& x) {
    std::apply([&](auto&... field) { (fill(field), ...); }, fields_of(x));
  }

  // What has rules between its fields.
  void fill(SliceState& x) {
    fill(x.slice);
    fill(x.updates);
    fill(x.values);
    x.state.resize(random_.below(3));
    for (Tensor& state : x.state) state = floats(x.values.shape());
  }
  void fill(PullReply& x) {
    fill(x.parcel);
    fill(x.step);
    fill(x.ticket);
    fill(x.values);
    fill(x.lag);
    if (random_.chance(0.5)) x.state.resize(x.values.size());
    for (SliceState& state : x.state) fill(state);
  }
  // Gradients may be of rows, whose numbers are no floats.
  void fill(Push& x) { fill_but_rows(x), fill_rows(x.rows); }
  void fill(Pull& x) { fill_but_rows(x), fill_rows(x.rows); }
  void fill(ShardImage::Parcel::Part& x) { fill_but_rows(x), fill_rows(x.rows); }
  template <class T>
  void fill_but_rows(T& x) {
    std::apply([&](auto&... field) { (fill_unless(static_cast<const void*>(&field) == &x.rows, field), ...); },
               fields_of(x));
  }
  template <class T>
  void fill_unless(bool skipped, T& field) {
    if (!skipped) fill(field);
  }
  void fill_rows(Tensor& x) {
    if (random_.chance(0.5)) return;
    std::vector<int32_t> rows(random_.below(5));
    for (int32_t& row : rows) row = static_cast<int32_t>(random_.bits32());
    x = Tensor::from<int32_t>(rows, {static_cast<int64_t>(rows.size())});
  }
  void fill(std::shared_ptr<const Layout>& x) {
    std::vector<LayerSpec> layers(1 + random_.below(4));
    std::vector<Policy> policies(layers.size());
    for (LayerSpec& layer : layers) fill(layer.name), fill_params(layer);
    for (Policy& policy : policies) fill(policy);
    const bool some_by_rows = random_.chance(0.3);
    if (some_by_rows) {
      layers[0] = {"table", 24, {{"table.weight", {8, 3}, 0}}, 3};
      policies[0].mode = Mode::async;
    }
    LayoutOptions options;
    options.servers = static_cast<uint32_t>(1 + random_.below(4));
    options.slice_bytes = 64 * static_cast<int64_t>(1 + random_.below(10));
    options.fuse_bytes = 64 * static_cast<int64_t>(random_.below(5));
    options.stages = some_by_rows ? 1 : static_cast<uint32_t>(1 + random_.below(3));
    if (options.stages > 1)
      for (size_t i = 0; i < layers.size(); ++i)
        options.stage_of.push_back(static_cast<uint32_t>(random_.below(options.stages)));
    x = std::make_shared<Layout>(make_layout(std::move(layers), std::move(policies), options));
  }
  void fill_params(LayerSpec& layer) {
    layer.params.resize(1 + random_.below(3));
    for (ParamSpec& param : layer.params) {
      fill(param);
      param.offset = layer.count;
      layer.count += param.shape.count();
    }
  }
  void fill(Membership& x) {
    fill(x.generation);
    fill(x.workers);
    fill(x.replicas);
    fill(x.rebase);
    fill(x.layout);
    x.servers.resize(x.layout->servers);
    for (Incarnation& incarnation : x.servers) fill(incarnation);
  }
  void fill(Replicate& x) {
    fill(x.index);
    if (x.index == 0 || random_.chance(0.3)) {
      x.index = 0;
      auto image = std::make_shared<ShardImage>();
      fill(*image);
      x.image = std::move(image);
      return;
    }
    Envelope event = next();
    while (std::holds_alternative<Replicate>(event.body)) event = next();
    x.event = std::make_shared<Envelope>(std::move(event));
  }

  // Any bits, NaNs among them.
  Tensor floats(const Shape& shape) {
    Tensor t = Tensor::empty(shape);
    for (size_t i = 0; i < t.bytes(); ++i) t.raw()[i] = static_cast<std::byte>(random_.below(256));
    return t;
  }

  Random random_;
};

}  // namespace troupe::ps::test
