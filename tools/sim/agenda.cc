#include "agenda.h"

#include <algorithm>

namespace troupe::sim {
namespace {

/// One thing after the other, each `random` microseconds long.
struct Line {
  Agenda& agenda;
  Random& random;
  int64_t max_us;
  int64_t busy_until_us = 0;

  int64_t next_us() {
    busy_until_us =
        std::max(busy_until_us, agenda.now_us) + 1 + static_cast<int64_t>(random.below(static_cast<uint64_t>(max_us)));
    return busy_until_us;
  }
};

class SimulatedExecutor final : public Executor {
 public:
  explicit SimulatedExecutor(Line line) : line_(std::make_shared<Line>(line)) {}

  void submit(std::function<void()> task) override {
    // Whoever destroys the executor drops the tasks that have not run.
    line_->agenda.at(line_->next_us(), [alive = std::weak_ptr<Line>(line_), task = std::move(task)] {
      if (!alive.expired()) task();
    });
  }

 private:
  std::shared_ptr<Line> line_;
};

struct Group {
  struct Ask {
    Tensor values;
    std::function<void(Status, Tensor)> done;
  };
  std::vector<std::deque<Ask>> asks;  // by rank
  std::vector<Line> lines;

  void meet() {
    if (std::ranges::any_of(asks, [](const auto& queue) { return queue.empty(); })) return;
    Tensor sum = asks[0].front().values.clone();
    for (size_t rank = 1; rank < asks.size(); ++rank) {
      const auto part = std::as_const(asks[rank].front().values).span<float>();
      for (size_t i = 0; i < part.size(); ++i) sum.span<float>()[i] += part[i];
    }
    for (size_t rank = 0; rank < asks.size(); ++rank) {
      lines[rank].agenda.at(lines[rank].next_us(),
                            [done = std::move(asks[rank].front().done), mine = sum.clone()] { done({}, mine); });
      asks[rank].pop_front();
    }
  }
};

class SimulatedAllReducer final : public AllReducer {
 public:
  SimulatedAllReducer(std::shared_ptr<Group> group, uint32_t rank) : group_(std::move(group)), rank_(rank) {}

  void all_reduce(Tensor values, std::function<void(Status, Tensor)> done) override {
    group_->asks[rank_].push_back({std::move(values), std::move(done)});
    group_->meet();
  }
  void abort(const std::string&) override { group_->asks[rank_].clear(); }

 private:
  std::shared_ptr<Group> group_;
  uint32_t rank_;
};

}  // namespace

void Agenda::run_next() {
  auto first = entries_.begin();
  now_us = std::max(now_us, first->first);
  const auto what = std::move(first->second);
  entries_.erase(first);
  what();
}

std::unique_ptr<Executor> make_simulated_executor(Agenda& agenda, Random& random, int64_t max_us) {
  return std::make_unique<SimulatedExecutor>(Line{agenda, random, max_us});
}

std::function<std::unique_ptr<AllReducer>(uint32_t)> make_simulated_all_reduce(Agenda& agenda, Random& random,
                                                                               size_t ranks, int64_t max_us) {
  auto group = std::make_shared<Group>();
  group->asks.resize(ranks);
  group->lines = std::vector<Line>(ranks, Line{agenda, random, max_us});
  return [group](uint32_t rank) { return std::make_unique<SimulatedAllReducer>(group, rank); };
}

}  // namespace troupe::sim
