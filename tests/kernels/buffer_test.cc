#include <boost/test/unit_test.hpp>
#include <sanitizer/asan_interface.h>

#include <cstdint>
#include <limits>
#include <new>
#include <vector>

#include <troupe/kernels/tensor/buffer.h>

using namespace troupe;

namespace {

// The cache is the process's: a test leaves it as it was.
struct EmptyCache {
  EmptyCache() { set_buffer_cache_limit(0), set_buffer_cache_limit(size_t{1} << 20); }
  ~EmptyCache() { set_buffer_cache_limit(0), set_buffer_cache_limit(size_t{256} << 20); }
  BufferStats before = buffer_stats();
};

/// AddressSanitizer ends a program that asks for more than there is, where `new` should throw.
boost::test_tools::assertion_result new_throws(boost::unit_test::test_unit_id) {
#ifdef __SANITIZE_ADDRESS__
  boost::test_tools::assertion_result no(false);
  no.message() << "AddressSanitizer ends a program that asks for too much memory";
  return no;
#else
  return true;
#endif
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(buffer, EmptyCache)

BOOST_AUTO_TEST_CASE(EverySizeIsAlignedAndItsOwn) {
  std::vector<BufferPtr> held;
  for (size_t bytes = 0; bytes < 5000; bytes += 7) {
    held.push_back(allocate(bytes));
    BOOST_REQUIRE(held.back()->bytes() == bytes);
    BOOST_REQUIRE(reinterpret_cast<uintptr_t>(held.back()->data()) % Buffer::kAlignment == 0);
    std::fill_n(held.back()->data(), bytes, static_cast<std::byte>(held.size()));
  }
  for (size_t i = 0; i < held.size(); ++i)
    for (size_t at = 0; at < held[i]->bytes(); ++at)
      BOOST_REQUIRE(held[i]->data()[at] == static_cast<std::byte>(i + 1));
}

BOOST_AUTO_TEST_CASE(AFreedBlockServesTheNextRequestOfItsSize) {
  const std::byte* const first = allocate(100'000)->data();
  BOOST_TEST(buffer_stats().cached_bytes >= 100'000u);
  const BufferPtr second = allocate(99'000);
  BOOST_TEST(second->data() == first);
  BOOST_TEST(buffer_stats().cached_bytes == before.cached_bytes);
}

BOOST_AUTO_TEST_CASE(TheCacheKeepsNoMoreThanItsLimit) {
  std::vector<BufferPtr> held;
  for (int i = 0; i < 4; ++i) held.push_back(allocate(400'000));
  held.clear();
  BOOST_TEST(buffer_stats().cached_bytes <= size_t{1} << 20);
  BOOST_TEST(buffer_stats().cached_bytes > 0u);
  BOOST_TEST(buffer_stats().used_bytes == before.used_bytes);
}

BOOST_AUTO_TEST_CASE(MemoryThatIsNotThereIsNotCounted, *boost::unit_test::precondition(new_throws)) {
  for (const size_t bytes : {std::numeric_limits<size_t>::max(), std::numeric_limits<size_t>::max() / 4})
    BOOST_CHECK_THROW(allocate(bytes), std::bad_alloc);
  BOOST_TEST(buffer_stats().used_bytes == before.used_bytes);
}

#ifdef __SANITIZE_ADDRESS__
BOOST_AUTO_TEST_CASE(AddressSanitizerKnowsWhatOfTheCacheIsNobodys) {
  BufferPtr buffer = allocate(1100);
  std::byte* const data = buffer->data();
  BOOST_TEST(!__asan_address_is_poisoned(data + 1099));
  BOOST_TEST(__asan_address_is_poisoned(data + 1100));
  buffer.reset();
  BOOST_TEST(__asan_address_is_poisoned(data));
}
#endif

BOOST_AUTO_TEST_SUITE_END()
