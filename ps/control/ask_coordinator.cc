#include <troupe/ps/control/ask_coordinator.h>

#include <condition_variable>
#include <mutex>
#include <optional>

#include <troupe/kernels/base/text.h>

namespace troupe::ps {
namespace {

constexpr std::chrono::milliseconds kAgain{300};

struct Answer {
  std::mutex mutex;
  std::condition_variable came;
  std::optional<std::string> json;
};

}  // namespace

Result<std::string> ask_coordinator(Transport& transport, const Endpoint& self, const Message& question,
                                    std::chrono::milliseconds patience) {
  const auto answer = std::make_shared<Answer>();  // a sink may be called while it is detached
  transport.attach(self, [answer](EnvelopePtr envelope) {
    const auto* reply = std::get_if<StatusReply>(&envelope->body);
    if (!reply) return;
    std::lock_guard lock(answer->mutex);
    answer->json = reply->json;
    answer->came.notify_all();
  });
  const auto until = std::chrono::steady_clock::now() + patience;
  std::unique_lock lock(answer->mutex);
  while (!answer->json && std::chrono::steady_clock::now() < until) {
    lock.unlock();
    transport.send({self, {Role::coordinator, 0, 1}, 0, question});
    lock.lock();
    answer->came.wait_until(lock, std::min(until, std::chrono::steady_clock::now() + kAgain),
                            [&] { return answer->json.has_value(); });
  }
  auto json = std::move(answer->json);
  lock.unlock();
  transport.detach(self);
  if (json) return std::move(*json);
  return fail(ErrorKind::failed, cat("no answer within ", static_cast<double>(patience.count()) / 1000, " s"));
}

}  // namespace troupe::ps
