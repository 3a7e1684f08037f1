#pragma once
#include <boost/test/unit_test.hpp>

#include <memory>
#include <string>
#include <vector>

#include <troupe/ps/checkpoint/checkpoint_store.h>

#include <tests/support/memory_disk.h>

namespace troupe::test {

/// A small model, cut over servers in any way, whose every number says where and when it belongs.
struct CheckpointFixture {
  std::shared_ptr<MemoryDisk> disk = std::make_shared<MemoryDisk>();
  std::string folder = "run/checkpoints";
  std::vector<std::string> state_names{"m", "v"};

  static std::vector<LayerSpec> layers() {
    using enum ParamKind;
    return {{"fc1", 48, {{"fc1.weight", {8, 5}, 0, weight}, {"fc1.bias", {8}, 40, bias}}},
            {"norm", 24, {{"norm.scale", {8}, 0, bias}, {"norm.mean", {16}, 8, statistic}}},
            {"a_last", 33, {{"a_last.weight", {3, 10}, 0, weight}, {"a_last.bias", {3}, 30, bias}}}};
  }

  static ps::Layout layout(uint32_t servers, int64_t slice_count) {
    ps::Layout out;
    out.layers = layers();
    out.servers = servers;
    for (ps::LayerId layer = 0; layer < out.layers.size(); ++layer)
      for (int64_t begin = 0; begin < out.layers[layer].count; begin += slice_count) {
        const auto id = static_cast<ps::SliceId>(out.slices.size());
        out.slices.push_back(
            {id, layer, begin, std::min(begin + slice_count, out.layers[layer].count), id % servers});
      }
    return out;
  }

  /// vector -1: the parameters.
  static float number(ps::Step step, ps::LayerId layer, int64_t element, int vector) {
    return static_cast<float>(step) + 0.25f * static_cast<float>(element) - 100 * static_cast<float>(layer) +
           1000 * static_cast<float>(vector);
  }
  static Tensor numbers(const ps::Slice& s, ps::Step step, int vector) {
    Tensor t = Tensor::empty({s.count()});
    for (int64_t i = 0; i < s.count(); ++i) t.data<float>()[i] = number(step, s.layer, s.begin + i, vector);
    return t;
  }

  std::vector<ps::SliceState> slices(const ps::Layout& layout, ps::Step step) const {
    std::vector<ps::SliceState> out;
    for (const ps::Slice& s : layout.slices) {
      ps::SliceState state{s.id, numbers(s, step, -1), {}, step};
      for (size_t v = 0; v < state_names.size(); ++v)
        state.state.push_back(numbers(s, step, static_cast<int>(v)));
      out.push_back(std::move(state));
    }
    return out;
  }

  ps::CheckpointStore store(int64_t keep = 3) const { return {disk, {folder, keep}}; }

  Result<ps::CheckpointStore::Saved> try_save(ps::Step step, int64_t keep = 3, uint32_t servers = 2) const {
    const ps::Layout l = layout(servers, 16);
    const auto states = slices(l, step);
    return store(keep).save({l,
                             states,
                             step,
                             {.train_samples = 100, .begin = step % 100, .step = step},
                             "adam",
                             state_names,
                             {{"loss", 0.1}}});
  }
  ps::CheckpointStore::Saved save(ps::Step step, int64_t keep = 3, uint32_t servers = 2) const {
    const auto saved = try_save(step, keep, servers);
    BOOST_REQUIRE_MESSAGE(saved.has_value(), (saved ? "" : saved.error().message));
    BOOST_TEST(saved->warning == "");
    return *saved;
  }

  ps::CheckpointSearch newest() const {
    auto search = store().newest_valid();
    BOOST_REQUIRE_MESSAGE(search.has_value(), (search ? "" : search.error().message));
    return std::move(*search);
  }
  /// Step of the newest valid checkpoint, all of whose numbers are right; -1: none.
  ps::Step newest_step() const {
    const auto search = newest();
    if (!search.newest) return -1;
    const ps::Step step = search.newest->manifest().step;
    BOOST_TEST(holds(*search.newest, layout(1, 64), step));
    return step;
  }

  bool holds(const ps::Checkpoint& c, const ps::Layout& l, ps::Step step) const {
    for (const ps::Slice& s : l.slices) {
      const auto state = c.slice(s);
      if (!state || state->slice != s.id || state->updates != step ||
          state->state.size() != state_names.size())
        return false;
      for (int v = -1; v < static_cast<int>(state_names.size()); ++v) {
        const Tensor& t = v < 0 ? state->values : state->state[static_cast<size_t>(v)];
        if (std::memcmp(t.raw(), numbers(s, step, v).raw(), t.bytes()) != 0) return false;
      }
    }
    return true;
  }

  std::vector<std::string> names() const {
    const auto names = disk->list(folder);
    return names ? *names : std::vector<std::string>{};
  }
  bool rubbish() const {
    const auto all = names();
    return std::any_of(all.begin(), all.end(),
                       [](const std::string& name) { return name.ends_with(".tmp"); });
  }
};

inline const std::vector<std::string> kCheckpointFiles{"parameters.safetensors", "optimizer.safetensors",
                                                       "manifest.json"};

}  // namespace troupe::test
