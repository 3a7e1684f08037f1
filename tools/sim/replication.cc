#include "replication.h"

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include <troupe/kernels/base/random.h>
#include <troupe/kernels/base/text.h>
#include <troupe/ps/control/replica_core.h>
#include <troupe/ps/control/replicated_store.h>
#include <troupe/ps/control/server_core.h>
#include <troupe/ps/transport/simulated_transport.h>

#include "agenda.h"
#include "message_text.h"

namespace troupe::sim {
namespace {

using ps::Endpoint;
using ps::Envelope;
using ps::Outbox;
using ps::ParcelId;
using ps::Role;
using ps::Step;
using ps::WorkerId;

constexpr int64_t kTickUs = 20'000, kNoticeUs = 40'000, kPatienceUs = 10'000'000;
constexpr int64_t kCount = 16;  // elements a parcel
const Endpoint kCoordinator{Role::coordinator, 0, 1};

/// Small, different for every contribution, and a multiple of every number of workers: means are integers.
float gradient_of(WorkerId worker, ParcelId parcel, Step step) {
  return static_cast<float>(4 * (1 + static_cast<int64_t>(worker) + 5 * parcel + 7 * step));
}

class Replication {
 public:
  Replication(uint64_t seed, size_t trace)
      : random_(derive_seed(seed, "replication")), wire_(random_.bits64(), draw_network()), trace_(trace) {
    workers_.resize(size_t{1} << random_.below(3));
    steps_ = 3 + static_cast<Step>(random_.below(8));
    make_layout();
    for (Worker& worker : workers_) {
      worker.next.assign(parcels(), 0);
      worker.waiting.resize(parcels());
    }
    wire_.on_delivery([this](const Envelope& e) {
      hash_ = (hash_ ^ hash_of(e)) * 1099511628211;
      note([&] { return describe(e); });
    });
    for (int64_t i = static_cast<int64_t>(random_.below(6)); i > 0; --i)
      agenda_.at(static_cast<int64_t>(random_.below(300'000)), [this] { befall(); });
  }

  ReplicationResult run() {
    attach(kCoordinator, [this](const Envelope& e) { on_coordinator(e); });
    for (WorkerId w = 0; w < workers_.size(); ++w) attach(worker(w), [this, w](const Envelope& e) { on_worker(w, e); });
    const auto its_store = store();
    start_server(std::make_unique<ps::Shard>(options(), its_store, initial()), its_store);
    change_membership();
    agenda_.at(static_cast<int64_t>(random_.below(50'000)), [this] { start_replica(); });
    tick();
    while (!violation_ && !done()) step();
    if (!violation_) check_sum();
    std::string text;
    for (const std::string& line : lines_) text += line + "\n";
    return {hash_, events_, takeovers_, violation_, text};
  }

 private:
  struct Worker {
    ps::Generation generation = 0;
    ps::Incarnation server = 0;
    ps::Sequence sent = 0;
    std::vector<Step> next;                        // by parcel
    std::vector<std::optional<ps::Push>> waiting;  // not acknowledged
    std::vector<ps::Membership> heard;
  };

  // ---- who there is ---------------------------------------------------------------------------------------------

  ps::NetworkFaults draw_network() {
    ps::NetworkFaults faults;
    const double loss[] = {0, 0.02, 0.1, 0.2}, doubled[] = {0, 0.05, 0.3};
    const int64_t delay[] = {200, 2'000, 15'000, 60'000};
    faults.loss = loss[random_.below(4)];
    faults.duplication = doubled[random_.below(3)];
    faults.max_delay_us = delay[random_.below(4)];
    return faults;
  }

  void make_layout() {
    const ps::Policy choices[] = {{ps::Mode::sync}, {ps::Mode::async}, {ps::Mode::ssp, 1}};
    std::vector<LayerSpec> layers;
    std::vector<ps::Policy> policies;
    for (uint64_t i = 0, n = 1 + random_.below(3); i < n; ++i) {
      const std::string name = cat("layer", i);
      layers.push_back({name, kCount, {{name + ".weight", {kCount}, 0, ParamKind::weight}}});
      policies.push_back(choices[random_.below(3)]);
    }
    ps::LayoutOptions sizes;
    sizes.fuse_bytes = 0;
    layout_ = std::make_shared<ps::Layout>(ps::make_layout(std::move(layers), std::move(policies), sizes));
  }

  size_t parcels() const { return layout_->parcels.size(); }
  Endpoint worker(WorkerId w) const { return {Role::worker, w, 1}; }
  Endpoint server() const { return {Role::server, 0, server_}; }
  Endpoint replica() const { return {Role::replica, 0, replica_}; }

  ps::ShardOptions options() const {
    ps::ShardOptions options;
    options.self = server();
    ps::OptimizerOptions sgd;
    sgd.learning_rate = 1;
    options.optimizer = *ps::make_optimizer(sgd);
    options.scale = ps::ImmediateScale::none;
    return options;
  }
  static ps::Shard::InitialState initial() {
    return [](const ps::Slice& slice) { return ps::SliceState{slice.id, Tensor::zeros({slice.count()}), {}, 0}; };
  }
  static std::shared_ptr<ps::ShardStore> store() { return ps::make_replicated_store({}); }

  void attach(const Endpoint& who, std::function<void(const Envelope&)> take) {
    wire_.attach(who, [take = std::move(take)](const ps::EnvelopePtr& e) { take(*e); });
  }

  void start_server(std::unique_ptr<ps::Shard> shard, std::shared_ptr<ps::ShardStore> its_store) {
    const Endpoint who = server();
    auto core = std::make_shared<ps::ServerCore>(options(), std::move(shard), std::move(its_store));
    servers_[who] = core;
    attach(who, [this, core](const Envelope& e) { say(core->handle(e)); });
  }

  void start_replica() {
    ++replica_;
    note([&] { return cat(replica(), " begins"); });
    twin_ = std::make_shared<ps::ReplicaCore>(ps::ReplicaOptions{replica(), options(), initial()});
    synced_ = false;
    attach(replica(), [this, twin = twin_](const Envelope& e) { say(twin->handle(e)); });
    change_membership();
  }

  // ---- the network ----------------------------------------------------------------------------------------------

  void say(Outbox out) {
    for (Envelope& e : out) {
      if (const auto* ack = std::get_if<ps::PushAck>(&e.body)) acknowledged(e, *ack);
      if (std::holds_alternative<ps::Fault>(e.body)) violate(cat("end: ", std::get<ps::Fault>(e.body).what));
      wire_.send(std::move(e));
    }
  }
  void say(const Endpoint& from, const Endpoint& to, ps::Generation generation, ps::Message body) {
    wire_.send({from, to, generation, std::move(body)});
  }

  void step() {
    const int64_t message = wire_.empty() ? agenda_.next_us() : wire_.next_us();
    agenda_.now_us = std::max(agenda_.now_us, std::min(message, agenda_.next_us()));
    wire_.set_now_us(agenda_.now_us);
    if (++events_ > 400'000 || agenda_.now_us > kPatienceUs) return violate("end: the run does not end");
    if (message < agenda_.next_us())
      wire_.deliver_next();
    else
      agenda_.run_next();
  }

  void tick() {
    for (auto& [who, core] : servers_) say(core->tick());
    if (twin_) say(twin_->tick());
    for (WorkerId w = 0; w < workers_.size(); ++w) repeat(w);
    for (const Endpoint& who : unacknowledged_) say(kCoordinator, who, membership_.generation, membership_);
    agenda_.at(agenda_.now_us + kTickUs, [this] { tick(); });
  }

  // ---- the coordinator ------------------------------------------------------------------------------------------

  void change_membership() {
    membership_ = {membership_.generation + 1, std::vector<ps::Incarnation>(workers_.size(), 1), {server_}, layout_};
    membership_.replicas = {twin_ ? replica_ : 0};
    unacknowledged_ = {server()};
    for (WorkerId w = 0; w < workers_.size(); ++w) unacknowledged_.insert(worker(w));
    for (const Endpoint& who : unacknowledged_) say(kCoordinator, who, membership_.generation, membership_);
  }

  void on_coordinator(const Envelope& e) {
    if (std::holds_alternative<ps::MembershipAck>(e.body) && e.generation == membership_.generation)
      unacknowledged_.erase(e.from);
    if (const auto* synced = std::get_if<ps::Synced>(&e.body)) {
      if (twin_ && e.from == replica() && synced->server == server()) synced_ = true;
      say(kCoordinator, e.from, membership_.generation, ps::SyncedAck{synced->server});
    }
  }

  // One of the two, never both before a new replica is in step.
  void befall() {
    if (!twin_ || !synced_ || done()) return;
    const uint64_t kind = random_.below(3);
    if (kind == 0) {
      note([&] { return cat(replica(), " crashes"); });
      wire_.detach(replica());
      twin_.reset();
      agenda_.at(agenda_.now_us + kNoticeUs, [this] { change_membership(); });
      agenda_.at(agenda_.now_us + 2 * kNoticeUs, [this] { start_replica(); });
      return;
    }
    note([&] { return cat(server(), kind == 1 ? " crashes" : " is given up"); });
    if (kind == 1) wire_.detach(server()), servers_.erase(server());
    in_doubt_ = twin_;
    twin_.reset();
    agenda_.at(agenda_.now_us + kNoticeUs, [this] { take_over(); });
  }

  void take_over() {
    const auto twin = std::exchange(in_doubt_, nullptr);
    ++server_, ++takeovers_;
    note([&] { return cat(server(), " takes over from ", replica()); });
    auto its_store = store();
    auto shard = twin->take_over(server(), its_store);
    wire_.detach(replica());
    if (!shard) return violate(cat("durable: ", shard.error().message));
    for (const auto& [key, by] : told_)
      if (!contains((*shard)->image(), key))
        violate(cat("durable: worker ", std::get<0>(key), " was told by ", by, " that its push of step ",
                    std::get<2>(key), ", parcel ", std::get<1>(key), ", is stored; the replica has not got it"));
    start_server(std::move(*shard), its_store);
    change_membership();
    agenda_.at(agenda_.now_us + static_cast<int64_t>(random_.below(50'000)), [this] { start_replica(); });
  }

  // ---- workers --------------------------------------------------------------------------------------------------

  void on_worker(WorkerId w, const Envelope& e) {
    Worker& me = workers_[w];
    if (const auto* m = std::get_if<ps::Membership>(&e.body); m && m->generation >= me.generation) {
      const bool news = m->generation > me.generation;
      me.generation = m->generation;
      me.server = m->servers[0];
      say(worker(w), kCoordinator, m->generation, ps::MembershipAck{});
      if (news) repeat(w);
    }
    if (e.from != Endpoint{Role::server, 0, me.server}) return;
    if (const auto* reply = std::get_if<ps::PullReply>(&e.body)) push(w, *reply);
    if (const auto* ack = std::get_if<ps::PushAck>(&e.body)) {
      auto& waiting = me.waiting[ack->parcel];
      if (!waiting || waiting->sequence != ack->sequence) return;
      waiting.reset();
      ++me.next[ack->parcel];
      repeat(w);
    }
  }

  void push(WorkerId w, const ps::PullReply& reply) {
    Worker& me = workers_[w];
    if (me.waiting[reply.parcel] || reply.step != me.next[reply.parcel]) return;
    ps::Push push{++me.sent, reply.parcel, reply.step, reply.step, 1};
    Tensor gradient = Tensor::empty({kCount});
    for (float& x : gradient.span<float>()) x = gradient_of(w, reply.parcel, reply.step);
    push.gradients = {gradient};
    me.waiting[reply.parcel] = push;
    say(worker(w), {Role::server, 0, me.server}, me.generation, push);
  }

  /// What is not answered: a push, or the read before the next one.
  void repeat(WorkerId w) {
    Worker& me = workers_[w];
    if (me.server == 0) return;
    const Endpoint to{Role::server, 0, me.server};
    for (ParcelId p = 0; p < parcels(); ++p) {
      if (me.waiting[p])
        say(worker(w), to, me.generation, *me.waiting[p]);
      else if (me.next[p] < steps_)
        say(worker(w), to, me.generation, ps::Pull{p, me.next[p]});
    }
  }

  bool done() const {
    if (in_doubt_) return false;
    for (const Worker& worker : workers_)
      for (ParcelId p = 0; p < parcels(); ++p)
        if (worker.next[p] < steps_) return false;
    return true;
  }

  // ---- the rules ------------------------------------------------------------------------------------------------

  using Told = std::tuple<WorkerId, ParcelId, Step>;

  static bool contains(const ps::ShardImage& image, const Told& told) {
    const auto& [worker, parcel, step] = told;
    return image.parcels[parcel].clock[worker] > step;
  }

  void acknowledged(const Envelope& e, const ps::PushAck& ack) {
    const Told told{e.to.index, ack.parcel, ack.step};
    told_.emplace(told, e.from);
    // An old server that lives on says what its successor has, or nothing.
    const auto now = servers_.find(server());
    if (e.from.incarnation < server_ && now != servers_.end() && !contains(now->second->shard().image(), told))
      violate(cat("durable: ", e.from, " tells worker ", e.to.index, " that its push of step ", ack.step, ", parcel ",
                  ack.parcel, ", is stored; ", server(), " has taken over and has not got it"));
  }

  void check_sum() {
    const auto now = servers_.at(server());
    for (const ps::SliceState& slice : now->shard().state()) {
      const bool mean = layout_->parcels[slice.slice].policy.aggregates();
      float sum = 0;
      for (WorkerId w = 0; w < workers_.size(); ++w)
        for (Step t = 0; t < steps_; ++t)
          sum -= gradient_of(w, slice.slice, t) / (mean ? static_cast<float>(workers_.size()) : 1);
      const float held = slice.values.data<float>()[0];
      if (held != sum)
        violate(cat("exactly-once: parcel ", slice.slice, " holds ", held, " after all pushes; their sum is ", sum));
    }
  }

  void violate(std::string what) {
    if (!violation_) violation_ = std::move(what);
  }

  template <class F>
  void note(F&& text) {
    if (trace_ == 0) return;
    lines_.push_back(cat("  ", agenda_.now_us, " us  ", text()));
    if (lines_.size() > trace_) lines_.pop_front();
  }

  Random random_;
  Agenda agenda_;
  ps::SimulatedTransport wire_;
  std::shared_ptr<const ps::Layout> layout_;
  Step steps_ = 0;

  std::vector<Worker> workers_;
  std::map<Endpoint, std::shared_ptr<ps::ServerCore>> servers_;  ///< that live, the newest and those given up
  std::shared_ptr<ps::ReplicaCore> twin_;                        ///< of the membership
  std::shared_ptr<ps::ReplicaCore> in_doubt_;                    ///< that will take over
  ps::Incarnation server_ = 1, replica_ = 0;
  bool synced_ = false;
  ps::Membership membership_;
  std::set<Endpoint> unacknowledged_;

  std::map<Told, Endpoint> told_;
  std::optional<std::string> violation_;
  int64_t events_ = 0, takeovers_ = 0;
  uint64_t hash_ = 1469598103934665603;
  size_t trace_;
  std::deque<std::string> lines_;
};

}  // namespace

ReplicationResult simulate_replication(uint64_t seed, size_t trace) { return Replication(seed, trace).run(); }

}  // namespace troupe::sim
