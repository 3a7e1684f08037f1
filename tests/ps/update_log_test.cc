#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>

#include <troupe/ps/checkpoint/update_log.h>

#include <tests/support/memory_disk.h>

using namespace troupe;
using namespace troupe::ps;
using DiskFault = test::MemoryDisk::Fault;
using Kept = test::MemoryDisk::Kept;

BOOST_AUTO_TEST_SUITE(update_log)

namespace {

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// Records are the numbers 1, 2, 3 ...; an image "image 7" stands for the first seven.
struct World {
  std::shared_ptr<test::MemoryDisk> disk = std::make_shared<test::MemoryDisk>();
  UpdateLogOptions options;
  std::vector<std::string> warnings;

  World() {
    options.folder = "run/server-0";
    options.warn = [this](const std::string& what) { warnings.push_back(what); };
  }

  Result<std::unique_ptr<UpdateLog>> try_open(Generation generation, std::vector<int>& found,
                                              std::shared_ptr<FileOps> files = nullptr) {
    found.clear();
    return UpdateLog::open(files ? files : disk, options, generation, [&found](std::span<const std::byte> record) {
      const std::string text(reinterpret_cast<const char*>(record.data()), record.size());
      if (text.starts_with("image ")) {
        found.resize(static_cast<size_t>(std::stoi(text.substr(6))));
        std::iota(found.begin(), found.end(), 1);
      } else {
        found.push_back(std::stoi(text));
      }
      return Status();
    });
  }
  std::unique_ptr<UpdateLog> open(Generation generation, std::vector<int>& found) {
    auto log = try_open(generation, found);
    BOOST_REQUIRE_MESSAGE(log.has_value(), (log ? "" : log.error().message));
    return std::move(*log);
  }
  std::vector<int> read(Generation generation) {
    std::vector<int> found;
    open(generation, found);
    return found;
  }
  std::string newest_segment() const {
    std::string newest;
    const auto names = disk->list(options.folder);
    for (const std::string& name : *names)
      if (name.ends_with(".log")) newest = name;
    return join_path(options.folder, newest);
  }
};

std::vector<int> upto(int n) {
  std::vector<int> all(static_cast<size_t>(n));
  std::iota(all.begin(), all.end(), 1);
  return all;
}

Status add(UpdateLog& log, int number) { return log.append(bytes_of(std::to_string(number))); }
Status add_image(UpdateLog& log, int number) {
  return log.begin_image([number] { return bytes_of("image " + std::to_string(number)); });
}

void write(UpdateLog& log, int from, int to) {
  for (int i = from; i <= to; ++i) {
    BOOST_TEST(add(log, i).has_value());
    BOOST_TEST(log.commit().has_value());
  }
}

#define TEST_NUMBERS(found, expected) BOOST_TEST((found) == (expected), boost::test_tools::per_element())

}  // namespace

BOOST_AUTO_TEST_CASE(WhatWasCommittedComesBackInOrderWhoeverWroteIt) {
  World w;
  std::vector<int> found;
  for (int owner = 1; owner <= 4; ++owner) {
    const auto log = w.open(static_cast<Generation>(owner), found);
    TEST_NUMBERS(found, upto((owner - 1) * 3));
    write(*log, (owner - 1) * 3 + 1, owner * 3);
  }
  TEST_NUMBERS(w.read(5), upto(12));
  BOOST_TEST(w.warnings.empty());
}

BOOST_AUTO_TEST_CASE(OneCommitMakesAllSafeThatWasAppendedBefore) {
  World w;
  std::vector<int> found;
  const auto log = w.open(1, found);
  BOOST_TEST(!log->needs_commit());
  for (int i = 1; i <= 5; ++i) BOOST_TEST(add(*log, i).has_value());
  BOOST_TEST(log->needs_commit());
  BOOST_TEST(log->safe() == 0u);
  const int64_t calls = w.disk->calls();
  BOOST_TEST(log->commit().has_value());
  BOOST_TEST(w.disk->calls() == calls + 1);
  BOOST_TEST(log->safe() == 5u);
  BOOST_TEST(!log->needs_commit());
}

BOOST_AUTO_TEST_CASE(AnOwnerLivesThroughGenerations) {
  World w;
  std::vector<int> found;
  const auto log = w.open(1, found);
  write(*log, 1, 2);
  BOOST_TEST(log->claim(5).has_value());
  write(*log, 3, 4);
  BOOST_TEST(log->claim(3).has_value());  // long past
  write(*log, 5, 5);
  std::vector<int> other;
  const auto late = w.try_open(4, other);
  BOOST_TEST((!late && late.error().kind == ErrorKind::cancelled));
  write(*log, 6, 6);
  TEST_NUMBERS(w.read(6), upto(6));
}

BOOST_AUTO_TEST_CASE(ATornEndIsLeftOutAndSaid) {
  const auto make = [](World& w) {
    std::vector<int> found;
    write(*w.open(1, found), 1, 3);
  };
  World whole;
  make(whole);
  const size_t size = whole.disk->bytes(whole.newest_segment()).size();
  for (size_t cut = 1; cut < 33; ++cut) {
    World w;
    make(w);
    w.disk->bytes(w.newest_segment()).resize(size - cut);
    TEST_NUMBERS(w.read(2), upto(2));
    BOOST_REQUIRE(w.warnings.size() == 1u);
    BOOST_TEST(w.warnings[0].find("interrupted") != std::string::npos);
    TEST_NUMBERS(w.read(3), upto(2));  // said once
    BOOST_TEST(w.warnings.size() == 1u);
  }
}

// Of three records each committed: a flip in the last one cannot be told from a torn write.
BOOST_AUTO_TEST_CASE(DamageBeforeTheEndIsReportedWithItsPlace) {
  World whole;
  std::vector<int> found;
  write(*whole.open(1, found), 1, 3);
  const size_t size = whole.disk->bytes(whole.newest_segment()).size();
  for (size_t at = 0; at < size; ++at) {
    World w;
    write(*w.open(1, found), 1, 3);
    w.disk->bytes(w.newest_segment())[at] ^= static_cast<char>(1 << (at % 8));
    const auto log = w.try_open(2, found);
    if (at >= size - 33) {
      BOOST_TEST((log.has_value() && found == upto(2)), "byte " << at);
    } else {
      BOOST_REQUIRE_MESSAGE(!log.has_value(), "byte " << at);
      BOOST_TEST((log.error().kind == ErrorKind::corrupt));
      BOOST_TEST(log.error().message.find("000001.log") != std::string::npos, log.error().message);
    }
  }
}

BOOST_AUTO_TEST_CASE(AnySegmentThatWasReadBeforeMustStayAsItWas) {
  World w;
  std::vector<int> found;
  write(*w.open(1, found), 1, 3);
  const std::string first = w.newest_segment();
  write(*w.open(2, found), 4, 5);
  w.disk->bytes(first).back() ^= 1;
  const auto log = w.try_open(3, found);
  BOOST_REQUIRE(!log.has_value());
  BOOST_TEST(log.error().message.find(first) != std::string::npos, log.error().message);
}

BOOST_AUTO_TEST_CASE(AnImageStandsForWhatCameBeforeAndTheFilesOfThatGo) {
  World w;
  w.options.image_after_bytes = 150;
  std::vector<int> found;
  const auto log = w.open(1, found);
  write(*log, 1, 2);
  BOOST_TEST(!log->wants_image());
  write(*log, 3, 5);
  BOOST_TEST(log->wants_image());
  BOOST_TEST(add_image(*log, 5).has_value());
  BOOST_TEST(!log->wants_image());
  BOOST_TEST(add(*log, 6).has_value());
  BOOST_TEST(w.disk->list(w.options.folder)->size() == 3u);  // claim, two segments
  BOOST_TEST(log->commit().has_value());
  BOOST_TEST(w.disk->list(w.options.folder)->size() == 3u);  // claim, image, segment
  write(*log, 7, 7);
  TEST_NUMBERS(w.read(2), upto(7));
  TEST_NUMBERS(w.read(3), upto(7));
}

BOOST_AUTO_TEST_CASE(AnImageForWhichThereIsNoRoomIsSaidAndPutOff) {
  World w;
  std::vector<int> found;
  const auto log = w.open(1, found);
  write(*log, 1, 5);
  BOOST_TEST(log->begin_image([] { return std::vector<std::byte>(10'000); }).has_value());
  w.disk->set_capacity(2'000);
  BOOST_TEST(log->commit().has_value());
  BOOST_REQUIRE(w.warnings.size() == 1u);
  BOOST_TEST(w.warnings[0].find("no space left") != std::string::npos);
  write(*log, 6, 7);
  TEST_NUMBERS(w.read(2), upto(7));
}

BOOST_AUTO_TEST_CASE(AnImageFromElsewhereIsThereBeforeAnythingIsSafe) {
  World w;
  std::vector<int> found;
  const auto log = w.open(1, found);
  BOOST_TEST(log->begin_image([] { return bytes_of("image 4"); }, true).has_value());
  BOOST_TEST(add(*log, 5).has_value());
  w.disk->fail_at(1, DiskFault::full);
  BOOST_TEST(!log->commit().has_value());
  BOOST_TEST(log->safe() == 0u);
}

BOOST_AUTO_TEST_CASE(AfterAFailedWriteNothingIsTakenUntilTheLogIsOpenedAgain) {
  World w;
  std::vector<int> found;
  const auto log = w.open(1, found);
  write(*log, 1, 2);
  w.disk->fail_at(2, DiskFault::cut_short);
  BOOST_TEST(!add(*log, 3).has_value());
  const Status again = add(*log, 3);
  BOOST_REQUIRE(!again.has_value());
  BOOST_TEST((again.error().kind == ErrorKind::exhausted));
  BOOST_TEST(!log->commit().has_value());
  const auto next = w.open(2, found);
  TEST_NUMBERS(found, upto(2));
  write(*next, 3, 3);
  TEST_NUMBERS(w.read(3), upto(3));
}

BOOST_AUTO_TEST_CASE(WithAnIntervalTheDiskIsFlushedOnceInIt) {
  World w;
  auto now = std::chrono::steady_clock::time_point{} + std::chrono::hours(1);
  w.options.sync = UpdateLogOptions::Sync::interval;
  w.options.sync_interval = std::chrono::milliseconds(100);
  w.options.now = [&now] { return now; };
  std::vector<int> found;
  const auto log = w.open(1, found);
  write(*log, 1, 1);
  const int64_t calls = w.disk->calls();
  write(*log, 2, 4);
  BOOST_TEST(w.disk->calls() == calls + 3 * 2);  // writes alone
  BOOST_TEST(!log->needs_commit());
  now += std::chrono::milliseconds(100);
  BOOST_TEST(log->needs_commit());
  BOOST_TEST(log->commit().has_value());
  BOOST_TEST(w.disk->calls() == calls + 3 * 2 + 1);
  BOOST_TEST(!log->needs_commit());
}

// ---- two owners ---------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(AnOwnerThatWasStoppedAndGoesOnPromisesNothing) {
  World w;
  std::vector<int> found;
  const auto stopped = w.open(1, found);
  write(*stopped, 1, 2);
  const auto owner = w.open(2, found);
  TEST_NUMBERS(found, upto(2));
  write(*owner, 3, 4);
  BOOST_TEST(add(*stopped, 99).has_value());
  const Status late = stopped->commit();
  BOOST_REQUIRE(!late.has_value());
  BOOST_TEST((late.error().kind == ErrorKind::cancelled));
  BOOST_TEST(stopped->safe() == 2u);
  BOOST_TEST(!add(*stopped, 100).has_value());
  write(*owner, 5, 5);
  TEST_NUMBERS(w.read(3), upto(5));
}

namespace {

// The machine's files for one of two processes; the other does something before the `call`-th of its calls.
class Interrupted final : public FileOps {
 public:
  Interrupted(std::shared_ptr<FileOps> files, int call, std::function<void()> other)
      : files_(std::move(files)), call_(call), other_(std::move(other)) {}
  bool came() const { return calls_ >= call_; }

  Result<std::unique_ptr<OutputFile>> create(const std::string& path) override {
    step();
    auto file = files_->create(path);
    if (!file) return file;
    return std::make_unique<Output>(*this, std::move(*file));
  }
  Result<std::unique_ptr<InputFile>> open(const std::string& p) override { return step(), files_->open(p); }
  Status make_folder(const std::string& p) override { return step(), files_->make_folder(p); }
  Status rename(const std::string& a, const std::string& b) override { return step(), files_->rename(a, b); }
  Status sync_folder(const std::string& p) override { return step(), files_->sync_folder(p); }
  Status remove_file(const std::string& p) override { return step(), files_->remove_file(p); }
  Status remove_folder(const std::string& p) override { return step(), files_->remove_folder(p); }
  Result<std::vector<std::string>> list(const std::string& p) override { return step(), files_->list(p); }
  Result<uint64_t> free_bytes(const std::string& p) override { return files_->free_bytes(p); }

 private:
  class Output final : public OutputFile {
   public:
    Output(Interrupted& owner, std::unique_ptr<OutputFile> file) : owner_(owner), file_(std::move(file)) {}
    Status write(std::span<const std::byte> bytes) override { return owner_.step(), file_->write(bytes); }
    Status sync() override { return owner_.step(), file_->sync(); }
    Status close() override { return owner_.step(), file_->close(); }

   private:
    Interrupted& owner_;
    std::unique_ptr<OutputFile> file_;
  };
  void step() {
    if (++calls_ == call_) other_();
  }

  std::shared_ptr<FileOps> files_;
  int call_ = 0, calls_ = 0;
  std::function<void()> other_;
};

// Whatever both count as safe is in the log, once, and each owner's in its order.
void check_both(World& w, Generation reader, const std::vector<int>& old_safe, const std::vector<int>& new_safe,
                int call) {
  const std::vector<int> all = w.read(reader);
  for (const std::vector<int>* safe : {&old_safe, &new_safe})
    for (const int number : *safe)
      BOOST_TEST(std::ranges::count(all, number) == 1, "call " << call << ": " << number << " was safe");
}

}  // namespace

// The old owner works between any two calls of the new one that opens the log; at every call once.
BOOST_AUTO_TEST_CASE(WhatAnOldOwnerCountsAsSafeWhileTheLogIsTakenIsReadByTheNewOne) {
  for (const bool shrinks : {false, true})
    for (const bool lives_on : {false, true}) {
      bool came = true;
      int old_won = 0, old_lost = 0;
      for (int call = 1; came; ++call) {
        World w;
        std::vector<int> found, old_safe, new_safe;
        const auto old = w.open(1, found);
        write(*old, 1, 2);
        old_safe = {1, 2};
        const auto files = std::make_shared<Interrupted>(w.disk, call, [&] {
          if (lives_on && !old->claim(7)) return;  // newer than the one that opens
          if (shrinks) (void)add_image(*old, 2);
          if (add(*old, 3) && old->commit()) old_safe.push_back(3);
          if (old_safe.size() == 3 && add(*old, 4) && old->commit()) old_safe.push_back(4);
        });
        auto next = w.try_open(5, found, files);
        came = files->came();
        if (next && add(**next, 10) && (*next)->commit()) new_safe.push_back(10);
        if (add(*old, 5) && old->commit()) old_safe.push_back(5);
        BOOST_TEST((new_safe.empty() || old_safe.back() != 5), "call " << call << ": two owners");
        check_both(w, 9, old_safe, new_safe, call);
        (old_safe.size() > 2 ? old_won : old_lost) += 1;
        BOOST_REQUIRE(call < 200);
      }
      BOOST_TEST(old_won > 2);
      BOOST_TEST(old_lost > 4);
    }
}

// The new owner opens, writes and counts between any two calls of the old one.
BOOST_AUTO_TEST_CASE(ALogThatIsTakenWhileItsOwnerWritesLosesNothingThatEitherCounts) {
  for (const bool lives_on : {false, true}) {
    bool came = true;
    for (int call = 1; came; ++call) {
      World w;
      std::vector<int> found, other, old_safe, new_safe;
      std::unique_ptr<UpdateLog> next;
      const auto files = std::make_shared<Interrupted>(w.disk, call, [&] {
        auto opened = w.try_open(5, other);
        if (!opened) return;
        next = std::move(*opened);
        if (add(*next, 10) && next->commit()) new_safe.push_back(10);
      });
      auto old = w.try_open(1, found, files);
      for (int i = 1; old && i <= 6; ++i) {
        if (i == 3 && lives_on) (void)(*old)->claim(7);
        if (i == 5) (void)add_image(**old, 4);
        if (add(**old, i) && (*old)->commit()) old_safe.push_back(i);
      }
      came = files->came();
      if (next && add(*next, 11) && next->commit()) new_safe.push_back(11);
      check_both(w, 9, old_safe, new_safe, call);
      BOOST_REQUIRE(call < 200);
    }
  }
}

// ---- crash points -------------------------------------------------------------------------------------------------

namespace {

// Two owners, each with two generations and an image. Returns the largest number that was counted as safe;
// `appended` the largest.
int write_a_life(World& w, int& appended) {
  int safe = 0;
  std::vector<int> found;
  for (const Generation generation : {1, 21}) {
    const auto log = w.try_open(generation, found);
    if (!log) return safe;
    const int first = static_cast<int>(found.size()) + 1;
    for (int i = first; i < first + 6; ++i) {
      if (i == first + 2 && !add_image(**log, i - 1)) return safe;
      if (i == first + 4 && !(*log)->claim(generation + 10)) return safe;
      appended = i;
      if (!add(**log, i) || !(*log)->commit()) return safe;
      safe = i;
    }
  }
  return safe;
}

}  // namespace

BOOST_AUTO_TEST_CASE(AtEveryFailingCallNothingCountedIsLostAndNothingIsMadeUp) {
  for (const DiskFault fault : {DiskFault::crash, DiskFault::full, DiskFault::cut_short, DiskFault::input_output})
    for (const Kept kept : {Kept::all, Kept::none, Kept::some}) {
      bool met = true;
      for (int64_t call = 1; met; ++call) {
        World w;
        Random random(static_cast<uint64_t>(call));
        w.disk->fail_at(call, fault);
        int appended = 0;
        const int safe = write_a_life(w, appended);
        met = w.disk->calls() >= call;
        w.disk->restart(kept, random);
        const std::vector<int> found = w.read(100);
        TEST_NUMBERS(found, upto(static_cast<int>(found.size())));
        BOOST_TEST(static_cast<int>(found.size()) >= safe, "call " << call << ": " << found.size() << " of " << safe);
        BOOST_TEST(static_cast<int>(found.size()) <= appended, "call " << call);
        TEST_NUMBERS(w.read(101), found);
        BOOST_REQUIRE(call < 500);
      }
    }
}

BOOST_AUTO_TEST_CASE(AProcessThatIsKilledLosesNothingWithoutAnyFlush) {
  bool met = true;
  for (int64_t call = 1; met; ++call) {
    World w;
    w.options.sync = UpdateLogOptions::Sync::never;
    Random random(static_cast<uint64_t>(call));
    w.disk->fail_at(call, DiskFault::crash);
    int appended = 0;
    const int safe = write_a_life(w, appended);
    met = w.disk->calls() >= call;
    w.disk->restart(Kept::all, random);
    BOOST_TEST(static_cast<int>(w.read(100).size()) >= safe, "call " << call);
  }
}

BOOST_AUTO_TEST_CASE(ACrashWhileTheLogIsTakenOverLosesNothing) {
  for (const Kept kept : {Kept::all, Kept::none, Kept::some}) {
    bool met = true;
    for (int64_t call = 1; met; ++call) {
      World w;
      Random random(static_cast<uint64_t>(call));
      int appended = 0;
      const int safe = write_a_life(w, appended);
      w.disk->fail_at(call, DiskFault::crash);
      std::vector<int> found;
      (void)w.try_open(100, found);
      met = w.disk->calls() >= call;
      w.disk->restart(kept, random);
      BOOST_TEST(static_cast<int>(w.read(101).size()) == safe, "call " << call);
    }
  }
}

// As a thread that commits may see it: a claim is made, and whoever makes it does not know yet that it is made.
BOOST_AUTO_TEST_CASE(ACommitBesideAClaimOfTheSameOwnerIsNotFenced) {
  class Watched final : public FileOps {
   public:
    explicit Watched(std::shared_ptr<FileOps> files) : files_(std::move(files)) {}
    Result<std::unique_ptr<OutputFile>> create(const std::string& path) override {
      auto file = files_->create(path);
      if (path.find("claim-") != std::string::npos && on_claim) on_claim();
      return file;
    }
    Result<std::unique_ptr<InputFile>> open(const std::string& path) override { return files_->open(path); }
    Status make_folder(const std::string& path) override { return files_->make_folder(path); }
    Status rename(const std::string& from, const std::string& to) override { return files_->rename(from, to); }
    Status sync_folder(const std::string& path) override { return files_->sync_folder(path); }
    Status remove_file(const std::string& path) override { return files_->remove_file(path); }
    Status remove_folder(const std::string& path) override { return files_->remove_folder(path); }
    Result<std::vector<std::string>> list(const std::string& path) override { return files_->list(path); }
    Result<uint64_t> free_bytes(const std::string& path) override { return files_->free_bytes(path); }

    std::function<void()> on_claim;

   private:
    std::shared_ptr<FileOps> files_;
  };
  World w;
  const auto files = std::make_shared<Watched>(w.disk);
  std::vector<int> found;
  const auto log = std::move(*w.try_open(1, found, files));
  BOOST_REQUIRE(add(*log, 1).has_value());
  std::optional<Status> beside;
  files->on_claim = [&] { beside = log->commit(); };
  BOOST_TEST(log->claim(2).has_value());
  BOOST_REQUIRE(beside.has_value());
  BOOST_TEST(beside->has_value());
  BOOST_TEST(log->safe() == 1u);
}

// As the thread that commits may come: between any two calls of a claim it writes the image that was begun before, and
// removes what that stands for.
BOOST_AUTO_TEST_CASE(AnImageWrittenBesideAClaimOfTheSameOwnerLeavesTheClaimsSegment) {
  bool came = true;
  for (int call = 1; came; ++call) {
    World w;
    std::vector<int> found;
    std::unique_ptr<UpdateLog> log;
    bool claiming = false;
    const auto files = std::make_shared<Interrupted>(w.disk, call, [&] {
      if (claiming) BOOST_TEST(log->commit().has_value(), "call " << call);
    });
    log = std::move(*w.try_open(1, found, files));
    write(*log, 1, 3);
    BOOST_TEST(add_image(*log, 3).has_value());
    claiming = true;
    BOOST_TEST(log->claim(2).has_value(), "call " << call);
    claiming = false;
    came = files->came();
    write(*log, 4, 5);
    BOOST_TEST((w.read(3) == upto(5)), "call " << call);
  }
}

BOOST_AUTO_TEST_SUITE_END()
