#pragma once
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include <troupe/ps/messages.h>
#include <troupe/ps/param/optimizer.h>
#include <troupe/ps/param/shard_image.h>
#include <troupe/ps/param/shard_store.h>

namespace troupe::ps {

class ShardDevice;

/// How an immediate push is weighed against the synchronous mean: `none` takes the full learning rate,
/// `samples` rate x samples / global batch (so that a round of all workers' pushes moves as far as one
/// synchronous step), `staleness` rate / (1 + updates that came between its read and its push).
enum class ImmediateScale : uint8_t { none, samples, staleness };

struct ShardOptions {
  Endpoint self;  ///< server, index, incarnation
  Endpoint coordinator{Role::coordinator, 0, 1};
  std::shared_ptr<const Optimizer> optimizer;
  ImmediateScale scale = ImmediateScale::samples;
  int64_t global_batch = 1;  ///< samples; for ImmediateScale::samples
  /// Sync steps wait for the coordinator's verdict: set when clipping is on or a non-finite gradient skips.
  bool needs_verdict = false;
  /// Where parameters and optimizer state live; null: in host memory. The tensors of what is said lie in host memory
  /// all the same, and are to be read once the device has come to them (ShardDevice::then). [host memory]
  std::shared_ptr<ShardDevice> device;
};

/// A server without its actor: it takes an envelope and returns what to send. No thread, clock, file or
/// socket; two shards fed the same envelopes in the same order are equal bit for bit.
///
/// What it promises (DESIGN, failure): an acknowledged push is applied exactly once; a sync layer's step sees one
/// contribution of every worker; a read never lags more than its policy allows; an envelope of an older
/// generation changes nothing.
class Shard {
 public:
  /// First parameters of a slice, where the store has nothing: from the model's initialiser or a checkpoint.
  using InitialState = std::function<SliceState(const Slice&)>;

  /// The store is opened for the first Membership that comes. Until then everything is refused.
  Shard(ShardOptions options, std::shared_ptr<ShardStore> store, InitialState initial);
  ~Shard();

  /// Goes on from an image of this server's shard, whoever it was taken of: what the store holds is older, and is
  /// replaced by the image. Nothing is said before a Membership of that generation or a newer one names `self`. An
  /// image that cannot be is an error.
  static Result<std::unique_ptr<Shard>> make_from(const ShardImage& image, ShardOptions options,
                                                  std::shared_ptr<ShardStore> store, InitialState initial);
  /// Everything up to now. A Membership has come. Waits for the device, where there is one.
  ShardImage image() const;
  /// Takes an event that another shard took in the state that this one is in (its twin: same image, same events
  /// before), without a word and without storing it. An error where it cannot follow: these are no twins any more.
  Status follow(const Envelope& event);

  /// Push, Pull, Membership, Verdict, Snapshot, Install and StatsRequest; anything else is ignored.
  Outbox handle(const Envelope& envelope);

  /// What was said and waits for an answer: to be sent again from time to time on a transport that loses
  /// messages.
  Outbox tick() const;

  /// The store was taken over by a newer incarnation: nothing is answered any more.
  bool fenced() const;

  /// For replay and the simulator's oracle. ------------------------------------------------------------------
  struct Event {
    enum class Kind : uint8_t { push, pull };
    Kind kind = Kind::push;
    WorkerId worker = 0;
    ParcelId parcel = 0;
    Step step = 0;
    bool operator==(const Event&) const = default;
  };
  /// Called in the order in which immediate pushes are applied and immediate reads are answered.
  void on_event(std::function<void(const Event&)> observer);
  /// From now on immediate pushes and reads wait for their turn in `order` (a recorded run).
  void replay(std::vector<Event> order);

  /// Parameters as they are, one a slice held here, ascending. Waits for the device, where there is one.
  std::vector<SliceState> state() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe::ps
