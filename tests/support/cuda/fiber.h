#pragma once
#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <functional>
#include <vector>

namespace troupe::test::cuda {

/// Stacks with a guard page below each, used again by the next fiber: mapping one costs more than a kernel thread runs.
class Stacks {
 public:
  Stacks() = default;
  ~Stacks();
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;

  boost::context::stack_context allocate();
  void deallocate(boost::context::stack_context& stack) { free_.push_back(stack); }

 private:
  boost::context::protected_fixedsize_stack source_{128 * 1024};
  std::vector<boost::context::stack_context> free_;
};

/// A function that can be left in the middle and entered again, on one operating system thread.
class Fiber {
 public:
  Fiber() = default;
  /// Destroyed in the middle, it unwinds its stack.
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// `body` must outlive the fiber and must not throw (but let pass what unwinds it).
  void start(Stacks& stacks, const std::function<void()>& body);
  /// Started, and neither ended nor destroyed.
  bool alive() const { return static_cast<bool>(inside_); }
  /// Runs until the next `suspend` or the end; false: it ended.
  bool resume();
  /// Called inside, back to whoever called `resume`.
  void suspend();

 private:
  void left_caller();
  void back_in_caller();
  void entered();
  void leaving_for_ever();

  boost::context::fiber inside_, caller_;
  // What AddressSanitizer wants to hear of a change of stacks.
  const void* caller_stack_ = nullptr;
  size_t caller_bytes_ = 0;
  void *fake_inside_ = nullptr, *fake_caller_ = nullptr;
  boost::context::stack_context stack_;
};

}  // namespace troupe::test::cuda
