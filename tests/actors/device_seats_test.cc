#include <boost/test/unit_test.hpp>

#include <tests/support/late_device.h>
#include <troupe/actors/device_seats.h>

using namespace troupe;

namespace {

std::shared_ptr<Backend> late(size_t devices) { return std::make_shared<test::LateBackend>(1, devices); }

}  // namespace

BOOST_AUTO_TEST_SUITE(device_seats)

BOOST_AUTO_TEST_CASE(EveryWorkerHasADeviceOfItsOwnAndKeepsIt) {
  DeviceSeats seats(late(3));
  BOOST_TEST(seats.seat(0).value() == 0);
  BOOST_TEST(seats.seat(1).value() == 1);
  BOOST_TEST(seats.seat(0).value() == 0);
  // Its first choice is worker 1's.
  BOOST_TEST(seats.seat(4).value() == 2);
}

BOOST_AUTO_TEST_CASE(ProcessesOfOneHostBeginAtDifferentDevices) {
  DeviceSeats first(late(2)), second(late(2));
  BOOST_TEST(first.seat(0).value() != second.seat(1).value());
}

BOOST_AUTO_TEST_CASE(MoreWorkersThanDevicesIsAnErrorWithBothNumbers) {
  DeviceSeats seats(late(1));
  BOOST_TEST(seats.seat(0).has_value());
  const auto refused = seats.seat(1);
  BOOST_TEST_REQUIRE(!refused.has_value());
  BOOST_TEST(refused.error().message.find("worker 1 finds no CUDA device: this process has 1") == 0);
}

BOOST_AUTO_TEST_CASE(TheCpuHasRoomForAllWorkers) {
  DeviceSeats seats(load_backend(DeviceKind::cpu).value());
  for (ps::WorkerId worker = 0; worker < 10; ++worker) BOOST_TEST(seats.seat(worker).value() == 0);
}

BOOST_AUTO_TEST_CASE(TheCpuNeedsNoModuleAndNoNote) {
  ps::RunConfig config;
  const auto seats = DeviceSeats::choose(config, ps::Sources{}, false);
  BOOST_TEST_REQUIRE(seats.has_value());
  BOOST_TEST(((*seats)->backend()->kind() == DeviceKind::cpu));
  BOOST_TEST((*seats)->note() == "");
}

BOOST_AUTO_TEST_CASE(AutoTakesTheCpuForPipelinesAndSaysSo) {
  ps::RunConfig config;
  config.parallel.device = ps::DeviceChoice::automatic;
  config.parallel.workers = config.parallel.stages = 2;
  const auto seats = DeviceSeats::choose(config, ps::Sources{}, false);
  BOOST_TEST_REQUIRE(seats.has_value());
  BOOST_TEST(((*seats)->backend()->kind() == DeviceKind::cpu));
  BOOST_TEST((*seats)->note().find("the stages of a pipeline") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
