#include <boost/test/unit_test.hpp>

#include <future>

#include <caf/all.hpp>

#include <troupe/actors/actor_queue.h>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(actor_queue)

BOOST_AUTO_TEST_CASE(DroppingAQueueDoesNotWaitForItsTaskAndTheSystemDoes) {
  std::promise<void> begun, dropped;
  bool finished = false;
  {
    caf::actor_system_config config;
    caf::actor_system system(config);
    auto queue = make_actor_queue(system, "test");
    queue->submit([&] {
      begun.set_value();
      dropped.get_future().wait();
      finished = true;
    });
    begun.get_future().wait();
    queue.reset();
    dropped.set_value();  // comes after the drop, so that a drop that waits never ends
  }
  BOOST_TEST(finished);
}

BOOST_AUTO_TEST_SUITE_END()
