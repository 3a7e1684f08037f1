#include <tests/support/cuda/block_run.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <numeric>
#include <tuple>

#include <tests/support/cuda/fiber.h>
#include <troupe/kernels/base/random.h>
#include <troupe/kernels/base/text.h>

namespace troupe::test::cuda {

Position here;

namespace {

constexpr unsigned kWarp = 32, kMostThreads = 1024, kMostRows = 65535;
constexpr size_t kMostShared = 48 * 1024;
constexpr int kPoison = 0xFF;

enum class State { ready, at_barrier, at_warp_call, ended };

// One thread of the running block.
struct Thread {
  Fiber fiber;
  State state = State::ready;
  Site site;  // where it waits
  WarpCall call = WarpCall::sync;
  unsigned mask = 0;
  uint64_t offer = 0, result = 0;
  int source = 0;
};

struct SharedArray {
  const void* key;
  size_t bytes;
  std::unique_ptr<std::byte[]> data;
};

std::string text(const Dim3& d) { return cat("(", d.x, ", ", d.y, ", ", d.z, ")"); }

bool same_place(const Site& a, const Site& b) {
  return a.line() == b.line() && a.column() == b.column() && std::strcmp(a.file_name(), b.file_name()) == 0;
}

std::string text(const Site& site) {
  const std::string file = site.file_name();
  return cat(file.substr(file.rfind('/') + 1), ":", site.line());
}

// One launch. Threads are numbered as CUDA does, x fastest.
class Run {
 public:
  Run(const Grid& grid, uint64_t seed, const std::function<void()>& body);
  void run();

  // Called by the running thread.
  void barrier(const Site& site);
  uint64_t warp_call(WarpCall call, unsigned mask, uint64_t offer, int source, const Site& site);
  void maybe_interrupt();
  void* shared(const void* key, size_t bytes);
  void* dynamic_shared() { return dynamic_.get(); }
  [[noreturn]] void fault(const std::string& what) const;

 private:
  void run_block(Dim3 block);
  void run_until_it_waits(unsigned thread);
  void wait(State state, const Site& site);
  void go_on_later();
  void complete(unsigned first, unsigned mask);
  void poison_shared_memory();
  [[noreturn]] void report_stuck() const;

  Dim3 position(unsigned thread) const {
    const Dim3& n = grid_.threads;
    return {thread % n.x, thread / n.x % n.y, thread / (n.x * n.y)};
  }

  const Grid& grid_;
  const std::function<void()>& body_;
  std::function<void()> guarded_body_;
  Random random_;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<unsigned> ready_;
  unsigned running_ = 0, at_barrier_ = 0, until_interrupt_ = 1;
  std::vector<SharedArray> shared_;
  std::unique_ptr<std::byte[]> dynamic_;
  std::exception_ptr failure_;
};

Run* current = nullptr;

// Kept from launch to launch: to map a stack for each thread takes longer than most kernels run.
Stacks& stacks() {
  static Stacks stacks;
  return stacks;
}

Run::Run(const Grid& grid, uint64_t seed, const std::function<void()>& body)
    : grid_(grid), body_(body), random_(seed), dynamic_(new std::byte[grid.dynamic_shared_bytes]) {
  for (unsigned t = 0; t < grid.threads.count(); ++t) threads_.push_back(std::make_unique<Thread>());
  guarded_body_ = [this] {
    try {
      body_();
    } catch (const boost::context::detail::forced_unwind&) {
      throw;
    } catch (...) {
      failure_ = std::current_exception();
    }
  };
}

void Run::run() {
  std::vector<unsigned> order(grid_.blocks.count());
  std::iota(order.begin(), order.end(), 0u);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random_.below(i)]);
  const Dim3& n = grid_.blocks;
  for (const unsigned b : order) run_block({b % n.x, b / n.x % n.y, b / (n.x * n.y)});
}

void Run::run_block(Dim3 block) {
  here = {{}, block, grid_.threads, grid_.blocks};
  poison_shared_memory();
  const unsigned count = grid_.threads.count();
  at_barrier_ = 0;
  for (auto& thread : threads_) thread->state = State::ready;
  ready_.resize(count);
  std::iota(ready_.begin(), ready_.end(), 0u);
  unsigned ended = 0;
  while (!ready_.empty()) {
    std::swap(ready_[random_.bits32() % ready_.size()], ready_.back());
    const unsigned next = ready_.back();
    ready_.pop_back();
    run_until_it_waits(next);
    if (failure_) std::rethrow_exception(failure_);
    ended += threads_[next]->state == State::ended;
  }
  if (ended < count) report_stuck();
}

void Run::run_until_it_waits(unsigned number) {
  Thread& thread = *threads_[number];
  // A thread gets a stack only now: most kernels never wait, and one stack serves all their threads.
  if (!thread.fiber.alive()) thread.fiber.start(stacks(), guarded_body_);
  running_ = number;
  here.thread = position(number);
  if (!thread.fiber.resume()) thread.state = State::ended;
}

void Run::wait(State state, const Site& site) {
  Thread& thread = *threads_[running_];
  thread.state = state;
  thread.site = site;
  thread.fiber.suspend();
}

void Run::maybe_interrupt() {
  if (--until_interrupt_ > 0) return;
  until_interrupt_ = 1 + random_.bits32() % 8;
  go_on_later();
}

void Run::go_on_later() {
  ready_.push_back(running_);
  threads_[running_]->fiber.suspend();
}

void Run::barrier(const Site& site) {
  if (++at_barrier_ < threads_.size()) return wait(State::at_barrier, site);
  for (unsigned t = 0; t < threads_.size(); ++t) {
    if (t == running_) continue;
    if (!same_place(threads_[t]->site, site))
      fault(cat("is at the barrier of ", text(site), " while thread ", text(position(t)), " is at that of ",
                text(threads_[t]->site)));
    threads_[t]->state = State::ready;
    ready_.push_back(t);
  }
  at_barrier_ = 0;
  go_on_later();  // or the last to come would always be the first to go on
}

uint64_t Run::warp_call(WarpCall call, unsigned mask, uint64_t offer, int source, const Site& site) {
  const unsigned lane = running_ % kWarp, first = running_ - lane;
  const unsigned lanes = std::min<unsigned>(kWarp, static_cast<unsigned>(threads_.size()) - first);
  if (!(mask >> lane & 1)) fault(cat("is not in the mask of its own warp call at ", text(site)));
  if (lanes < kWarp && mask >> lanes)
    fault(cat("names lanes that its warp of ", lanes, " does not have, at ", text(site)));
  Thread& thread = *threads_[running_];
  thread.call = call;
  thread.mask = mask;
  thread.offer = offer;
  thread.source = source;
  thread.site = site;
  for (unsigned l = 0; l < lanes; ++l) {
    const Thread& other = *threads_[first + l];
    if (l == lane || !(mask >> l & 1)) continue;
    const bool joined = other.state == State::at_warp_call && other.call == call && other.mask == mask;
    if (!joined || !same_place(other.site, site)) {
      wait(State::at_warp_call, site);
      return thread.result;
    }
  }
  complete(first, mask);
  thread.fiber.suspend();
  return thread.result;
}

void Run::complete(unsigned first, unsigned mask) {
  const auto in_mask = [mask](unsigned lane) { return lane < kWarp && (mask >> lane & 1); };
  const auto lanes_where = [&](auto holds) {
    uint64_t lanes = 0;
    for (unsigned l = 0; l < kWarp; ++l)
      if (in_mask(l) && holds(threads_[first + l]->offer)) lanes |= uint64_t{1} << l;
    return lanes;
  };
  for (unsigned l = 0; l < kWarp; ++l) {
    if (!in_mask(l)) continue;
    Thread& thread = *threads_[first + l];
    const auto source = static_cast<unsigned>(thread.source);
    switch (thread.call) {
      case WarpCall::sync: break;
      case WarpCall::shuffle: thread.result = in_mask(source) ? threads_[first + source]->offer : ~uint64_t{0}; break;
      case WarpCall::ballot: thread.result = lanes_where([](uint64_t offer) { return offer != 0; }); break;
      case WarpCall::match: thread.result = lanes_where([&](uint64_t offer) { return offer == thread.offer; }); break;
    }
    thread.state = State::ready;
    ready_.push_back(first + l);
  }
}

void* Run::shared(const void* key, size_t bytes) {
  size_t used = grid_.dynamic_shared_bytes;
  for (SharedArray& array : shared_) {
    if (array.key == key) return array.data.get();
    used += array.bytes;
  }
  if (used + bytes > kMostShared) fault(cat("needs ", used + bytes, " bytes of shared memory"));
  shared_.push_back({key, bytes, std::unique_ptr<std::byte[]>(new std::byte[bytes])});
  std::memset(shared_.back().data.get(), kPoison, bytes);
  return shared_.back().data.get();
}

void Run::poison_shared_memory() {
  for (SharedArray& array : shared_) std::memset(array.data.get(), kPoison, array.bytes);
  std::memset(dynamic_.get(), kPoison, grid_.dynamic_shared_bytes);
}

void Run::fault(const std::string& what) const {
  throw KernelFault(cat(grid_.kernel, ", block ", text(here.block), ": thread ", text(position(running_)), " ", what));
}

void Run::report_stuck() const {
  struct Group {
    unsigned count = 0, first = 0;
  };
  std::map<std::string, Group> groups;
  for (unsigned t = 0; t < threads_.size(); ++t) {
    const Thread& thread = *threads_[t];
    const std::string doing = thread.state == State::ended ? "ended"
                              : thread.state == State::at_barrier
                                  ? cat("wait at the barrier of ", text(thread.site))
                                  : cat("wait for lanes of their warp at ", text(thread.site), ", mask ", thread.mask);
    Group& group = groups[doing];
    if (group.count++ == 0) group.first = t;
  }
  std::string list;
  for (const auto& [doing, group] : groups)
    list += cat(list.empty() ? "" : "; ", group.count, " ", doing, ", the first ", text(position(group.first)));
  throw KernelFault(cat(grid_.kernel, ", block ", text(here.block), ": no thread can go on: ", list));
}

void check(const Grid& grid) {
  const auto refuse = [&](const std::string& why) {
    throw KernelFault(cat(grid.kernel, " cannot be launched with ", text(grid.blocks), " blocks of ",
                          text(grid.threads), " threads and ", grid.dynamic_shared_bytes, " bytes: ", why));
  };
  if (grid.blocks.x == 0 || grid.blocks.y == 0 || grid.blocks.z == 0) refuse("no blocks");
  if (grid.blocks.y > kMostRows || grid.blocks.z > kMostRows) refuse("more than 65535 in y or z");
  if (grid.threads.count() == 0) refuse("no threads");
  if (grid.threads.count() > kMostThreads || grid.threads.z > 64) refuse("too many threads");
  if (grid.dynamic_shared_bytes > kMostShared) refuse("more shared memory than 48 KiB");
}

}  // namespace

void run_grid(const Grid& grid, uint64_t seed, const std::function<void()>& thread) {
  check(grid);
  if (current) throw KernelFault(cat(grid.kernel, " is launched inside another kernel"));
  Run run(grid, seed, thread);
  struct Leave {
    ~Leave() { current = nullptr; }
  } leave;
  current = &run;
  run.run();
}

void wait_for_block(const Site& site) { current->barrier(site); }

uint64_t call_warp(WarpCall call, unsigned mask, uint64_t offer, int source, const Site& site) {
  return current->warp_call(call, mask, offer, source, site);
}

void* shared_memory(const void* key, size_t bytes) { return current->shared(key, bytes); }
void maybe_interrupt() { current->maybe_interrupt(); }
void* dynamic_shared_memory() { return current->dynamic_shared(); }
void trap(const Site& site) { current->fault(cat("stopped at ", text(site))); }

}  // namespace troupe::test::cuda
