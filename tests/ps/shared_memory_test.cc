#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <boost/test/unit_test.hpp>

#include <tests/support/child_process.h>
#include <tests/support/shared_mail.h>
#include <tests/support/temp_folder.h>
#include <troupe/kernels/base/text.h>

using namespace troupe;
using namespace troupe::ps;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(shared_memory)

namespace {

constexpr uint64_t kLimit = 1 << 20;

std::string refusal(const SharedOffer& offer) {
  const auto opened = SharedMemory::open(offer, kLimit);
  return opened ? "" : opened.error().message;
}

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_CASE(AnotherMappingSeesTheSameZeroedBytes) {
  const auto mine = SharedMemory::create(5000).value();
  const auto theirs = SharedMemory::open(mine->offer(), kLimit).value();
  BOOST_TEST(theirs->data() != mine->data());
  BOOST_TEST(theirs->bytes() == 5000u);
  BOOST_TEST((theirs->data()[4999] == std::byte{0}));
  mine->data()[4999] = std::byte{7};
  BOOST_TEST((theirs->data()[4999] == std::byte{7}));
  BOOST_TEST(reinterpret_cast<uintptr_t>(theirs->data()) % 64 == 0u);
}

BOOST_AUTO_TEST_CASE(ItStaysWhenWhoeverMadeItLetsGo) {
  auto mine = SharedMemory::create(100).value();
  mine->data()[0] = std::byte{7};
  const auto theirs = SharedMemory::open(mine->offer(), kLimit).value();
  mine.reset();
  BOOST_TEST((theirs->data()[0] == std::byte{7}));
}

BOOST_AUTO_TEST_CASE(NobodyCanShrinkItUnderAReader) {
  const auto mine = SharedMemory::create(5000).value();
  const std::string path = cat("/proc/self/fd/", mine->offer().fd);
  BOOST_TEST(::truncate(path.c_str(), 0) != 0);
  BOOST_TEST(::truncate(path.c_str(), 1 << 20) != 0);
}

BOOST_AUTO_TEST_CASE(AnotherTokenIsRefused) {
  const auto mine = SharedMemory::create(100).value();
  SharedOffer offer = mine->offer();
  offer.token ^= 1;
  BOOST_TEST(says(refusal(offer), "holds another token"));
}

BOOST_AUTO_TEST_CASE(AnotherSizeIsRefused) {
  const auto mine = SharedMemory::create(100).value();
  SharedOffer offer = mine->offer();
  offer.bytes = 99;
  BOOST_TEST(says(refusal(offer), "it has 164 bytes instead of 163"));
}

BOOST_AUTO_TEST_CASE(MoreThanTheLimitIsRefused) {
  const auto mine = SharedMemory::create(kLimit + 1).value();
  BOOST_TEST(says(refusal(mine->offer()), "1048577 bytes are more than 1048576"));
}

BOOST_AUTO_TEST_CASE(AFileWithANameIsRefused) {
  TempFolder folder;
  FileDescriptor file(::open(folder.write("named", std::string(164, 'x')).c_str(), O_RDWR));
  BOOST_TEST(says(refusal({::getpid(), file.get(), 1, 100}), "not an anonymous file"));
}

BOOST_AUTO_TEST_CASE(APipeIsRefusedWithoutWaitingForItsOtherEnd) {
  TempFolder folder;
  BOOST_REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  FileDescriptor pipe(::open((folder / "pipe").c_str(), O_RDWR));
  BOOST_TEST(says(refusal({::getpid(), pipe.get(), 1, 100}), "not an anonymous file"));
}

BOOST_AUTO_TEST_CASE(AFileWhoseSizeCanChangeIsRefused) {
  FileDescriptor file(::memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  BOOST_REQUIRE(::ftruncate(file.get(), 164) == 0);
  BOOST_TEST(says(refusal({::getpid(), file.get(), 1, 100}), "not sealed"));
}

BOOST_AUTO_TEST_CASE(ANumberThatMeansNothingIsRefused) {
  for (const SharedOffer& offer : {SharedOffer{}, SharedOffer{-1, 3, 1, 100}, SharedOffer{::getpid(), -1, 1, 100},
                                   SharedOffer{::getpid(), 999'999, 1, 100}})
    BOOST_TEST(says(refusal(offer), "is not used"));
}

BOOST_AUTO_TEST_CASE(AProcessThatHasEndedIsRefused) {
  Mail offers;
  ChildProcess child([&](int) {
    const auto memory = SharedMemory::create(100).value();
    offers.put(memory->offer());
    ::pause();
  });
  const auto offer = offers.take<SharedOffer>();
  child.end(SIGKILL);
  BOOST_TEST(says(refusal(offer), "No such file or directory"));
}

BOOST_AUTO_TEST_CASE(OfAnotherProcessItIsTheSameMemoryAndOutlivesIt) {
  Mail offers;
  ChildProcess child([&](int) {
    const auto memory = SharedMemory::create(100).value();
    memory->data()[50] = std::byte{9};
    offers.put(memory->offer());
    ::pause();
  });
  const auto memory = SharedMemory::open(offers.take<SharedOffer>(), kLimit).value();
  child.end(SIGKILL);
  BOOST_TEST((memory->data()[50] == std::byte{9}));
}

BOOST_AUTO_TEST_CASE(NothingStaysMappedOrOpen) {
  const int files = ::dup(0);  // the lowest free number
  ::close(files);
  {
    const auto mine = SharedMemory::create(100).value();
    const auto theirs = SharedMemory::open(mine->offer(), kLimit).value();
    SharedOffer wrong = mine->offer();
    wrong.token = 0;
    BOOST_TEST(refusal(wrong) != "");
    BOOST_TEST(mapped_segments() == 2);
  }
  BOOST_TEST(mapped_segments() == 0);
  const int again = ::dup(0);
  ::close(again);
  BOOST_TEST(again == files);
}

BOOST_AUTO_TEST_SUITE_END()
