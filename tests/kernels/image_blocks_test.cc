#include <boost/test/unit_test.hpp>

#include <numeric>
#include <vector>

#include <troupe/kernels/ops/cpu/image_blocks.h>

using namespace troupe;
using ops::cpu::ImageBlocks;

BOOST_AUTO_TEST_SUITE(image_blocks)

BOOST_AUTO_TEST_CASE(ChannelsOfAPixelLieTogetherAndComeBack) {
  for (const int threads : {1, 2})
    for (const int64_t block : {8, 16})
      for (const int64_t pixels : {1, 7, 49, 196}) {
        Stream stream({}, threads);
        const ImageBlocks blocks{60, pixels, block};
        const auto count = static_cast<size_t>(blocks.outer * pixels * block);
        std::vector<float> plain(count), blocked(count), back(count);
        std::iota(plain.begin(), plain.end(), 0.f);
        ops::cpu::to_blocks(stream, blocks, plain.data(), blocked.data());
        bool right = true;
        for (int64_t o = 0; o < blocks.outer; ++o)
          for (int64_t c = 0; c < block; ++c)
            for (int64_t p = 0; p < pixels; ++p)
              right = right && blocked[static_cast<size_t>((o * pixels + p) * block + c)] ==
                                   plain[static_cast<size_t>((o * block + c) * pixels + p)];
        BOOST_TEST(right, block << " channels of " << pixels << " pixels");
        ops::cpu::from_blocks(stream, blocks, blocked.data(), back.data());
        BOOST_TEST((back == plain), block << " channels of " << pixels << " pixels");
      }
}

BOOST_AUTO_TEST_SUITE_END()
