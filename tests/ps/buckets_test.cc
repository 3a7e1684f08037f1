#include <boost/test/unit_test.hpp>

#include <troupe/ps/param/buckets.h>

using namespace troupe;
using namespace troupe::ps;

namespace {

constexpr int64_t kBytes = 64;  // of a layer of 16 elements
const Policy kSync{Mode::sync}, kReduced{Mode::all_reduce};

/// Layers of 16 elements, but for those that `counts` says.
std::string buckets(std::vector<Policy> policies, std::vector<size_t> order, int64_t bytes,
                    std::vector<int64_t> counts = {}) {
  counts.resize(policies.size(), 16);
  std::vector<LayerSpec> layers;
  for (const int64_t count : counts) layers.push_back({"fc", count, {{"fc.weight", {count}, 0}}});
  std::string text;
  for (const auto& bucket : make_buckets(make_layout(layers, std::move(policies), {}), order, bytes)) {
    text += '{';
    for (const LayerId layer : bucket) text += cat(layer, ' ');
    text.back() = '}';
  }
  return text;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(buckets_of_layers)

BOOST_AUTO_TEST_CASE(LayersFillABucketInTheOrderOfTheirGradients) {
  BOOST_TEST(buckets({kReduced, kReduced, kReduced}, {2, 0, 1}, 2 * kBytes) == "{2 0}{1}");
}

BOOST_AUTO_TEST_CASE(ALargeLayerIsABucketOfItsOwn) {
  BOOST_TEST(buckets({kReduced, kReduced, kReduced}, {2, 1, 0}, 2 * kBytes, {16, 160, 16}) == "{2}{1}{0}");
}

BOOST_AUTO_TEST_CASE(LayersOfOtherModesAreInNone) {
  BOOST_TEST(buckets({kReduced, kSync, kReduced}, {2, 1, 0}, 8 * kBytes) == "{2 0}");
  BOOST_TEST(buckets({kSync, kSync}, {1, 0}, kBytes) == "");
}

BOOST_AUTO_TEST_CASE(TheSmallestBucketHoldsOneLayer) {
  BOOST_TEST(buckets({kReduced, kReduced}, {1, 0}, 1) == "{1}{0}");
}

BOOST_AUTO_TEST_SUITE_END()
