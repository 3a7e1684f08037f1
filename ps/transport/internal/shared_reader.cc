#include <troupe/ps/transport/internal/shared_reader.h>

namespace troupe::ps {
namespace {

constexpr int kTurn = 16;  // messages of one sender before the next has its turn

// How long the memory of a killed sender may stay. Bounds also what a peer can do by scribbling over the doorbell.
constexpr std::chrono::milliseconds kLookAround{1000};

}  // namespace

Result<std::unique_ptr<SharedReader>> SharedReader::start(Sinks sinks, Options options) {
  auto bell = Doorbell::create();
  if (!bell) return tl::unexpected(bell.error());
  return std::unique_ptr<SharedReader>(new SharedReader(std::move(*bell), std::move(sinks), options));
}

SharedReader::SharedReader(Doorbell bell, Sinks sinks, Options options)
    : bell_(std::move(bell)),
      sinks_(std::move(sinks)),
      options_(options),
      lookout_(options.look),
      thread_([this] { run(); }) {}

SharedReader::~SharedReader() {
  ended_ = true;
  bell_.ring();
  thread_.join();
}

Result<SharedReader::Attached> SharedReader::attach(uint64_t link, const SharedOffer& offer, const SharedOffer& heap) {
  auto lends = heap.pid == offer.pid ? heaps_.open(heap) : nullptr;
  const Attached attached{lends != nullptr};
  auto receiver = SharedReceiver::open(offer, options_.arena_limit_bytes, std::move(lends));
  if (!receiver) return tl::unexpected(receiver.error());
  {
    std::lock_guard lock(mutex_);
    changes_.push_back({link, std::move(*receiver)});
  }
  changed_ = true;
  bell_.ring();
  return attached;
}

void SharedReader::detach(uint64_t link) {
  {
    std::lock_guard lock(mutex_);
    changes_.push_back({link, nullptr});
  }
  changed_ = true;
  bell_.ring();
}

void SharedReader::run() {
  while (!ended_) {
    if (changed_.exchange(false)) apply_changes();
    const bool any = read_all();
    if (any && std::chrono::steady_clock::now() < next_look_) continue;
    if (!let_go() && !any) sleep();
  }
}

void SharedReader::apply_changes() {
  std::vector<Change> changes;
  {
    std::lock_guard lock(mutex_);
    changes.swap(changes_);
  }
  for (Change& change : changes) {
    if (change.receiver)
      links_.emplace(change.link, std::move(change.receiver));
    else
      finish(change.link);
  }
}

void SharedReader::finish(uint64_t link) {
  // All that can be there: a living sender that goes on must not keep us here.
  read(link, static_cast<int>(shared::kBlocks));
  if (links_.erase(link)) sinks_.ended(link, {});
}

bool SharedReader::let_go() {
  const auto now = std::chrono::steady_clock::now();
  const bool look = now >= next_look_;
  if (look) next_look_ = now + kLookAround;
  if (look && sinks_.looking_around) sinks_.looking_around();
  std::vector<std::shared_ptr<PeerHeap>> ended;
  if (look) ended = heaps_.take_ended();  // first: each of their rings is found orphaned now, and read to its end
  std::vector<uint64_t> gone;
  for (const auto& [link, receiver] : links_)
    if (receiver->closed() || (look && receiver->orphaned())) gone.push_back(link);
  for (const uint64_t link : gone) finish(link);
  for (const auto& heap : ended) heap->let_go();
  return !gone.empty();
}

bool SharedReader::read(uint64_t link, int most) {
  const auto found = links_.find(link);
  if (found == links_.end()) return false;
  const SharedReceiver::Sink sink = [&](std::span<const std::byte> head, std::vector<Tensor> payloads) {
    sinks_.message(link, head, std::move(payloads));
  };
  for (int i = 0; i < most; ++i) {
    const auto received = found->second->receive(sink);
    if (!received) {
      links_.erase(found);
      sinks_.ended(link, tl::unexpected(received.error()));
      return true;
    }
    if (!*received) return i > 0;
  }
  return true;
}

bool SharedReader::read_all() {
  bool any = false;
  for (auto next = links_.begin(); next != links_.end();) {
    const uint64_t link = next->first;
    ++next;  // reading may remove it
    any |= read(link, kTurn);
  }
  return any;
}

bool SharedReader::anything_waits() {
  if (changed_ || ended_) return true;
  for (const auto& [link, receiver] : links_)
    if (receiver->waiting()) return true;
  return false;
}

void SharedReader::sleep() {
  if (lookout_.look([this] { return anything_waits(); })) return;
  bell_.announce_sleep();
  if (anything_waits())
    bell_.stay();
  else
    bell_.wait(kLookAround);
}

}  // namespace troupe::ps
