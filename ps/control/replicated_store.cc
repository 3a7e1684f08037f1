#include <troupe/ps/control/replicated_store.h>

#include <utility>

namespace troupe::ps {
namespace {

int64_t bytes_of(const std::vector<Tensor>& tensors) {
  int64_t bytes = 0;
  for (const Tensor& t : tensors) bytes += static_cast<int64_t>(t.bytes());
  return bytes;
}

int64_t bytes_of(const Envelope& event) {
  const auto of_rows = [](const Tensor& rows) { return rows ? bytes_of({rows}) : 0; };
  if (const auto* push = std::get_if<Push>(&event.body)) return bytes_of(push->gradients) + of_rows(push->rows);
  if (const auto* pull = std::get_if<Pull>(&event.body)) return of_rows(pull->rows);
  int64_t bytes = 0;
  if (const auto* install = std::get_if<Install>(&event.body))
    for (const SliceState& s : install->slices) bytes += bytes_of({s.values}) + bytes_of(s.state);
  return bytes;
}

class ReplicatedStore final : public ShardStore {
 public:
  explicit ReplicatedStore(ReplicationOptions options) : options_(options) {}

  Status open(Generation generation, const std::function<void(const Envelope&)>&) override {
    return fence_.open(generation);
  }

  Status append(Generation generation, const Envelope& event) override {
    TROUPE_TRY(fence_.pass(generation));
    generation_ = generation;
    ++appended_;
    if (const auto* m = std::get_if<Membership>(&event.body)) follow(event.to, *m);
    if (replica_ == 0)
      safe_ = appended_;
    else if (!wants_image_)
      enqueue({appended_ - base_, std::make_shared<const Envelope>(event), nullptr}, bytes_of(event));
    return {};
  }

  bool wants_image() const override { return wants_image_; }
  Status compact(Generation generation, std::shared_ptr<const ShardImage> image) override {
    TROUPE_TRY(fence_.pass(generation));
    if (!std::exchange(wants_image_, false)) return {};  // nobody to hold it
    base_ = appended_;
    enqueue({0, nullptr, std::move(image)}, 0);
    return {};
  }

  uint64_t appended() const override { return appended_; }
  uint64_t safe() const override { return safe_; }
  bool full() const override { return waiting_bytes_ > options_.window_bytes; }

  Outbox say(bool again) override {
    Outbox out;
    if (again && !std::exchange(progress_, false)) {
      int64_t bytes = 0;
      for (size_t i = 0; i < said_ && (i == 0 || bytes < options_.repeat_bytes); ++i) {
        out.push_back(envelope(waiting_[i]));
        bytes += waiting_[i].bytes;
      }
    }
    for (; said_ < waiting_.size(); ++said_) out.push_back(envelope(waiting_[said_]));
    return out;
  }

  void hear(const Envelope& e) override {
    const auto* ack = std::get_if<ReplicateAck>(&e.body);
    if (!ack || e.from != replica() || replica_ == 0 || wants_image_) return;
    while (said_ > 0 && waiting_.front().what.index <= ack->index) {
      safe_ = base_ + waiting_.front().what.index;
      waiting_bytes_ -= waiting_.front().bytes;
      waiting_.pop_front();
      --said_;
      progress_ = true;
    }
  }

 private:
  struct Waiting {
    Replicate what;
    int64_t bytes = 0;
  };

  Endpoint replica() const { return {Role::replica, options_.server, replica_}; }
  Envelope envelope(const Waiting& w) const { return {self_, replica(), generation_, w.what}; }

  void enqueue(Replicate what, int64_t bytes) {
    waiting_.push_back({std::move(what), bytes});
    waiting_bytes_ += bytes;
  }

  // Another replica begins with an image; what the one before it has not got is in that image.
  void follow(const Endpoint& self, const Membership& m) {
    self_ = self;
    const Incarnation named = options_.server < m.replicas.size() ? m.replicas[options_.server] : 0;
    if (named == replica_) return;
    replica_ = named;
    wants_image_ = named != 0;
    waiting_.clear();
    waiting_bytes_ = 0;
    said_ = 0;
  }

  const ReplicationOptions options_;
  Fence fence_;
  Endpoint self_;
  Generation generation_ = 0;
  Incarnation replica_ = 0;
  bool wants_image_ = false, progress_ = false;
  uint64_t appended_ = 0, safe_ = 0;
  uint64_t base_ = 0;            // events before the image
  std::deque<Waiting> waiting_;  // not acknowledged, ascending index
  size_t said_ = 0;              // of them
  int64_t waiting_bytes_ = 0;
};

}  // namespace

std::shared_ptr<ShardStore> make_replicated_store(ReplicationOptions options) {
  return std::make_shared<ReplicatedStore>(options);
}

}  // namespace troupe::ps
