#include <boost/test/unit_test.hpp>

#include <troupe/ps/param/layout.h>

using namespace troupe;
using namespace troupe::ps;

BOOST_AUTO_TEST_SUITE(layout)

namespace {

std::vector<LayerSpec> layers_of(std::vector<int64_t> counts) {
  std::vector<LayerSpec> layers;
  for (size_t i = 0; i < counts.size(); ++i) {
    const std::string name = "layer" + std::to_string(i);
    layers.push_back({name, counts[i], {{name + ".weight", Shape{counts[i]}, 0, ParamKind::weight}}});
  }
  return layers;
}

std::vector<Policy> all(size_t n, Policy policy = {}) { return std::vector<Policy>(n, policy); }

// Parameters (weights and bias) of each layer of two real models.
const std::vector<int64_t> kMlp = {784 * 512 + 512, 512 * 256 + 256, 256 * 10 + 10};
const std::vector<int64_t> kResnet18 = {
    9408,   128, 36864,   128,  36864,   128,  36864,  128,  36864,   128,  73728,   256,  147456, 256,
    8192,   256, 147456,  256,  147456,  256,  294912, 512,  589824,  512,  32768,   512,  589824, 512,
    589824, 512, 1179648, 1024, 2359296, 1024, 131072, 1024, 2359296, 1024, 2359296, 1024, 513000};

void check_cover(const Layout& layout) {
  size_t next = 0;
  for (LayerId layer = 0; layer < layout.layers.size(); ++layer) {
    int64_t at = 0;
    for (; next < layout.slices.size() && layout.slices[next].layer == layer; ++next) {
      const Slice& slice = layout.slices[next];
      BOOST_TEST(slice.id == next);
      BOOST_TEST(slice.begin == at);
      BOOST_TEST(slice.begin % 16 == 0);
      BOOST_TEST(slice.count() > 0);
      BOOST_TEST(slice.server < layout.servers);
      at = slice.end;
    }
    BOOST_TEST(at == layout.layers[layer].count);
  }
  BOOST_TEST(next == layout.slices.size());
  std::vector<int> seen(layout.slices.size(), 0);
  for (const Parcel& parcel : layout.parcels) {
    BOOST_TEST(!parcel.slices.empty());
    BOOST_TEST(std::ranges::is_sorted(parcel.slices));
    BOOST_TEST(parcel.priority == layout.slices[parcel.slices[0]].layer);
    for (SliceId slice : parcel.slices) {
      ++seen[slice];
      BOOST_TEST(layout.slices[slice].server == parcel.server);
      BOOST_TEST((layout.policies[layout.slices[slice].layer] == parcel.policy));
    }
  }
  for (int times : seen) BOOST_TEST(times == 1);
}

}  // namespace

BOOST_AUTO_TEST_CASE(SlicesCoverEveryLayerOnceAtAlignedBoundaries) {
  const std::vector<int64_t> awkward = {1, 15, 16, 17, 1000003};
  for (uint32_t servers : {1u, 2u, 3u, 7u})
    for (const auto& counts : {kMlp, kResnet18, awkward})
      for (int64_t slice_bytes : {int64_t{20000}, int64_t{1} << 20})
        check_cover(make_layout(layers_of(counts), all(counts.size()), {servers, slice_bytes, 512, false}));
}

BOOST_AUTO_TEST_CASE(BytesAreBalancedOverTheServers) {
  for (uint32_t servers : {1u, 2u, 3u, 4u, 8u})
    for (const auto& counts : {kMlp, kResnet18}) {
      const Layout layout = make_layout(layers_of(counts), all(counts.size()), {servers});
      BOOST_TEST(imbalance(layout) <= 1.2, servers << " servers: " << imbalance(layout));
    }
}

BOOST_AUTO_TEST_CASE(LayersAreNotCutForOneServer) {
  const Layout layout = make_layout(layers_of({1000, 200000}), all(2), {.servers = 1, .slice_bytes = 4096});
  BOOST_TEST(layout.slices.size() == 2u);
}

BOOST_AUTO_TEST_CASE(WholeLayersAreNeverCut) {
  LayoutOptions options{4};
  options.whole_layers = true;
  const Layout layout = make_layout(layers_of(kResnet18), all(kResnet18.size()), options);
  BOOST_TEST(layout.slices.size() == kResnet18.size());
}

BOOST_AUTO_TEST_CASE(MoreServersThanSlicesIsLegal) {
  const Layout layout = make_layout(layers_of({100, 50}), all(2), {7});
  check_cover(layout);
  BOOST_TEST(bytes_by_server(layout).size() == 7u);
  BOOST_TEST(layout.slices[0].server != layout.slices[1].server);
}

BOOST_AUTO_TEST_CASE(TheSameInputGivesTheSameLayout) {
  const Layout a = make_layout(layers_of(kResnet18), all(kResnet18.size()), {3});
  const Layout b = make_layout(layers_of(kResnet18), all(kResnet18.size()), {3});
  BOOST_TEST((a.slices == b.slices));
  BOOST_REQUIRE(a.parcels.size() == b.parcels.size());
  for (size_t i = 0; i < a.parcels.size(); ++i) BOOST_TEST((a.parcels[i].slices == b.parcels[i].slices));
}

BOOST_AUTO_TEST_CASE(APolicyChangeMovesNoSlice) {
  auto mixed = all(kResnet18.size());
  for (size_t i = 0; i < mixed.size(); ++i) mixed[i] = {i % 2 ? Mode::async : Mode::ssp, i % 2 ? 0 : 2};
  const Layout a = make_layout(layers_of(kResnet18), all(kResnet18.size()), {3});
  const Layout b = make_layout(layers_of(kResnet18), mixed, {3});
  BOOST_TEST((a.slices == b.slices));
  check_cover(b);
}

BOOST_AUTO_TEST_CASE(SmallSlicesOfOnePolicyAndServerAreFusedUpToTheLimit) {
  const std::vector<int64_t> counts(40, 1000);  // 4000 bytes each
  LayoutOptions options{1};
  options.fuse_bytes = 16000;
  const Layout layout = make_layout(layers_of(counts), all(40), options);
  BOOST_TEST(layout.parcels.size() == 10u);
  for (const Parcel& parcel : layout.parcels) BOOST_TEST(parcel.slices.size() == 4u);
}

BOOST_AUTO_TEST_CASE(AServerInAnotherProcessGetsALargeLayerInSlices) {
  LayoutOptions options{.servers = 1, .slice_bytes = 4000};
  BOOST_TEST(make_layout(layers_of({4000}), all(1), options).slices.size() == 1u);
  options.spread = true;
  const Layout spread = make_layout(layers_of({4000}), all(1), options);
  BOOST_TEST(spread.slices.size() == 5u);
  check_cover(spread);
  options.whole_layers = true;
  BOOST_TEST(make_layout(layers_of({4000}), all(1), options).slices.size() == 1u);
}

BOOST_AUTO_TEST_CASE(SlicesOfDifferentStalenessTravelApart) {
  const Layout layout = make_layout(layers_of({100, 100, 100}), {{Mode::ssp, 1}, {Mode::ssp, 2}, {Mode::ssp, 1}}, {1});
  BOOST_REQUIRE(layout.parcels.size() == 2u);
  BOOST_TEST((layout.parcels[0].slices == std::vector<SliceId>{0, 2}));
  BOOST_TEST((layout.parcels[1].slices == std::vector<SliceId>{1}));
}

BOOST_AUTO_TEST_CASE(LockstepIsAQuestionOfAnyLayer) {
  BOOST_TEST(!make_layout(layers_of({8, 8}), {{Mode::ssp, 1}, {Mode::async, 0}}, {1}).lockstep());
  BOOST_TEST(make_layout(layers_of({8, 8}), {{Mode::ssp, 1}, {Mode::sync, 0}}, {1}).lockstep());
  BOOST_TEST(make_layout(layers_of({8, 8}), {{Mode::ssp, 1}, {Mode::all_reduce, 0}}, {1}).lockstep());
}

BOOST_AUTO_TEST_CASE(AParcelHoldsLayersOfOneStage) {
  LayoutOptions options{.servers = 1, .fuse_bytes = 1 << 20};
  options.stages = 3;
  options.stage_of = {0, 0, 1, 2, 2, 1};  // as a V lays them out
  const Layout layout = make_layout(layers_of({100, 50, 30, 20, 10, 40}), all(6), options);
  check_cover(layout);
  BOOST_TEST(layout.parcels.size() == 3u);
  for (const Parcel& parcel : layout.parcels)
    for (SliceId slice : parcel.slices)
      BOOST_TEST(layout.stage_of_layer(layout.slices[slice].layer) == layout.stage_of_parcel(parcel));
  // Workers 1 and 4 are stage 1 of two replicas.
  for (const Parcel& parcel : layout.parcels)
    for (WorkerId w = 0; w < 6; ++w)
      BOOST_TEST(layout.contributes(w, parcel) == (w % 3 == layout.stage_of_parcel(parcel)));
}

BOOST_AUTO_TEST_CASE(ALayerByRowsIsCutBetweenRowsOnceForEachServerAndNeverFused) {
  std::vector<LayerSpec> layers = layers_of({1000 * 12, 8, 8});
  layers[0] = {"table", 1000 * 12, {{"table.weight", {1000, 12}, 0}}, 12};
  layers[1] = {"small", 8, {{"small.weight", {4, 2}, 0}}, 2};
  const Layout layout = make_layout(layers, all(3), {.servers = 3, .slice_bytes = 1024, .fuse_bytes = 1024});
  check_cover(layout);
  int64_t pieces = 0;
  for (const Slice& slice : layout.slices) {
    pieces += slice.layer == 0;
    if (const int64_t width = layout.layers[slice.layer].row_width; width > 0) {
      BOOST_TEST(slice.begin % width == 0);
      BOOST_TEST(slice.end % width == 0);
    }
  }
  BOOST_TEST(pieces == 3);
  for (const Parcel& parcel : layout.parcels) BOOST_TEST(parcel.slices.size() == 1u);
  const Layout whole = make_layout(layers, all(3), {.servers = 1, .fuse_bytes = 1024});
  BOOST_TEST(whole.parcels.size() == 3u);
}

BOOST_AUTO_TEST_SUITE_END()
