#include <troupe/ps/transport/internal/shared_peers.h>

#include <utility>

#include <troupe/ps/transport/internal/process_handle.h>

namespace troupe::ps {
namespace {

// Rings that are read at once, so that nobody can fill this process's address space.
constexpr size_t kMostSources = 1024;

// Some times what it takes to wake a thread on another core.
constexpr std::chrono::microseconds kLook{50};

Outgoing outgoing(const SharedFrame& frame, std::string route = {}) {
  return {{to_bytes(frame), {}}, 0, std::move(route)};
}

}  // namespace

Result<std::unique_ptr<SharedPeers>> SharedPeers::start(Options options, Handlers handlers) {
  std::unique_ptr<SharedPeers> peers(new SharedPeers(options, std::move(handlers)));
  SharedReader::Sinks sinks{
      .message = [p = peers.get()](uint64_t number, std::span<const std::byte> head,
                                   std::vector<Tensor> payloads) { p->received(number, head, std::move(payloads)); },
      .ended =
          [p = peers.get()](uint64_t number, const Status& why) {
            std::unique_lock lock(p->mutex_);
            p->sources_.erase(number);
            lock.unlock();
            if (!why) p->handlers_.nonsense(why.error().message);
          },
      .looking_around = [p = peers.get()] { p->take_back(); }};
  auto reader = SharedReader::start(std::move(sinks), {.arena_limit_bytes = options.arena_limit_bytes, .look = kLook});
  if (!reader) return tl::unexpected(reader.error());
  peers->reader_ = std::move(*reader);
  return peers;
}

void SharedPeers::connected(Link& link) {
  lost(link);
  auto ring = SharedSender::create(options_.arena_bytes);
  if (!ring) return;  // no more memory or files: the socket does it
  const SharedOffer offer = (*ring)->offer();
  offered_[offer.token] = {link.weak_from_this(), std::move(*ring)};
  link.post(outgoing({SharedFrame::Kind::offer, offer, {}, heap_ ? heap_->offer() : SharedOffer{}}));
}

void SharedPeers::lost(Link& link) {
  link.set_ring(nullptr);
  std::erase_if(offered_, [&](const auto& offered) {
    const auto at = offered.second.link.lock();
    return !at || at.get() == &link;
  });
}

void SharedPeers::take(const SharedFrame& frame, const Incoming& message) {
  switch (frame.kind) {
    case SharedFrame::Kind::offer: {
      const auto attached = attach(frame, message);
      SharedFrame answer{SharedFrame::Kind::decline, frame.ring, {}, {}};
      if (attached) answer = {SharedFrame::Kind::accept, frame.ring, reader_->doorbell(), {}};
      if (attached && attached->borrows) answer.heap = frame.heap;
      if (!message.route.empty()) handlers_.answer(outgoing(answer, message.route));
      break;
    }
    case SharedFrame::Kind::accept: accepted(frame); break;
    case SharedFrame::Kind::decline: offered_.erase(frame.ring.token); break;
  }
}

std::optional<SharedReader::Attached> SharedPeers::attach(const SharedFrame& offer, const Incoming& offered_by) {
  std::unique_lock lock(mutex_);
  if (sources_.size() >= kMostSources) return std::nullopt;
  const uint64_t number = ++attached_;
  sources_[number] = {offered_by.route, offered_by.key_role};  // first: messages come at once
  lock.unlock();
  if (const auto attached = reader_->attach(number, offer.ring, offer.heap)) return *attached;
  lock.lock();
  sources_.erase(number);
  return std::nullopt;
}

void SharedPeers::accepted(const SharedFrame& frame) {
  const auto found = offered_.find(frame.ring.token);
  if (found == offered_.end()) return;
  const Offered offered = std::move(found->second);
  offered_.erase(found);
  // Before the doorbell: a process that has that open is the one that the number means.
  FileDescriptor receiver = open_process(frame.doorbell.pid);
  auto doorbell = Doorbell::open(frame.doorbell);
  const auto link = offered.link.lock();
  if (!doorbell || !link) return;
  offered.ring->set_doorbell(std::move(*doorbell));
  // What earlier rings lent and did not get back bounds what is lent in all, also where connections break again and
  // again.
  const bool lends = heap_ && frame.heap == heap_->offer() && heap_->take_back() <= options_.arena_bytes;
  if (lends && receiver.get() >= 0) {
    offered.ring->lend(*heap_, std::move(receiver));
    std::lock_guard lock(mutex_);
    lending_.push_back(offered.ring);
  }
  link->set_ring(offered.ring);
}

void SharedPeers::take_back() {
  std::vector<std::shared_ptr<SharedSender>> rings;
  {
    std::lock_guard lock(mutex_);
    std::erase_if(lending_, [&](const std::weak_ptr<SharedSender>& each) {
      if (auto ring = each.lock()) rings.push_back(std::move(ring));
      return each.expired();
    });
  }
  for (const auto& ring : rings) ring->lent_bytes();
  if (heap_) heap_->take_back();
}

void SharedPeers::received(uint64_t number, std::span<const std::byte> head, std::vector<Tensor> payloads) {
  Incoming message;
  {
    std::lock_guard lock(mutex_);
    const Source& source = sources_[number];
    message.route = source.route;
    message.key_role = source.key_role;
  }
  message.shared = true;
  message.head = zmq::message_t(head.data(), head.size());
  message.bytes = head.size();
  for (const Tensor& payload : payloads) message.bytes += payload.bytes();
  message.payloads = std::move(payloads);
  handlers_.message(message);
}

}  // namespace troupe::ps
