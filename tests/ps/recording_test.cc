#include <boost/test/unit_test.hpp>

#include <troupe/ps/control/recording.h>

#include <tests/support/temp_folder.h>

using namespace troupe;
using namespace troupe::ps;
using troupe::test::TempFolder;

namespace {

using Kind = Shard::Event::Kind;

/// Two servers: one that saw three events, one that saw none.
struct Fixture {
  TempFolder folder;
  Recording recording{{{0, false}, {2, true}, {1, false}},
                      {{{Kind::push, 0, 3, 7}, {Kind::pull, 2, 0, int64_t{1} << 40}, {Kind::push, 1, 3, 7}}, {}}};

  Fixture() {
    const auto recorder = Recorder::create(folder.path(), 2);
    BOOST_REQUIRE(recorder.has_value());
    for (const auto& dealt : recording.dealt) (*recorder)->dealt(dealt);
    for (const auto& event : recording.events[0]) (*recorder)->event(0, event);
    BOOST_REQUIRE((*recorder)->close().has_value());
  }
  std::string error() const {
    const auto read = read_recording(folder.path(), 2);
    if (!read) BOOST_TEST((read.error().kind == ErrorKind::corrupt));
    return read ? "no error" : read.error().message;
  }
};

const std::vector<std::string> kFiles{"dealt", "server-0", "server-1"};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(recording_files, Fixture)

BOOST_AUTO_TEST_CASE(WhatWasRecordedIsRead) {
  const auto read = read_recording(folder.path(), 2);
  BOOST_REQUIRE_MESSAGE(read.has_value(), error());
  BOOST_TEST((*read == recording));
}

BOOST_AUTO_TEST_CASE(AFileThatIsCutShortAnywhereIsRefused) {
  for (const std::string& name : kFiles) {
    const std::string whole = folder.read(name);
    for (size_t length = 0; length < whole.size(); ++length) {
      folder.write(name, whole.substr(0, length));
      BOOST_TEST(error().find(name) != std::string::npos, name << " of " << length << " bytes");
    }
    folder.write(name, whole);
  }
  BOOST_TEST(error() == "no error");
}

BOOST_AUTO_TEST_CASE(ARecordThatIsMissingOrDoubledIsRefused) {
  const std::string whole = folder.read("server-0");
  folder.write("server-0", whole.substr(0, 8) + whole.substr(8 + 17));
  BOOST_TEST(error().find("cut short") != std::string::npos);
  folder.write("server-0", whole.substr(0, 8 + 17) + whole.substr(8));
  BOOST_TEST(error().find("server-0") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(EveryFlippedBitIsFound) {
  for (const std::string& name : kFiles) {
    const std::string whole = folder.read(name);
    for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
      std::string damaged = whole;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << bit % 8);
      folder.write(name, damaged);
      BOOST_TEST(error() != "no error", name << " bit " << bit);
    }
    folder.write(name, whole);
  }
}

BOOST_AUTO_TEST_CASE(ARecordingThatWasNeverClosedIsRefused) {
  { BOOST_REQUIRE(Recorder::create(folder.path(), 2).has_value()); }
  BOOST_TEST(error().find("was the run killed?") != std::string::npos, error());
}

BOOST_AUTO_TEST_SUITE_END()
