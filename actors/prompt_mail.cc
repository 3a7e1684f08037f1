#include <troupe/actors/prompt_mail.h>

#include <limits>

namespace troupe {
namespace {

// So many messages of its mailbox, then the scheduler goes on with the actor: the thread here has others to serve.
constexpr size_t kMostMessages = 4;
constexpr size_t kMostBytes = 128 << 10;

/// Takes the first actor that becomes ready and leaves others to the scheduler.
class HereUnit final : public caf::execution_unit {
 public:
  explicit HereUnit(caf::actor_system& system) : execution_unit(&system) {}

  void exec_later(caf::resumable* ready) override {
    if (first_ || taken_) return system().scheduler().enqueue(ready);
    first_ = ready;
  }

  void run() {
    taken_ = true;
    auto* const job = std::exchange(first_, nullptr);
    if (!job) return;
    if (job->resume(this, kMostMessages) == caf::resumable::resume_later)
      system().scheduler().enqueue(job);
    else
      caf::intrusive_ptr_release(job);
  }

 private:
  caf::resumable* first_ = nullptr;
  bool taken_ = false;
};

template <class Content>
void run_here(const caf::actor& to, Content content) {
  HereUnit unit(to.home_system());
  to->enqueue(caf::make_mailbox_element(nullptr, caf::make_message_id(), {}, std::move(content)), &unit);
  unit.run();
}

bool quick(const ps::Message& message) {
  return std::holds_alternative<ps::Push>(message) || std::holds_alternative<ps::PushAck>(message) ||
         std::holds_alternative<ps::Pull>(message) || std::holds_alternative<ps::PullReply>(message);
}

}  // namespace

size_t most_bytes_here(caf::actor_system& system) {
  return system.scheduler().num_workers() > 1 ? kMostBytes : std::numeric_limits<size_t>::max();
}

void deliver_here(const caf::actor& to, ps::EnvelopePtr envelope) {
  if (!quick(envelope->body)) return caf::anon_send(to, std::move(envelope));
  run_here(to, std::move(envelope));
}

void report_here(const caf::actor& to, TaskDonePtr done) { run_here(to, std::move(done)); }

}  // namespace troupe
