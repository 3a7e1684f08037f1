#include <tests/support/cuda/fiber.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

namespace troupe::test::cuda {

Stacks::~Stacks() {
  for (auto& stack : free_) source_.deallocate(stack);
}

boost::context::stack_context Stacks::allocate() {
  if (free_.empty()) return source_.allocate();
  const boost::context::stack_context stack = free_.back();
  free_.pop_back();
  return stack;
}

namespace {

// Remembers the stack that it hands out, and gives it back where it came from.
struct OneStack {
  Stacks* stacks;
  boost::context::stack_context* used;
  boost::context::stack_context allocate() { return *used = stacks->allocate(); }
  void deallocate(boost::context::stack_context& stack) { stacks->deallocate(stack); }
};

}  // namespace

Fiber::~Fiber() {
  if (!inside_) return;
  left_caller();
  inside_ = {};  // throws inside, at the place where it was left
  back_in_caller();
}

void Fiber::start(Stacks& stacks, const std::function<void()>& body) {
  inside_ = boost::context::fiber(std::allocator_arg, OneStack{&stacks, &stack_}, [this, &body](auto&& caller) {
    struct Leave {
      Fiber& fiber;
      ~Leave() { fiber.leaving_for_ever(); }
    };
    caller_ = std::move(caller);
    entered();
    const Leave leave{*this};
    body();
    return std::move(caller_);
  });
}

bool Fiber::resume() {
  left_caller();
  inside_ = std::move(inside_).resume();
  back_in_caller();
  return static_cast<bool>(inside_);
}

void Fiber::suspend() {
  struct BackInside {  // also when the fiber is unwound from here
    Fiber& fiber;
    ~BackInside() { fiber.entered(); }
  };
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(&fake_inside_, caller_stack_, caller_bytes_);
#endif
  const BackInside back{*this};
  caller_ = std::move(caller_).resume();
}

void Fiber::left_caller() {
#ifdef __SANITIZE_ADDRESS__
  const char* top = static_cast<const char*>(stack_.sp);
  __sanitizer_start_switch_fiber(&fake_caller_, top - stack_.size, stack_.size);
#endif
}

void Fiber::back_in_caller() {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(fake_caller_, nullptr, nullptr);
#endif
}

void Fiber::entered() {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(fake_inside_, &caller_stack_, &caller_bytes_);
#endif
}

void Fiber::leaving_for_ever() {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(nullptr, caller_stack_, caller_bytes_);
#endif
}

}  // namespace troupe::test::cuda
