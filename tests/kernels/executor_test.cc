#include <boost/test/unit_test.hpp>

#include <omp.h>

#include <future>
#include <memory>
#include <thread>
#include <vector>

#include <troupe/kernels/tensor/executor.h>

using namespace troupe;

namespace {

// From a task: returns when its queue has begun to end, which drops what is submitted.
void wait_for_end(Executor& queue) {
  for (;; std::this_thread::yield()) {
    const auto probe = std::make_shared<int>();
    queue.submit([probe] {});
    if (probe.use_count() == 1) return;
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(executor)

BOOST_AUTO_TEST_CASE(TasksRunInTheOrderTheyWereSubmitted) {
  const auto queue = make_cpu_queue("test");
  std::vector<int> order;
  for (int i = 0; i < 1000; ++i) queue->submit([&order, i] { order.push_back(i); });
  std::promise<void> done;
  queue->submit([&] { done.set_value(); });
  done.get_future().wait();
  BOOST_REQUIRE(order.size() == 1000u);
  for (int i = 0; i < 1000; ++i) BOOST_REQUIRE(order[static_cast<size_t>(i)] == i);
}

BOOST_AUTO_TEST_CASE(WhatOthersMayDoIsBegunOnceNothingElseWaits) {
  const auto queue = make_cpu_queue("test");
  std::promise<void> open, done;
  std::vector<int> order;
  queue->submit([&] { open.get_future().wait(); });
  queue->submit_idle([&] {
    order.push_back(3);
    done.set_value();
  });
  queue->submit([&] { order.push_back(1); });
  queue->submit([&] { order.push_back(2); });
  open.set_value();
  done.get_future().wait();
  BOOST_TEST(order == (std::vector<int>{1, 2, 3}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(SubmitReturnsWhileATaskRuns) {
  const auto queue = make_cpu_queue("test");
  std::promise<void> open;
  std::promise<std::thread::id> second;
  queue->submit([&] { open.get_future().wait(); });
  queue->submit([&] { second.set_value(std::this_thread::get_id()); });
  open.set_value();
  BOOST_TEST((second.get_future().get() != std::this_thread::get_id()));
}

BOOST_AUTO_TEST_CASE(TheEndFinishesTheRunningTaskAndDropsTheRest) {
  auto queue = make_cpu_queue("test");
  bool finished = false, second = false;
  std::promise<void> running;
  queue->submit([&, executor = queue.get()] {
    running.set_value();
    wait_for_end(*executor);
    finished = true;
  });
  queue->submit([&] { second = true; });
  running.get_future().wait();
  queue.reset();
  BOOST_TEST(finished);
  BOOST_TEST(!second);
}

BOOST_AUTO_TEST_CASE(WhatADroppedTaskHeldMaySubmitAsItGoes) {
  auto queue = make_cpu_queue("test");
  bool gone = false;
  queue->submit([executor = queue.get()] { wait_for_end(*executor); });
  std::shared_ptr<void> held(nullptr, [&, executor = queue.get()](void*) {
    executor->submit([] {});
    gone = true;
  });
  queue->submit([held = std::move(held)] {});
  queue.reset();
  BOOST_TEST(gone);
}

BOOST_AUTO_TEST_CASE(KernelsOnAQueueUseItsNumberOfThreads) {
  const int here = omp_get_max_threads();
  const auto queue = make_cpu_queue("test", 3);
  std::promise<int> threads;
  queue->submit([&] { threads.set_value(omp_get_max_threads()); });
  BOOST_TEST(threads.get_future().get() == 3);
  BOOST_TEST(omp_get_max_threads() == here);
}

BOOST_AUTO_TEST_SUITE_END()
