#include "host_groups.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include <troupe/kernels/base/text.h>

namespace troupe::sim {

using Report = Reducer::Report;

/// A collective call that a member has made and waits in.
struct Call {
  std::string what;  ///< equal on all members
  ps::Bucket bucket;
  ps::Broadcast weights;
  Report report;
};

struct HostGroups::Member {
  ps::Endpoint who;
  std::deque<Task> tasks;
  bool busy = false;     ///< with what was the first of them
  bool waits = false;    ///< for the others of its group
  int64_t free_us = 0;   ///< when it has done what it does
  std::shared_ptr<Group> entered, group;  ///< to be joined, joined
  ps::Generation generation = 0;
  int rank = 0;
  uint64_t left = 0, left_before = 0;     ///< how often it has left a group; when it entered this one
  std::vector<ps::Bucket> kept;           ///< of the step that runs
};

struct HostGroups::Group {
  std::vector<std::weak_ptr<Member>> members;
  std::vector<std::optional<Call>> calls;  ///< by rank
  std::vector<std::pair<uint64_t, Report>> joining;
  size_t joined = 0;
  ps::Step from = 0;
  bool broken = false;
};

/// A worker's end. What it is asked for may outlive it.
class HostGroups::End final : public Reducer {
 public:
  End(HostGroups& all, std::shared_ptr<Member> member) : all_(all), member_(std::move(member)) {}

  void reduce(ps::Bucket bucket, Report report) override {
    submit([bucket = std::move(bucket), report](HostGroups& all, const auto& m) { all.reduce(m, bucket, report); });
  }
  void apply(ps::ApplyLocal task, Report) override {
    TROUPE_CHECK(false, "layer ", task.layer, " is the servers'");
  }
  void fetch(ps::Fetch task, Report report) override {
    submit([task = std::move(task), report](HostGroups& all, const auto& m) {
      FetchDone fetched{task.layers};
      for (auto& [layer, state] : fetched.layers) state.values = state.values.clone();
      report(std::move(fetched));
      all.done(m);
    });
  }
  void make_group(ps::MakeGroup task, Report report) override {
    submit([task, report](HostGroups& all, const auto& m) {
      report(GroupKnown{task.generation, cat("group ", ++all.made_)});
      all.done(m);
    });
  }
  void join_group(ps::JoinGroup task, Report report) override {
    submit([task = std::move(task), left = member_->left, report](HostGroups& all, const auto& m) {
      all.join(m, task, left, report);
    });
  }
  void leave_group(Report report) override {
    all_.leave(member_);
    submit([report](HostGroups& all, const auto& m) {
      m->group.reset();
      for (const ps::Bucket& bucket : std::exchange(m->kept, {})) answer_alone(bucket, report);
      all.done(m);
    });
  }
  void broadcast(ps::Broadcast task, Report report) override {
    submit([task = std::move(task), report](HostGroups& all, const auto& m) { all.broadcast(m, task, report); });
  }
  void abort(const std::string&) override {
    member_->tasks.clear();
    all_.leave(member_);
  }

 private:
  template <class F>
  void submit(F task) {
    all_.submit(member_, [&all = all_, task = std::move(task)](const std::shared_ptr<Member>& m) { task(all, m); });
  }

  HostGroups& all_;
  std::shared_ptr<Member> member_;
};

std::shared_ptr<Reducer> HostGroups::member(const ps::Endpoint& who) {
  auto member = std::make_shared<Member>();
  member->who = who;
  return std::make_shared<End>(*this, std::move(member));
}

// ---- one thing after the other ------------------------------------------------------------------------------------

void HostGroups::later(const std::shared_ptr<Member>& m, Task what) {
  m->free_us = std::max(m->free_us, agenda_.now_us) + 1 + static_cast<int64_t>(random_.below(2'000));
  agenda_.at(m->free_us, [alive = std::weak_ptr(m), what = std::move(what)] {
    if (const auto here = alive.lock()) what(here);
  });
}

void HostGroups::submit(const std::shared_ptr<Member>& m, Task task) {
  m->tasks.push_back(std::move(task));
  if (!m->busy) done(m);
}

void HostGroups::done(const std::shared_ptr<Member>& m) {
  m->waits = false;
  m->busy = !m->tasks.empty();
  if (!m->busy) return;
  Task task = std::move(m->tasks.front());
  m->tasks.pop_front();
  later(m, std::move(task));
}

// ---- groups ---------------------------------------------------------------------------------------------------------

void HostGroups::join(const std::shared_ptr<Member>& m, const ps::JoinGroup& task, uint64_t left,
                      const Report& report) {
  if (m->left != left) return done(m);
  report(GroupKnown{task.generation, task.id});
  std::shared_ptr<Group>& group = groups_[task.id];
  const auto size = static_cast<size_t>(task.size), rank = static_cast<size_t>(task.rank);
  if (!group) {
    group = std::make_shared<Group>();
    group->members.resize(size);
    group->calls.resize(size);
    group->joining.resize(size);
  }
  if (group->members.size() != size || group->members[rank].lock())
    return oracle_.violated("sync-step", cat(m->who, " is rank ", rank, " of ", size, " of ", task.id, ", as another"));
  group->members[rank] = m;
  group->joining[rank] = {task.plan, report};
  group->from = std::max(group->from, task.first);
  m->entered = group;
  m->generation = task.generation;
  m->rank = task.rank;
  m->left_before = left;
  m->waits = true;
  if (++group->joined < size || group->broken) return;
  note_([&] { return cat(task.id, " of ", size, " members sums from step ", group->from, " on"); });
  for (size_t r = 0; r < size; ++r) {
    const auto one = group->members[r].lock();
    if (!one) continue;
    if (group->joining[r].first != task.plan)
      oracle_.violated("sync-step", cat(one->who, " plans other calls than ", m->who));
    answer(one, [said = group->joining[r].second, generation = task.generation](const auto& it) {
      if (!it->entered) return;  // it has left
      it->group = std::exchange(it->entered, {});
      said(GroupJoined{generation, it->group->from});
    });
  }
}

/// All that it waited for is there.
void HostGroups::answer(const std::shared_ptr<Member>& m, Task how) {
  m->waits = false;
  if (random_.chance(0.2)) m->free_us = agenda_.now_us + static_cast<int64_t>(random_.below(20'000));
  later(m, [this, how = std::move(how)](const std::shared_ptr<Member>& it) {
    how(it);
    done(it);
  });
}

void HostGroups::answer_alone(const ps::Bucket& bucket, const Report& report) {
  const ps::HostShare& mine = *bucket.front().host;
  ps::HostSum sum{bucket.front().step, {}, mine.samples, mine.finite, true};
  for (const ps::Reduce& task : bucket) sum.layers.emplace_back(task.layer, task.gradient.clone());
  report(std::move(sum));
}

void HostGroups::reduce(const std::shared_ptr<Member>& m, const ps::Bucket& bucket, const Report& report) {
  if (!m->kept.empty() && m->kept.front().front().step != bucket.front().step) m->kept.clear();
  if (!m->group || m->generation != bucket.front().host->generation) {
    answer_alone(bucket, report);
    return done(m);
  }
  m->kept.push_back(bucket);
  std::string what = cat("sum of step ", bucket.front().step, ", layers");
  for (const ps::Reduce& task : bucket) what += cat(' ', task.layer);
  call(m, std::move(what), bucket, {}, report);
}

void HostGroups::broadcast(const std::shared_ptr<Member>& m, const ps::Broadcast& task, const Report& report) {
  if (!m->group || m->generation != task.generation) return done(m);
  std::string what = cat("weights of step ", task.step, ", layers");
  for (const ps::LayerId layer : task.layers) what += cat(' ', layer);
  call(m, std::move(what), {}, task, report);
}

void HostGroups::call(const std::shared_ptr<Member>& m, std::string what, ps::Bucket bucket, ps::Broadcast task,
                      const Report& report) {
  if (m->left != m->left_before) return done(m);
  Group& group = *m->group;
  m->waits = true;
  if (group.broken) return;  // until it is told to leave
  group.calls[static_cast<size_t>(m->rank)] = Call{std::move(what), std::move(bucket), std::move(task), report};
  if (std::ranges::any_of(group.calls, [](const auto& made) { return !made; })) return;
  for (const auto& made : group.calls)
    if (made->what != group.calls[0]->what)
      return oracle_.violated("sync-step", cat("the members of a host make other calls: ", group.calls[0]->what,
                                               "; ", made->what));
  if (group.calls[0]->bucket.empty())
    give(group);
  else
    sum(group);
  for (auto& made : group.calls) made.reset();
}

/// In the order of ranks; the lowest alone gets the gradients.
void HostGroups::sum(Group& group) {
  const ps::Bucket& first = group.calls[0]->bucket;
  ps::HostSum sum{first.front().step, {}};
  for (const auto& made : group.calls) {
    sum.samples += made->bucket.front().host->samples;
    sum.finite = sum.finite && made->bucket.front().host->finite;
  }
  for (size_t i = 0; i < first.size(); ++i) {
    Tensor total = first[i].gradient.clone();
    for (size_t r = 1; r < group.calls.size(); ++r) {
      const auto part = std::as_const(group.calls[r]->bucket[i].gradient).span<float>();
      for (size_t k = 0; k < part.size(); ++k) total.span<float>()[k] += part[k];
    }
    sum.layers.emplace_back(first[i].layer, std::move(total));
  }
  for (size_t r = 0; r < group.calls.size(); ++r) {
    if (const auto one = group.members[r].lock())
      answer(one, [sum, report = group.calls[r]->report](const auto&) { report(sum); });
    for (auto& [layer, total] : sum.layers) total = {};
  }
}

void HostGroups::give(Group& group) {
  const ps::Broadcast& task = group.calls[0]->weights;
  ps::HostWeights weights{task.step, task.generation, {}};
  for (const ps::LayerId layer : task.layers)
    weights.layers.emplace_back(layer, Tensor::empty({scenario_.coordinator.layers[layer].count}));
  for (const ps::Broadcast::Part& part : task.parts) {
    const auto values = part.values.span<float>();
    std::ranges::copy(values, weights.layers[part.layer].second.data<float>() + part.begin);
  }
  for (size_t r = 0; r < group.calls.size(); ++r)
    if (const auto one = group.members[r].lock())
      answer(one, [weights, report = group.calls[r]->report](const auto&) { report(weights); });
}

/// What it waits in ends without an answer. The others wait on, each until it leaves by itself.
void HostGroups::leave(const std::shared_ptr<Member>& m) {
  ++m->left;
  const std::shared_ptr<Group> group = m->entered ? std::exchange(m->entered, {}) : m->group;
  if (group) {
    const auto waiting = std::ranges::count_if(group->calls, [](const auto& made) { return bool(made); });
    if (waiting > 0) note_([&] { return cat(m->who, " leaves its host while ", waiting, " wait"); });
    group->broken = true;
    group->calls[static_cast<size_t>(m->rank)].reset();
  }
  if (m->waits) done(m);
}

}  // namespace troupe::sim
