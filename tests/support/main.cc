// The entry point of every test program, and its closing line: "N passed, N failed, N skipped".
#define BOOST_TEST_MODULE troupe
#include <boost/test/results_collector.hpp>
#include <boost/test/tree/observer.hpp>
#include <boost/test/unit_test.hpp>
#include <iostream>

namespace {

namespace utf = boost::unit_test;

class ClosingLine : public utf::test_observer {
 public:
  ClosingLine() { utf::framework::register_observer(*this); }
  ~ClosingLine() override { utf::framework::deregister_observer(*this); }

  void test_unit_finish(const utf::test_unit& unit, unsigned long) override {
    if (unit.p_type == utf::TUT_CASE) ++(utf::results_collector.results(unit.p_id).passed() ? passed_ : failed_);
  }
  void test_unit_skipped(const utf::test_unit& unit, utf::const_string) override {
    if (unit.p_type == utf::TUT_CASE) ++skipped_;
  }
  void test_finish() override {
    std::cout << passed_ << " passed, " << failed_ << " failed";
    if (skipped_) std::cout << ", " << skipped_ << " skipped";
    std::cout << std::endl;
  }
  int priority() override { return 10; }  // after the results collector

 private:
  unsigned long passed_ = 0, failed_ = 0, skipped_ = 0;
};

ClosingLine closing_line;

}  // namespace
