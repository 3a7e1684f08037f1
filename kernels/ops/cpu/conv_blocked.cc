#include <troupe/kernels/ops/cpu/conv_blocked.h>

#include <algorithm>
#include <dnnl.hpp>
#include <tuple>
#include <unordered_map>
#include <vector>

#include <troupe/kernels/ops/cpu/image_blocks.h>
#include <troupe/kernels/ops/cpu/threads.h>

namespace troupe::ops::cpu {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

// An argument of a primitive: how the caller's tensor is laid out, how the primitive wants it, and what
// brings one into the other (nothing, when they are the same): our own code for blocks of channels, else oneDNN's.
struct Port {
  int arg = 0;
  memory::desc plain, blocked;
  ImageBlocks blocks;
  dnnl::primitive relay;
  size_t offset = 0;  // of the blocked copy in the stream's scratch memory

  bool relaid() const { return blocks.block > 0 || relay; }
};

// A convolution that is ready to run.
struct Plan {
  dnnl::primitive primitive;
  std::vector<Port> inputs, outputs;
  memory::desc workspace;
  size_t scratch_bytes = 0;
};

size_t aligned(size_t bytes) {
  return (bytes + Buffer::kAlignment - 1) / Buffer::kAlignment * Buffer::kAlignment;
}

// What `blocked` is of `plain`; block is 0 where it is something else.
ImageBlocks blocks_of(const memory::desc& plain, const memory::desc& blocked) {
  const memory::dims dims = plain.dims();
  for (const auto& [tag, block] : {std::pair(Tag::nChw16c, 16), std::pair(Tag::nChw8c, 8)})
    if (dims.size() == 4 && dims[1] % block == 0 && blocked == memory::desc(dims, memory::data_type::f32, tag))
      return {dims[0] * dims[1] / block, dims[2] * dims[3], block};
  return {};
}

void add_port(Plan& plan, bool input, int arg, const memory::desc& plain, const memory::desc& blocked,
              const dnnl::engine& engine) {
  Port port{arg, plain, blocked, {}, {}, plan.scratch_bytes};
  if (plain != blocked) {
    port.blocks = blocks_of(plain, blocked);
    if (port.blocks.block == 0)
      port.relay = dnnl::reorder(input ? dnnl::reorder::primitive_desc(engine, plain, engine, blocked)
                                       : dnnl::reorder::primitive_desc(engine, blocked, engine, plain));
    plan.scratch_bytes += aligned(blocked.get_size());
  }
  (input ? plan.inputs : plan.outputs).push_back(std::move(port));
}

enum class Kind { forward, input_gradient, weight_gradient };

struct Key {
  Kind kind;
  bool bias;
  Shape x, w, y;
  ConvGeometry geometry;
  bool operator==(const Key&) const = default;
};

struct KeyHash {
  size_t operator()(const Key& key) const {
    size_t h = static_cast<size_t>(key.kind) * 2 + key.bias;
    for (const Shape* shape : {&key.x, &key.w, &key.y})
      for (int64_t size : shape->span()) h = (h ^ static_cast<size_t>(size)) * 0x9E3779B97F4A7C15ull;
    return (h ^ static_cast<size_t>(key.geometry.stride * 64 + key.geometry.padding)) * 0x9E3779B97F4A7C15ull;
  }
};

// What a convolution is made from, in oneDNN's words: layouts of the caller and "any", which lets it choose.
struct Description {
  dnnl::algorithm algorithm;
  memory::dims strides, padding_before, padding_after;
  memory::desc x, w, y, bias, any_x, any_w, any_y;

  Description(const Key& key, dnnl::algorithm algorithm)
      : algorithm(algorithm),
        strides(2, key.geometry.stride),
        padding_before(2, key.geometry.padding),
        x(plain(key.x, Tag::nchw)),
        w(plain(key.w, Tag::oihw)),
        y(plain(key.y, Tag::nchw)),
        bias({key.w[0]}, memory::data_type::f32, Tag::x),
        any_x(plain(key.x, Tag::any)),
        any_w(plain(key.w, Tag::any)),
        any_y(plain(key.y, Tag::any)) {
    // What the last window does not reach is cut off, in oneDNN's words: negative padding.
    for (int i = 2; i < 4; ++i)
      padding_after.push_back((key.y[i] - 1) * key.geometry.stride + key.w[i] - key.x[i] -
                              key.geometry.padding);
  }

  static memory::desc plain(const Shape& shape, Tag tag) {
    return memory::desc(memory::dims(shape.span().begin(), shape.span().end()), memory::data_type::f32, tag);
  }
};

// Lavin and Gray 2015: with tiles of 4 x 4 outputs a 3 x 3 convolution takes 36 products in place of 144, but weights
// are spread to 36 values and images to 36/16 of theirs. That pays where many tiles share the weights, and few channels
// do not leave most of the work to the spreading; weight gradients, which are slower without, gain with fewer tiles.
bool worth_winograd(const Key& key) {
  constexpr int64_t kTile = 4, kFewestChannels = 32, kFewestTiles = 128, kFewestTilesOfWeightGradients = 32;
  if (key.w[2] != 3 || key.w[3] != 3 || key.geometry != ConvGeometry{.stride = 1, .padding = 1}) return false;
  const int64_t tiles = key.x[0] * ((key.x[2] + kTile - 1) / kTile) * ((key.x[3] + kTile - 1) / kTile);
  return std::min(key.w[0], key.w[1]) >= kFewestChannels &&
         tiles >= (key.kind == Kind::weight_gradient ? kFewestTilesOfWeightGradients : kFewestTiles);
}

dnnl::primitive_attr attributes() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

// oneDNN 2 (Debian 12) describes an operation before the primitive, oneDNN 3 (Ubuntu 24.04) both at once. `hint`: for
// gradients, the forward pass that they belong to.
template <class Convolution, class... How, class... Hint>
typename Convolution::primitive_desc describe(const dnnl::engine& engine, const std::tuple<How...>& how,
                                              const Hint&... hint) {
#if DNNL_VERSION_MAJOR >= 3
  const auto make = [&](const How&... terms) {
    return typename Convolution::primitive_desc(engine, terms..., hint..., attributes());
  };
#else
  const auto make = [&](const How&... terms) {
    return typename Convolution::primitive_desc({terms...}, attributes(), engine, hint...);
  };
#endif
  return std::apply(make, how);
}

dnnl::convolution_forward::primitive_desc forward_desc(const Description& d, bool bias, const dnnl::engine& engine) {
  using Forward = dnnl::convolution_forward;
  constexpr auto kind = dnnl::prop_kind::forward_training;
  return bias ? describe<Forward>(engine, std::tuple(kind, d.algorithm, d.any_x, d.any_w, d.bias, d.any_y, d.strides,
                                                     d.padding_before, d.padding_after))
              : describe<Forward>(engine, std::tuple(kind, d.algorithm, d.any_x, d.any_w, d.any_y, d.strides,
                                                     d.padding_before, d.padding_after));
}

Plan forward_plan(const Description& d, bool bias, const dnnl::engine& engine) {
  const auto desc = forward_desc(d, bias, engine);
  Plan plan{dnnl::convolution_forward(desc), {}, {}, desc.scratchpad_desc()};
  add_port(plan, true, DNNL_ARG_SRC, d.x, desc.src_desc(), engine);
  add_port(plan, true, DNNL_ARG_WEIGHTS, d.w, desc.weights_desc(), engine);
  if (bias) add_port(plan, true, DNNL_ARG_BIAS, d.bias, d.bias, engine);
  add_port(plan, false, DNNL_ARG_DST, d.y, desc.dst_desc(), engine);
  return plan;
}

Plan input_gradient_plan(const Description& d, const dnnl::engine& engine) {
  using Backward = dnnl::convolution_backward_data;
  const auto desc = describe<Backward>(
      engine, std::tuple(d.algorithm, d.any_x, d.any_w, d.any_y, d.strides, d.padding_before, d.padding_after),
      forward_desc(d, false, engine));
  Plan plan{Backward(desc), {}, {}, desc.scratchpad_desc()};
  add_port(plan, true, DNNL_ARG_DIFF_DST, d.y, desc.diff_dst_desc(), engine);
  add_port(plan, true, DNNL_ARG_WEIGHTS, d.w, desc.weights_desc(), engine);
  add_port(plan, false, DNNL_ARG_DIFF_SRC, d.x, desc.diff_src_desc(), engine);
  return plan;
}

Plan weight_gradient_plan(const Description& d, bool bias, const dnnl::engine& engine) {
  using Backward = dnnl::convolution_backward_weights;
  const auto forward = forward_desc(d, bias, engine);
  const auto desc =
      bias ? describe<Backward>(engine, std::tuple(d.algorithm, d.any_x, d.any_w, d.bias, d.any_y, d.strides,
                                                   d.padding_before, d.padding_after), forward)
           : describe<Backward>(engine, std::tuple(d.algorithm, d.any_x, d.any_w, d.any_y, d.strides,
                                                   d.padding_before, d.padding_after), forward);
  Plan plan{Backward(desc), {}, {}, desc.scratchpad_desc()};
  add_port(plan, true, DNNL_ARG_SRC, d.x, desc.src_desc(), engine);
  add_port(plan, true, DNNL_ARG_DIFF_DST, d.y, desc.diff_dst_desc(), engine);
  add_port(plan, false, DNNL_ARG_DIFF_WEIGHTS, d.w, desc.diff_weights_desc(), engine);
  if (bias) add_port(plan, false, DNNL_ARG_DIFF_BIAS, d.bias, d.bias, engine);
  return plan;
}

class OneDnn final : public StreamState {
 public:
  // Made for the stream's number of threads, which UseThreads must have set: plans depend on it.
  static OneDnn& of(Stream& stream) {
    if (!stream.state()) stream.state() = std::make_unique<OneDnn>();
    return static_cast<OneDnn&>(*stream.state());
  }

  const Plan& plan(const Key& key) {
    const auto found = plans_.find(key);
    if (found != plans_.end()) return found->second;
    // A caller whose shapes never repeat gains nothing from old plans and must not fill the memory with them.
    if (plans_.size() >= kMostPlans) plans_.clear();
    return plans_.emplace(key, make(key)).first->second;
  }

  // `from` and `to` are the callers' tensors in the order of the plan's ports.
  void run(Stream& stream, const Plan& plan, std::initializer_list<const float*> from,
           std::initializer_list<float*> to) {
    std::byte* const scratch = stream.scratch(plan.scratch_bytes + plan.workspace.get_size());
    std::unordered_map<int, memory> args;
    const auto outer = [&](const Port& port, const float* data) {
      return memory(port.plain, engine_, const_cast<float*>(data));
    };
    const auto inner = [&](const Port& port) { return memory(port.blocked, engine_, scratch + port.offset); };
    auto input = from.begin();
    for (const Port& port : plan.inputs) {
      const float* const data = *input++;
      memory given = outer(port, data);
      args[port.arg] = port.relaid() ? inner(port) : given;
      if (port.blocks.block > 0)
        to_blocks(stream, port.blocks, data, reinterpret_cast<float*>(scratch + port.offset));
      else if (port.relay)
        port.relay.execute(queue_, {{DNNL_ARG_FROM, given}, {DNNL_ARG_TO, args[port.arg]}});
    }
    auto output = to.begin();
    for (const Port& port : plan.outputs) {
      float* const wanted = *output++;
      args[port.arg] = port.relaid() ? inner(port) : outer(port, wanted);
    }
    args[DNNL_ARG_SCRATCHPAD] = memory(plan.workspace, engine_, scratch + plan.scratch_bytes);
    plan.primitive.execute(queue_, args);
    output = to.begin();
    for (const Port& port : plan.outputs) {
      float* const data = *output++;
      memory wanted = outer(port, data);
      if (port.blocks.block > 0)
        from_blocks(stream, port.blocks, reinterpret_cast<const float*>(scratch + port.offset), data);
      else if (port.relay)
        port.relay.execute(queue_, {{DNNL_ARG_FROM, args[port.arg]}, {DNNL_ARG_TO, wanted}});
    }
    queue_.wait();
  }

 private:
  static constexpr size_t kMostPlans = 256;

  // oneDNN 2.6 has Winograd's algorithm for AVX-512 alone.
  Plan make(const Key& key) {
    if (worth_winograd(key)) try {
        return make(key, dnnl::algorithm::convolution_winograd);
      } catch (const dnnl::error& e) {
        if (e.status != dnnl_unimplemented) throw;
      }
    return make(key, dnnl::algorithm::convolution_direct);
  }

  Plan make(const Key& key, dnnl::algorithm algorithm) {
    const Description d(key, algorithm);
    switch (key.kind) {
      case Kind::forward:
        return forward_plan(d, key.bias, engine_);
      case Kind::input_gradient:
        return input_gradient_plan(d, engine_);
      case Kind::weight_gradient:
        break;
    }
    return weight_gradient_plan(d, key.bias, engine_);
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream queue_{engine_};
  std::unordered_map<Key, Plan, KeyHash> plans_;
};

}  // namespace

void blocked_conv(Stream& stream, const Tensor& x, const Tensor& w, const float* bias, ConvGeometry g,
                  Tensor& y) {
  const UseThreads threads(stream);
  OneDnn& dnn = OneDnn::of(stream);
  const Plan& plan = dnn.plan({Kind::forward, bias != nullptr, x.shape(), w.shape(), y.shape(), g});
  dnn.run(stream, plan, {x.data<float>(), w.data<float>(), bias}, {y.data<float>()});
}

void blocked_conv_input_gradient(Stream& stream, const Tensor& dy, const Tensor& w, ConvGeometry g,
                                 Tensor& dx) {
  const UseThreads threads(stream);
  OneDnn& dnn = OneDnn::of(stream);
  const Plan& plan = dnn.plan({Kind::input_gradient, false, dx.shape(), w.shape(), dy.shape(), g});
  dnn.run(stream, plan, {dy.data<float>(), w.data<float>()}, {dx.data<float>()});
}

void blocked_conv_weight_gradient(Stream& stream, const Tensor& x, const Tensor& dy, const Shape& w,
                                  ConvGeometry g, float* dw, float* dbias) {
  const UseThreads threads(stream);
  OneDnn& dnn = OneDnn::of(stream);
  const Plan& plan = dnn.plan({Kind::weight_gradient, dbias != nullptr, x.shape(), w, dy.shape(), g});
  dnn.run(stream, plan, {x.data<float>(), dy.data<float>()}, {dw, dbias});
}

}  // namespace troupe::ops::cpu
