#include <boost/test/unit_test.hpp>

#include <set>

#include <troupe/kernels/tensor/internal/block_cache.h>

using namespace troupe;

namespace {

class CountingBlocks final : public BlockSource {
 public:
  std::byte* take(size_t bytes) override {
    if (room < bytes) return nullptr;
    room -= bytes;
    auto* block = new std::byte[bytes];
    blocks[block] = bytes;
    return block;
  }
  void give(std::byte* block) override {
    room += blocks.at(block);
    blocks.erase(block);
    delete[] block;
  }
  Device device() const override { return {DeviceKind::cuda, 3}; }
  std::string state() const override { return "counted"; }

  size_t room = 1 << 20;
  std::map<std::byte*, size_t> blocks;
};

struct Fixture {
  std::shared_ptr<CountingBlocks> source = std::make_shared<CountingBlocks>();
  std::shared_ptr<BlockCache> cache = std::make_shared<BlockCache>(source);
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(block_cache, Fixture)

BOOST_AUTO_TEST_CASE(AFreedBlockServesWhoAsksForAsMuchNext) {
  BufferPtr first = cache->allocate(5000);
  const std::byte* data = first->data();
  BOOST_TEST((first->device() == Device{DeviceKind::cuda, 3}));
  BOOST_TEST(first->bytes() == 5000);
  first.reset();
  BOOST_TEST(cache->allocate(4900)->data() == data);
  BOOST_TEST(source->blocks.size() == 1);
}

BOOST_AUTO_TEST_CASE(BlocksInUseAreDifferentOnes) {
  std::vector<BufferPtr> held;
  std::set<const std::byte*> seen;
  for (int i = 0; i < 20; ++i) {
    held.push_back(cache->allocate(1000));
    seen.insert(held.back()->data());
  }
  BOOST_TEST(seen.size() == 20);
}

BOOST_AUTO_TEST_CASE(AFifthAtMostIsSlack) {
  for (size_t bytes : {513, 4097, 5000, 65537, 1000000, 123456789}) {
    BOOST_TEST(BlockCache::size_class(bytes) >= bytes);
    BOOST_TEST(BlockCache::size_class(bytes) * 4 <= bytes * 5 + 4 * 512);
  }
}

BOOST_AUTO_TEST_CASE(FreeBlocksGoBackWhereTheSourceHasNoRoom) {
  source->room = 10000;
  cache->allocate(4096).reset();
  cache->allocate(5120).reset();
  BOOST_TEST(source->room < 1000);
  const BufferPtr large = cache->allocate(8192);
  BOOST_TEST_REQUIRE((large != nullptr));
  BOOST_TEST(source->blocks.size() == 1);
}

BOOST_AUTO_TEST_CASE(NoRoomAtAllIsNoBuffer) {
  const BufferPtr held = cache->allocate(1000);
  BOOST_TEST((cache->allocate(2 << 20) == nullptr));
  BOOST_TEST((cache->allocate(std::numeric_limits<size_t>::max()) == nullptr));
  BOOST_TEST(cache->held_bytes() == BlockCache::size_class(1000));
}

BOOST_AUTO_TEST_CASE(ABufferOutlivesWhoMadeItsCache) {
  BufferPtr held = cache->allocate(1000);
  cache.reset();
  held->data()[999] = std::byte{1};
  BOOST_TEST(source->blocks.size() == 1);
  held.reset();
  BOOST_TEST(source->blocks.empty());
}

BOOST_AUTO_TEST_SUITE_END()
