#include <boost/test/unit_test.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include <troupe/kernels/base/text.h>
#include <troupe/ps/control/run_lock.h>

#include "tests/support/temp_folder.h"

using namespace troupe;
using namespace troupe::ps;

BOOST_AUTO_TEST_SUITE(run_lock)

namespace {

struct Lab {
  troupe::test::TempFolder folder;
  std::string path = folder.path() + "/lock";

  std::string text() const {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  void write(const std::string& text) const { std::ofstream(path) << text; }
};

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_CASE(WhoeverHoldsItIsNamedUntilItIsLetGo) {
  const Lab lab;
  auto held = RunLock::take(lab.path);
  BOOST_REQUIRE(held.has_value());
  const auto second = RunLock::take(lab.path);
  BOOST_REQUIRE(!second);
  BOOST_TEST((second.error().kind == ErrorKind::invalid));
  BOOST_TEST(holds(second.error().message, cat("the run's coordinator lives (process ", ::getpid(), " on ")));
  BOOST_TEST(holds(second.error().message, lab.path));
  held->reset();
  BOOST_TEST(RunLock::take(lab.path).has_value());
}

BOOST_AUTO_TEST_CASE(OneThatWasLeftUnderAnotherKernelIsNotTaken) {
  const Lab lab;
  const std::string left = "77\nfc5d1a4e-0000-4000-8000-000000000000\nnode7\n";
  lab.write(left);
  const auto taken = RunLock::take(lab.path);
  BOOST_REQUIRE(!taken);
  BOOST_TEST((taken.error().kind == ErrorKind::invalid));
  BOOST_TEST(
      holds(taken.error().message, "the run's coordinator was process 77 on node7, and this is another machine"));
  BOOST_TEST(holds(taken.error().message, "delete " + lab.path));
  BOOST_TEST(lab.text() == left);  // it refuses the next, too
}

BOOST_AUTO_TEST_CASE(OneOfAKernelThatCannotBeToldIsNotTaken) {
  for (const auto& [theirs, ours] : {std::pair("", "1234"), {"", ""}, {"1234", ""}}) {
    const Lab lab;
    lab.write(cat("77\n", theirs, "\nnode7\n"));
    const auto taken = RunLock::take(lab.path, ours);
    BOOST_TEST_REQUIRE(!taken.has_value());
    BOOST_TEST(holds(taken.error().message, "the run's coordinator was process 77 on node7, and it cannot be told"));
  }
}

// As a run that is over does, while others wait to have its place.
BOOST_AUTO_TEST_CASE(OneWhoseFileWasRemovedBeforeItWasLockedExcludesNobody) {
  const Lab lab;
  lab.write("");
  const FileDescriptor early(::open(lab.path.c_str(), O_RDWR));
  BOOST_TEST(RunLock::hold(early.get(), lab.path).value());
  ::unlink(lab.path.c_str());
  BOOST_TEST(!RunLock::hold(early.get(), lab.path).value());
  const auto next = RunLock::take(lab.path);
  BOOST_REQUIRE(next.has_value());
  BOOST_TEST(!RunLock::hold(early.get(), lab.path).value());  // it locks the file that is no more
}

BOOST_AUTO_TEST_CASE(AFileThatNamesNobodyIsTaken) {
  const Lab lab;
  lab.write("");
  BOOST_TEST(RunLock::take(lab.path).has_value());
  BOOST_TEST(holds(lab.text(), cat(::getpid(), "\n")));
}

BOOST_AUTO_TEST_CASE(AFolderThatIsNotThereIsSaid) {
  const Lab lab;
  const auto taken = RunLock::take(lab.folder.path() + "/none/lock");
  BOOST_REQUIRE(!taken);
  BOOST_TEST(holds(taken.error().message, "cannot open " + lab.folder.path() + "/none/lock: No such file"));
}

BOOST_AUTO_TEST_SUITE_END()
