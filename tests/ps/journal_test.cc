#include <algorithm>
#include <deque>
#include <map>

#include <boost/test/unit_test.hpp>

#include <troupe/kernels/base/random.h>
#include <troupe/ps/control/journal.h>
#include <troupe/ps/control/journal_folder.h>
#include <troupe/ps/wire/codec.h>

#include <tests/support/memory_disk.h>

using namespace troupe;
using namespace troupe::ps;
using troupe::test::MemoryDisk;

BOOST_AUTO_TEST_SUITE(journal)

namespace {

constexpr Endpoint kCoordinator{Role::coordinator, 0, 1}, kNode{Role::node, 0, 1};
constexpr const char* kFolder = "run/journal";
const CoordinatorOptions kOptions = [] {
  CoordinatorOptions options;
  options.layers = {{"fc1", 32, {{"fc1.weight", {32}, 0}}}};
  options.policies = {{Mode::sync}};
  options.dealer = {.train_samples = 4, .epochs = 1, .global_batch = 4, .worker_batch = {2, 2}};
  return options;
}();

JournalHead some_head() {
  JournalHead head;
  head.run = 77;
  head.network = {"127.0.0.1:4000", "", "/keys", false};
  head.nodes = 2;
  head.config = "[run]\nname = \"x\"\n";
  head.resume_from = "run/checkpoints/step-8";
  head.resume = DealerState{100, 1, 20, 12, {{1, 4, 8}}};
  head.loss_scale = LossScale{1024, 7};
  head.seconds = 1.5;
  return head;
}

/// What a core wants done, as text: equal texts, equal effects.
std::string text_of(const CoordinatorCore::Effects& effects) {
  std::string text;
  for (const Envelope& e : effects.send) {
    const auto bytes = wire::pack(e, 0);
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  for (const std::string& event : effects.events) text += event + "\n";
  for (const std::string& piece : effects.news) text += piece + "\n";
  for (const StepReport& r : effects.steps) text += cat("step ", r.step, " ", r.stats.samples, "\n");
  for (const EvaluationReport& r : effects.evaluations) text += cat("evaluation ", r.step, "\n");
  for (const CheckpointRequest& r : effects.checkpoints) text += cat("checkpoint ", r.step, "\n");
  if (effects.finished) text += cat("finished ", effects.finished->steps, " ", effects.finished->samples, "\n");
  return text;
}

/// A run whose actors live in the test and do what they are told, over a network that loses, doubles and reorders; its
/// coordinator dies now and then.
class Life {
 public:
  Life(uint64_t seed, double deaths) : random_(seed), deaths_(deaths) {
    const Policy policies[] = {{Mode::sync}, {Mode::async}, {Mode::ssp, 1}};
    const Policy policy = policies[random_.below(3)];
    options_.layers = {{"fc1", 32, {{"fc1.weight", {32}, 0}}}, {"fc2", 32, {{"fc2.weight", {32}, 0}}}};
    options_.policies = {policy, policy};
    options_.layout = {.servers = 2, .fuse_bytes = 4 * 32};
    options_.dealer = {.train_samples = 40, .epochs = 2, .global_batch = 4, .worker_batch = {2, 2}};
    options_.checkpoint_every_steps = static_cast<int64_t>(random_.below(8));
    options_.test_samples = random_.chance(0.5) ? 10 : 0;
    options_.evaluate_every_epochs = 1;
    options_.max_restarts = 100;
    core_ = CoordinatorCore::make(options_).value();
    const auto head = journal_record(some_head(), 1, 0);
    bytes_.assign(head.begin(), head.end());
  }

  /// False: it did not end.
  bool live() {
    tell({CoordinatorInput::Start{}});
    for (int i = 0; i < 20'000; ++i) {
      if (finished) return true;
      now_ += static_cast<int64_t>(random_.below(3));
      if (random_.chance(deaths_)) die();
      if (random_.chance(0.05)) tell({CoordinatorInput::Tick{}});
      if (random_.chance(0.05)) repeat();
      if (writing_ && random_.chance(0.1)) --writing_, tell({CoordinatorInput::CheckpointWritten{}});
      if (random_.chance(0.001)) lose_worker();
      deliver();
    }
    return false;
  }

  const std::vector<std::byte>& bytes() const { return bytes_; }
  const std::vector<std::string>& effects() const { return effects_; }
  const CoordinatorOptions& options() const { return options_; }

  std::optional<RunResult> finished;
  std::map<std::pair<int64_t, int64_t>, int64_t> done;  ///< times a range was completed, by epoch and begin
  int64_t checkpoints = 0;                              ///< written
  std::optional<std::string> wrong;

 private:
  struct Worker {
    Endpoint self;
    uint64_t number = 1;
    std::optional<Work> work;  ///< done, not acknowledged
    Generation generation = 0;
  };

  void tell(CoordinatorInput::What what) {
    const CoordinatorInput input{now_, std::move(what)};
    const auto record = journal_record(input);
    bytes_.insert(bytes_.end(), record.begin(), record.end());
    auto effects = ps::tell(*core_, input);
    effects_.push_back(text_of(*effects));
    if (random_.chance(dies_on_the_way_)) return die();  // nothing of it was carried out
    for (Envelope& e : effects->send) mail_.push_back(std::move(e));
    writing_ += static_cast<int64_t>(effects->checkpoints.size());
    if (effects->finished) finished = effects->finished;
  }

  /// Another process takes its place.
  void die() {
    core_ = CoordinatorCore::make(options_).value();
    JournalReader reader(bytes_);
    BOOST_REQUIRE(reader.begin().has_value());
    for (;;) {
      const auto input = reader.next();
      BOOST_REQUIRE(input.has_value());
      if (!*input) break;
      (void)ps::tell(*core_, **input);
    }
    std::erase_if(mail_, [&](const Envelope& e) { return e.to == kCoordinator || random_.chance(0.5); });
    writing_ = 0;
    now_ = core_->now_ms();
    dies_on_the_way_ = 0;
    tell({CoordinatorInput::Recovered{}});
    dies_on_the_way_ = deaths_;
  }

  void say(const Endpoint& from, Generation generation, Message body) {
    mail_.push_back({from, kCoordinator, generation, std::move(body)});
  }

  void deliver() {
    if (mail_.empty()) return repeat();
    const size_t at = random_.below(std::min<size_t>(mail_.size(), 4));
    const Envelope e = mail_[at];
    if (!random_.chance(0.1)) mail_.erase(mail_.begin() + static_cast<std::ptrdiff_t>(at));
    if (random_.chance(0.05)) return;
    if (e.to == kCoordinator) return tell({CoordinatorInput::Heard{std::make_shared<const Envelope>(e)}});
    if (e.to.role == Role::node) return node(e);
    if (e.to.role == Role::server) return server(e);
    worker(e);
  }

  void node(const Envelope& e) {
    const auto* spawn = std::get_if<Spawn>(&e.body);
    if (!spawn) return;
    if (spawn->who.role == Role::worker) {
      auto& mine = workers_[spawn->who.index];
      if (mine.self.incarnation < spawn->who.incarnation || mine.self.role != Role::worker) mine = Worker{spawn->who};
    }
    say(kNode, 0, SpawnAck{spawn->who});
  }

  void server(const Envelope& e) {
    Generation& mine = servers_[e.to.index];
    if (e.generation < mine) return;
    if (const auto* m = std::get_if<Membership>(&e.body)) {
      mine = m->generation;
      say(e.to, mine, MembershipAck{});
    }
    if (e.generation != mine) return;
    if (const auto* m = std::get_if<Snapshot>(&e.body))
      say(e.to, mine, SnapshotReply{m->round, {{1 - e.to.index, Tensor::zeros({32}), {}, 1}}});
    if (const auto* m = std::get_if<StatsRequest>(&e.body)) say(e.to, mine, StatsReply{m->round, {{0, 3, 2}}, 0, 0, 0});
  }

  void worker(const Envelope& e) {
    const auto found = workers_.find(e.to.index);
    if (found == workers_.end() || found->second.self != e.to) return;
    Worker& w = found->second;
    if (e.generation < w.generation) return;
    if (const auto* m = std::get_if<Membership>(&e.body)) {
      if (m->rebase && w.work && m->generation > w.generation) wrong = cat("rebase while ", w.self, " works");
      if (m->generation == w.generation) return say(w.self, w.generation, MembershipAck{});
      w.generation = m->generation;
      say(w.self, w.generation, MembershipAck{});
    } else if (const auto* m = std::get_if<Work>(&e.body); m && m->number == w.number && !w.work) {
      w.work = *m;
    } else if (const auto* m = std::get_if<WorkDoneAck>(&e.body); m && w.work && m->number == w.number) {
      if (w.work->kind == Work::Kind::train && w.work->range.count > 0)
        ++done[{w.work->range.epoch, w.work->range.begin}];
      w.work.reset();
      ++w.number;
    } else {
      return;  // it knew that
    }
    speak(w);
  }

  void speak(const Worker& w) {
    if (w.generation == 0) return;
    if (!w.work) return say(w.self, w.generation, WorkRequest{w.number});
    say(w.self, w.generation, WorkDone{w.number, w.work->kind, w.work->step, {1, 1, w.work->range.count}});
  }

  void repeat() {
    for (const auto& [slot, w] : workers_) speak(w);
    for (const Down& down : lost_) say(kNode, 0, down);
  }

  void lose_worker() {
    const auto found = workers_.find(static_cast<uint32_t>(random_.below(2)));
    if (found == workers_.end() || found->second.work) return;
    lost_.push_back({found->second.self, "test"});
  }

  Random random_;
  double deaths_, dies_on_the_way_ = 0;
  CoordinatorOptions options_;
  std::unique_ptr<CoordinatorCore> core_;
  std::vector<std::byte> bytes_;
  std::vector<std::string> effects_;
  std::deque<Envelope> mail_;
  std::map<uint32_t, Worker> workers_;
  std::map<uint32_t, Generation> servers_;
  std::vector<Down> lost_;
  int64_t writing_ = 0, now_ = 1000;
};

std::vector<std::byte> segment(int inputs) {
  std::vector<std::byte> bytes = journal_record(some_head(), 1, 0);
  for (int i = 0; i < inputs; ++i) {
    const auto record = journal_record(CoordinatorInput{i, CoordinatorInput::LinkLost{static_cast<uint32_t>(i)}});
    bytes.insert(bytes.end(), record.begin(), record.end());
  }
  return bytes;
}

/// The nodes of the LinkLost inputs that a segment holds, or what is wrong with it.
Result<std::vector<uint32_t>> links_in(std::span<const std::byte> bytes) {
  std::vector<uint32_t> links;
  JournalReader reader(bytes);
  if (auto begin = reader.begin(); !begin) return tl::unexpected<Error>(begin.error());
  for (;;) {
    auto input = reader.next();
    if (!input) return tl::unexpected<Error>(input.error());
    if (!*input) return links;
    links.push_back(std::get<CoordinatorInput::LinkLost>((*input)->what).node);
  }
}

CoordinatorInput link(uint32_t node) { return {0, CoordinatorInput::LinkLost{node}}; }

/// The nodes of the LinkLost inputs that a folder holds behind its image, or what is wrong with it.
Result<std::vector<uint32_t>> links_of(const std::shared_ptr<MemoryDisk>& disk) {
  std::vector<uint32_t> links;
  const auto journal = JournalFolder::open(disk, kFolder);
  if (!journal) return tl::unexpected<Error>(journal.error());
  const auto image = [&](std::span<const std::byte>) -> Status { return links.clear(), Status{}; };
  TROUPE_TRY((*journal)->read(image, [&](const CoordinatorInput& input) {
    links.push_back(std::get<CoordinatorInput::LinkLost>(input.what).node);
  }));
  return links;
}

}  // namespace

// ---- the core, told again -----------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(ACoreThatIsToldTheSameDoesTheSame) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Life life(seed, 0.002);
    BOOST_TEST_REQUIRE(life.live(), "seed " << seed << " does not end");
    const auto again = CoordinatorCore::make(life.options()).value();
    JournalReader reader(life.bytes());
    BOOST_REQUIRE(reader.begin().has_value());
    for (size_t i = 0; i < life.effects().size(); ++i) {
      const auto input = reader.next();
      BOOST_REQUIRE((input && *input));
      BOOST_REQUIRE_MESSAGE(text_of(*tell(*again, **input)) == life.effects()[i], "seed " << seed << ", input " << i);
    }
    BOOST_TEST(!reader.next()->has_value());
  }
}

BOOST_AUTO_TEST_CASE(ACoreFromAnImageTakenAtAnyMomentDoesTheSame) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    Life life(seed, 0.002);
    BOOST_TEST_REQUIRE(life.live(), "seed " << seed << " does not end");
    auto core = CoordinatorCore::make(life.options()).value();
    JournalReader reader(life.bytes());
    BOOST_REQUIRE(reader.begin().has_value());
    for (size_t i = 0; i < life.effects().size(); ++i) {
      const auto image = core->image();
      core = CoordinatorCore::restore(life.options(), image).value();
      BOOST_REQUIRE_MESSAGE(core->image() == image, "seed " << seed << ", input " << i);
      const auto input = reader.next();
      BOOST_REQUIRE_MESSAGE(text_of(*tell(*core, **input)) == life.effects()[i], "seed " << seed << ", input " << i);
    }
  }
}

BOOST_AUTO_TEST_CASE(AnImageThatIsCutShortIsRefused) {
  const auto image = CoordinatorCore::make(kOptions).value()->image();
  for (size_t size = 0; size < image.size(); ++size)
    BOOST_TEST(!CoordinatorCore::restore(kOptions, std::span(image).first(size)), size);
}

BOOST_AUTO_TEST_CASE(ARunWhoseCoordinatorDiesAtAnyMomentTrainsOnEverySampleAndEnds) {
  int64_t recoveries = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    Life life(seed, 0.01);
    BOOST_TEST_REQUIRE(life.live(), "seed " << seed << " does not end");
    BOOST_TEST(life.wrong.value_or("") == "", "seed " << seed);
    BOOST_TEST((life.finished->outcome == Outcome::completed), "seed " << seed << ": " << life.finished->failure);
    BOOST_TEST(life.finished->samples == 80, "seed " << seed);
    const auto text = std::ranges::count_if(life.effects(), [](const std::string& effects) {
      return effects.find("the coordinator was started again") != std::string::npos;
    });
    recoveries += text;
    for (const auto& [range, times] : life.done)
      BOOST_TEST(times == 1, "seed " << seed << ": epoch " << range.first << ", sample " << range.second);
  }
  BOOST_TEST(recoveries > 500);
}

BOOST_AUTO_TEST_CASE(ASuccessorsGenerationsAreAboveAllOfItsPredecessors) {
  CoordinatorOptions options = Life(1, 0).options();
  const auto core = CoordinatorCore::make(options).value();
  (void)tell(*core, {0, CoordinatorInput::Start{}});
  const Generation before = core->membership().generation;
  (void)tell(*core, {0, CoordinatorInput::Recovered{}});
  BOOST_TEST(core->membership().generation >= before + 999'999);
  BOOST_TEST(core->status().coordinator_restarts == 1);
}

// ---- records ---------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(EveryKindOfInputComesBackAsItWas) {
  const Envelope said{{Role::worker, 1, 3}, kCoordinator, 9, WorkDone{7, Work::Kind::train, 4, {1.5, 2, 3}}};
  const std::vector<CoordinatorInput> inputs = {
      {1, CoordinatorInput::Start{}},
      {2, CoordinatorInput::Heard{std::make_shared<const Envelope>(said)}},
      {3, CoordinatorInput::CheckpointWritten{}},
      {4, CoordinatorInput::CheckpointWritten{fail(ErrorKind::exhausted, "no space left")}},
      {5, CoordinatorInput::Stop{}},
      {6, CoordinatorInput::ChangePolicies{{{"fc*", {Mode::ssp, 3}, 12}, {"*", {Mode::async}, 0}}}},
      {7, CoordinatorInput::LinkLost{5}},
      {8, CoordinatorInput::Tick{}},
      {9, CoordinatorInput::Recovered{}},
  };
  std::vector<std::byte> bytes = journal_record(some_head(), 3, 44);
  for (const auto& input : inputs) {
    const auto record = journal_record(input);
    bytes.insert(bytes.end(), record.begin(), record.end());
  }
  JournalReader reader(bytes);
  const auto begin = reader.begin();
  BOOST_REQUIRE(begin.has_value());
  BOOST_TEST((begin->head == some_head()));
  BOOST_TEST(begin->segment == 3u);
  BOOST_TEST(begin->bytes_before == 44u);
  for (const auto& input : inputs) {
    const auto read = reader.next();
    BOOST_REQUIRE((read && *read));
    BOOST_TEST((journal_record(**read) == journal_record(input)));
  }
  BOOST_TEST(!reader.next()->has_value());
}

BOOST_AUTO_TEST_CASE(TensorsAreNotKept) {
  const Envelope reply{{Role::server, 0, 1}, kCoordinator, 1, SnapshotReply{4, {{0, Tensor::zeros({100'000}), {}, 1}}}};
  BOOST_TEST(journal_record({0, CoordinatorInput::Heard{std::make_shared<const Envelope>(reply)}}).size() < 1000u);
}

BOOST_AUTO_TEST_CASE(ATornTailIsPassedOverAtEveryByte) {
  const auto whole = segment(3), shorter = segment(2);
  for (size_t size = shorter.size(); size < whole.size(); ++size) {
    const auto links = links_in(std::span(whole).first(size));
    BOOST_TEST_REQUIRE(links.has_value(), size);
    BOOST_TEST((*links == std::vector<uint32_t>{0, 1}), size);
  }
}

BOOST_AUTO_TEST_CASE(EveryDamagedByteIsFound) {
  const auto whole = segment(3);
  for (size_t at = 0; at < whole.size(); ++at) {
    auto bytes = whole;
    bytes[at] ^= std::byte{0x10};
    const auto links = links_in(bytes);
    BOOST_TEST((!links && links.error().kind == ErrorKind::corrupt), at);
  }
}

// ---- a folder --------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(WhatAProcessAppendedTheNextOneFindsAndAppendsTo) {
  auto disk = std::make_shared<MemoryDisk>();
  std::vector<uint32_t> appended;
  BOOST_REQUIRE(JournalFolder::create(disk, kFolder, some_head()).has_value());
  for (int process = 0; process < 4; ++process) {
    const auto journal = JournalFolder::open(disk, kFolder);
    BOOST_REQUIRE(journal.has_value());
    BOOST_TEST(((*journal)->head() == some_head()));
    BOOST_REQUIRE((*journal)->replay(kOptions).has_value());
    for (int i = 0; i < 3; ++i) {
      BOOST_REQUIRE((*journal)->append(link(static_cast<uint32_t>(appended.size()))).has_value());
      appended.push_back(static_cast<uint32_t>(appended.size()));
    }
    BOOST_TEST((links_of(disk).value() == appended));
  }
}

BOOST_AUTO_TEST_CASE(AProcessThatEndsInAnyCallLosesNoInputThatWasKept) {
  for (int64_t call = 1; call < 60; ++call) {
    auto disk = std::make_shared<MemoryDisk>();
    Random random(1);
    std::vector<uint32_t> kept;
    const auto process = [&](bool first, uint32_t from) -> Status {
      auto journal = first ? JournalFolder::create(disk, kFolder, some_head()) : JournalFolder::open(disk, kFolder);
      if (!journal) return tl::unexpected<Error>(journal.error());
      if (!first) TROUPE_TRY((*journal)->replay(kOptions));
      for (uint32_t i = from; i < from + 4; ++i) {
        TROUPE_TRY((*journal)->append(link(i)));
        kept.push_back(i);
      }
      return {};
    };
    disk->fail_at(call, MemoryDisk::Fault::crash);
    (void)(process(true, 0).has_value() && process(false, 100).has_value() && process(false, 200).has_value());
    disk->restart(MemoryDisk::Kept::all, random);
    const auto found = links_of(disk);
    BOOST_TEST(((found ? *found : std::vector<uint32_t>{}) == kept), call);
    BOOST_TEST((found || found.error().kind == ErrorKind::missing), call);
  }
}

BOOST_AUTO_TEST_CASE(WhoeverWasFollowedByAnotherIsToldSoAtItsNextTick) {
  const auto core = CoordinatorCore::make(kOptions).value();
  for (const bool over : {false, true}) {
    auto disk = std::make_shared<MemoryDisk>();
    const auto old = JournalFolder::create(disk, kFolder, some_head()).value();
    BOOST_REQUIRE(old->append({0, CoordinatorInput::Tick{}}).has_value());
    const auto next = JournalFolder::open(disk, kFolder).value();
    BOOST_REQUIRE(next->replay(kOptions).has_value());
    if (over) BOOST_REQUIRE(next->discard().has_value());
    const Status told = old->append({0, CoordinatorInput::Tick{}});
    BOOST_REQUIRE(!told.has_value());
    BOOST_TEST((told.error().kind == ErrorKind::cancelled));
    BOOST_TEST(told.error().message.starts_with("another process has gone on as the coordinator of this run"));
    BOOST_TEST((old->begin_anew(*core).error().kind == ErrorKind::cancelled));
    if (!over) BOOST_TEST(next->append({0, CoordinatorInput::Tick{}}).has_value());
  }
}

BOOST_AUTO_TEST_CASE(AProcessThatEndsWhileItBeginsAnewLeavesTheOldOrTheNew) {
  const auto core = CoordinatorCore::make(kOptions).value();
  int64_t calls = 100, olds = 0, news = 0;
  for (int64_t call = 1; call <= calls; ++call) {
    auto disk = std::make_shared<MemoryDisk>();
    Random random(1);
    const auto journal = JournalFolder::create(disk, kFolder, some_head()).value();
    BOOST_REQUIRE(journal->append(link(1)).has_value());
    disk->fail_at(call, MemoryDisk::Fault::crash);
    const bool done = journal->begin_anew(*core).has_value();
    if (done && calls == 100) calls = call + 1;  // removing the old has no effect on that any more
    disk->restart(MemoryDisk::Kept::all, random);
    const auto found = links_of(disk);
    BOOST_TEST_REQUIRE(found.has_value(), call);
    BOOST_TEST((found->empty() || *found == std::vector<uint32_t>{1}), call);
    ++(found->empty() ? news : olds);
    BOOST_TEST((!done || found->empty()), call);
    BOOST_TEST(JournalFolder::open(disk, kFolder).value()->replay(kOptions).has_value(), call);
  }
  BOOST_TEST(olds > 2);
  BOOST_TEST(news > 1);
}

// What is appended is not written through one by one. The image, which stands for all that goes once it has its name,
// may not be lost to a power failure.
BOOST_AUTO_TEST_CASE(AJournalThatHasBegunAnewOutlivesItsMachine) {
  const auto core = CoordinatorCore::make(kOptions).value();
  for (const auto kept : {MemoryDisk::Kept::none, MemoryDisk::Kept::some, MemoryDisk::Kept::zeros})
    for (uint64_t seed = 0; seed < 10; ++seed) {
      auto disk = std::make_shared<MemoryDisk>();
      Random random(seed);
      const auto journal = JournalFolder::create(disk, kFolder, some_head()).value();
      BOOST_REQUIRE(journal->append(link(1)).has_value());
      BOOST_REQUIRE(journal->begin_anew(*core).has_value());
      disk->restart(kept, random);
      const auto after = JournalFolder::open(disk, kFolder);
      BOOST_TEST_REQUIRE(after.has_value(), seed);
      BOOST_TEST((*after)->replay(kOptions).has_value(), seed);
    }
}

BOOST_AUTO_TEST_CASE(AJournalBeginsAnewWhenItIsLong) {
  auto disk = std::make_shared<MemoryDisk>();
  const auto core = CoordinatorCore::make(kOptions).value();
  const auto journal = JournalFolder::create(disk, kFolder, some_head()).value();
  journal->set_segment_bytes(2000);
  int anew = 0;
  for (uint32_t i = 0; i < 300; ++i) {
    if (journal->long_enough()) {
      BOOST_REQUIRE(journal->begin_anew(*core).has_value());
      ++anew;
    }
    BOOST_REQUIRE(journal->append(link(i)).has_value());
  }
  BOOST_TEST(anew > 2);
  BOOST_TEST(disk->list(kFolder)->size() == 1u);
  const auto links = links_of(disk).value();
  BOOST_TEST(links.back() == 299u);
  BOOST_TEST(links.size() < 200u);
}

BOOST_AUTO_TEST_CASE(AMissingOrForeignSegmentIsRefused) {
  auto disk = std::make_shared<MemoryDisk>();
  BOOST_TEST((JournalFolder::open(disk, kFolder).error().kind == ErrorKind::missing));
  BOOST_REQUIRE(JournalFolder::create(disk, kFolder, some_head()).has_value());
  const auto second = JournalFolder::open(disk, kFolder).value();
  BOOST_REQUIRE(second->replay(kOptions).has_value());
  BOOST_REQUIRE(second->append(link(1)).has_value());
  JournalHead other = some_head();
  other.run = 78;
  const std::string path = std::string(kFolder) + "/segment-000002", good = disk->bytes(path);
  const auto foreign = journal_record(other, 2, journal_record(some_head(), 1, 0).size());
  disk->bytes(path).assign(reinterpret_cast<const char*>(foreign.data()), foreign.size());
  BOOST_TEST((links_of(disk).error().kind == ErrorKind::corrupt));
  disk->bytes(path) = good;
  BOOST_REQUIRE(disk->remove_file(std::string(kFolder) + "/segment-000001").has_value());
  BOOST_TEST((links_of(disk).error().kind == ErrorKind::corrupt));
}

BOOST_AUTO_TEST_CASE(ANewRunLeavesNothingOfTheOneBefore) {
  auto disk = std::make_shared<MemoryDisk>();
  const auto old = JournalFolder::create(disk, kFolder, some_head()).value();
  BOOST_REQUIRE(old->append(link(1)).has_value());
  JournalHead head = some_head();
  head.run = 5;
  BOOST_REQUIRE(JournalFolder::create(disk, kFolder, head).has_value());
  const auto found = JournalFolder::open(disk, kFolder).value();
  BOOST_TEST(found->head().run == 5u);
  BOOST_TEST(links_of(disk).value().empty());
  BOOST_REQUIRE(found->discard().has_value());
  BOOST_TEST(!disk->exists(kFolder));
}

BOOST_AUTO_TEST_SUITE_END()
