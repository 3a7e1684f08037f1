// What a process does by itself when its launcher is gone. Nobody else ends it here.
#include <boost/test/unit_test.hpp>

#include <tests/launch/lab.h>

using namespace troupe;
using namespace troupe::launch;
using namespace troupe::launch::test;

BOOST_AUTO_TEST_SUITE(death_pipe)

namespace {

/// A process that has done `words` when the file "up" is there, and how it ends once its pipe is closed.
Ending end_after(Words words) {
  troupe::test::TempFolder folder;
  words.insert(words.begin(), {TROUPE_FAKE_PROCESS, "death:3"});
  words.insert(words.end(), {"touch:" + (folder / "up"), "forever"});
  auto child = Child::start({words}).value();
  BOOST_REQUIRE(Lab::eventually([&] { return ::access((folder / "up").c_str(), F_OK) == 0; }));
  child.let_go();
  BOOST_REQUIRE(Lab::eventually([&] { return !Lab::runs(child.pid()); }));  // reap() would end it
  return ending_of(child);
}

}  // namespace

BOOST_AUTO_TEST_CASE(WhoseLauncherIsGoneIsAskedToEnd) { BOOST_TEST(end_after({"on-term:7"}).exit_code() == 7); }

BOOST_AUTO_TEST_CASE(WhoDoesNotEndWhenAskedIsEnded) {
  BOOST_TEST(end_after({"on-term:ignore"}).exit_code() == 128 + SIGKILL);
}

BOOST_AUTO_TEST_SUITE_END()
