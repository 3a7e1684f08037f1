#pragma once
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <troupe/ps/control/coordinator_core.h>
#include <troupe/ps/data/sampler.h>

#include "reference.h"
#include "scenario.h"

namespace troupe::sim {

/// Watches a simulated run and says what is wrong with it. It hears every message as its sender says it,
/// everything that stores take, and what sources of gradients are given; it knows nothing of how the actors
/// work. The rules (DESIGN, failure):
///
///   exactly-once   a push is acknowledged only when stored; a contribution is stored once, as it was sent
///   staleness      a read holds what its policy promises, and says how stale it is; so do weights in use
///   sync-step      a step holds one contribution of every worker, and the group's one verdict
///   samples        every sample of every epoch is completed once, up to where the run ended
///   superseded     nothing is stored by, or on behalf of, an incarnation that was replaced
///   checkpoint     a checkpoint is everything at one step boundary and nothing after
///   stage          a stage computes with what its neighbours made of the same micro-batch
///   end            the run ends as it should, in time, and no actor fails of itself
class Oracle {
 public:
  explicit Oracle(const Scenario& scenario, uint64_t run_seed);

  /// What `envelope.from` says. Before the network: it may be lost.
  void said(const ps::Envelope& envelope);
  void stored(ps::ServerId server, const ps::Envelope& event);
  /// A worker's source is to compute a step, or a test; `weights` by layer.
  void computes(ps::WorkerId worker, const Batch& batch, std::span<const Tensor> weights);
  /// A stage is to begin a step; its samples come out in its gradients.
  void computes(ps::WorkerId worker, uint64_t seed, std::span<const Tensor> weights);
  void evaluates(ps::WorkerId worker, std::span<const Tensor> weights);
  /// The coordinator has heard that a piece of work is done, whether it could say so or not.
  void completed(const ps::Endpoint& worker, uint64_t number);
  void checkpointed(const ps::CheckpointRequest& request);
  /// `server` gives the replica `replica` an image, which stands for all that it has stored.
  void imaged(const ps::Endpoint& server, ps::Incarnation replica);
  /// `excused`: it had to fail.
  void finished(const ps::RunResult& result, bool stopped, bool excused = false);

  void violated(const char* rule, std::string what);
  /// The first violation: "exactly-once: ...".
  const std::optional<std::string>& violation() const { return violation_; }

 private:
  bool replica_completed(ps::WorkerId worker, ps::Step step) const;
  uint64_t seed_of(ps::WorkerId worker, ps::Step step) const;
  struct Dealt {
    ps::Work work;
    std::shared_ptr<const ps::Layout> layout;
    bool done = false;
    std::set<ps::Step> since = {};  ///< of this deal and the same again
  };
  /// Everything as it was when a round of snapshots was taken.
  struct Cut {
    uint64_t round = 0;
    size_t ranges = 0;                                                      ///< completed
    std::map<ps::SliceId, std::pair<std::vector<double>, int64_t>> slices;  ///< values, updates
  };
  using WorkerStep = std::pair<ps::WorkerId, ps::Step>;

  void on(const ps::Envelope& envelope, const ps::Push& push);
  void on(const ps::Envelope& envelope, const ps::PushAck& ack);
  void on(const ps::Envelope& envelope, const ps::Pull& pull);
  void on(const ps::Envelope& envelope, const ps::PullReply& reply);
  void on(const ps::Envelope& envelope, const ps::SnapshotReply& reply);
  void on(const ps::Envelope& envelope, const ps::Work& work);
  void on(const ps::Envelope& envelope, const ps::WorkDone& done);
  void on(const ps::Envelope& envelope, const ps::WorkDoneAck& ack);
  void on(const ps::Envelope& envelope, const ps::Verdict& verdict);
  void on(const ps::Envelope& envelope, const ps::Snapshot& snapshot);

  // Over several processes (oracle_replicated.cc).
  void on(const ps::Envelope& envelope, const ps::ReplicateAck& ack);
  void go_on_from_replica(ps::ServerId id, const ps::Endpoint& successor);
  void on(const ps::Envelope& envelope, const ps::Spawn& order);
  void go_on_from_checkpoint(const ps::Endpoint& successor, const ps::ShardImage& image);
  void check_clocks(const ps::Endpoint& successor, const ps::ShardImage& image);
  bool was_lost(const ps::Slice& slice, ps::WorkerId worker, ps::Step step, std::span<const float> values);
  bool was_lost_since(const ps::Slice& slice, size_t reloads, std::span<const float> values) const;
  void check_reported(const ps::RunResult& result);
  void stored_by_old(const ps::Envelope& event);
  void keep_versions(const ReferenceServer& server, const ps::Envelope& event);
  void check_held_reply(const ps::Envelope& envelope, const ps::PullReply& reply, ReferenceServer& server);

  void store_event(ReferenceServer& server, const ps::Envelope& event);
  void store(ReferenceServer& server, const ps::Envelope& event, const ps::Membership& membership);
  void store(ReferenceServer& server, const ps::Envelope& event, const ps::Push& push);
  void store(ReferenceServer& server, const ps::Envelope& event, const ps::Pull& pull);
  void store(ReferenceServer& server, const ps::Envelope& event, const ps::Verdict& verdict);
  void store(ReferenceServer& server, const ps::Envelope& event, const ps::Install& install);

  /// What `server` knows: the store, or what was in it when another took it over. Null: it never opened it.
  ReferenceServer* view_of(const ps::Endpoint& server);
  ReferenceSlice& slice(ps::SliceId id);
  /// A coordinator that was started again answers under a generation before it invites to it.
  const std::shared_ptr<const ps::Layout>& layout_of(ps::Generation generation) const {
    return std::prev(layouts_.upper_bound(generation))->second;
  }
  void take(ReferenceServer& server, const ps::Envelope& event, const ps::Push& push, ps::SliceId id,
            const Tensor& gradient);
  double rate(const ReferenceServer& server, const ReferenceSlice& slice, ps::WorkerId worker, int64_t samples) const;
  void settle(ReferenceServer& server, ReferenceSlice& slice, ps::Step step, const ps::Verdict& verdict);
  void reduce(ReferenceSlice& slice, ps::Step before);
  void check_reply(const ps::Envelope& envelope, const ps::PullReply& reply, ReferenceServer& server);
  std::optional<ps::Step> read_of(const ps::Slice& slice, std::span<const float> values) const;
  void remember_read(ps::SliceId slice, std::span<const float> values, ps::Step slowest);
  void check_weights(const Dealt& dealt, ps::WorkerId worker, const ps::Slice& slice, std::span<const float> values);
  bool right_version(const Dealt& dealt, ps::WorkerId worker, const ReferenceSlice& slice,
                     std::span<const float> values) const;
  bool repeated(const ReferenceSlice& slice, ps::WorkerId worker, ps::Step step, std::span<const float> values) const;
  void check_verdict(const ps::Verdict& verdict);
  void check_loss_scale(const ps::Envelope& envelope, const ps::Work& work);
  std::vector<ps::WorkerId> contributors(const ps::Envelope& envelope, const ps::Push& push) const;
  void check_gradient(const ps::Envelope& envelope, const ps::Push& push, std::span<const ps::WorkerId> all);
  std::string difference_from(const Cut& cut, const ps::CheckpointRequest& request) const;
  std::string check_samples(const ps::DealerState& state, size_t ranges) const;

  std::vector<uint32_t> samples_of(const ps::Work& work) const;
  size_t non_finite(ps::WorkerId worker, ps::Step step) const;
  bool any_non_finite(ps::Step step) const;
  bool took_part(ps::WorkerId worker, ps::Step step) const;
  std::vector<double> reduced_gradient(const ps::Slice& slice, ps::Step step) const;

  const Scenario& scenario_;
  uint64_t run_seed_;
  ps::Sampler sampler_;
  std::optional<std::string> violation_;

  std::map<ps::Generation, std::shared_ptr<const ps::Layout>> layouts_;
  std::vector<ReferenceServer> servers_;
  ReferenceSlice nothing_;
  std::map<ps::Endpoint, ReferenceServer> replaced_;  ///< what a server that was replaced knew, where that differs
  /// Under one sequence: a push; or a host's sum and what its sender says alone in its place, in a new generation.
  std::map<std::tuple<ps::Endpoint, ps::ServerId, ps::Sequence>, std::vector<ps::Push>> pushes_;
  std::map<std::tuple<ps::Endpoint, ps::ParcelId, uint64_t>, Tensor> asked_;  ///< rows, by the ticket of their pull
  std::map<std::pair<ps::Endpoint, uint64_t>, Dealt> dealt_;  ///< by whom and number
  std::map<WorkerStep, Dealt> steps_;
  std::set<ps::WorkerId> restarted_;  ///< of asynchronous pipelines: whose replica was started again
  std::map<uint64_t, WorkerStep> seeds_;  ///< Batch::seed
  std::set<WorkerStep> completed_;
  std::vector<ps::SampleRange> ranges_;  ///< completed, in order
  std::deque<Cut> cuts_;                 ///< no checkpoint has been taken for a newer one
  std::map<ps::Step, ps::Verdict> verdicts_;
  std::map<std::pair<ps::SliceId, uint64_t>, ps::Step> read_;  ///< slowest clock by hash of values read
  std::map<ps::SliceId, std::vector<std::pair<std::vector<float>, ps::Step>>> row_reads_;  ///< the same, by rows
  ps::Step last_step_;                                         ///< dealt

  /// What a server says over several processes leaves when its replica has what came before it.
  struct Version {
    std::vector<double> values;
    ps::Step base = 0, slowest = 0;
  };
  using Pair = std::pair<ps::Endpoint, ps::Endpoint>;                   ///< replica and server
  std::vector<std::vector<ps::Envelope>> logs_;                         ///< by server: what its store took
  std::map<Pair, size_t> images_;                                       ///< events that the image stands for
  std::map<Pair, uint64_t> acknowledged_;                               ///< events after it that the replica has
  std::map<ps::Endpoint, ps::Endpoint> take_overs_;                     ///< server, the replica that becomes it
  std::set<std::tuple<ps::SliceId, ps::WorkerId, ps::Step>> told_;      ///< that it is stored
  std::map<ps::SliceId, std::vector<Version>> versions_;                ///< of immediate policies
  std::optional<ps::DealerState> last_checkpoint_;

  // Servers that go on from checkpoints.
  std::vector<ReferenceServer> log_begins_;                             ///< what `logs_` follow, by server
  std::optional<ps::CheckpointRequest> saved_;                          ///< the newest
  std::vector<ps::LostRange> losses_;                                   ///< to be reported: at least these
  size_t reloads_ = 0;                                                  ///< so far
  std::map<ps::Endpoint, size_t> lost_;                                 ///< server, the reload that followed it
  std::map<ps::WorkerId, size_t> tests_;                                ///< reloads when its test was dealt
  ps::Step rebased_ = 0;
};

}  // namespace troupe::sim
