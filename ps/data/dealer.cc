#include <troupe/ps/data/dealer.h>

#include <algorithm>
#include <limits>

#include <troupe/kernels/base/check.h>

namespace troupe::ps {

namespace {

/// Keeps every product of two batch sizes, and of a batch and a worker count, within int64.
constexpr int64_t kMaxBatch = int64_t{1} << 30;
/// Keeps the samples of a run (at most 2^32 an epoch) and of its steps within int64.
constexpr int64_t kMaxEpochs = int64_t{1} << 30;

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

std::string terms(const std::vector<int64_t>& values) {
  std::string text;
  for (const int64_t value : values) text += (text.empty() ? "" : " + ") + std::to_string(value);
  return text;
}

Status check_options(const DealerOptions& o) {
  const auto workers = static_cast<int64_t>(o.worker_batch.size()) / std::max<int64_t>(o.stages, 1);
  if (o.stages < 1 || workers * o.stages != static_cast<int64_t>(o.worker_batch.size()))
    return fail(ErrorKind::invalid,
                cat("parallel.workers = ", o.worker_batch.size(), " is not a multiple of parallel.stages = ", o.stages,
                    ": every replica of the model needs all stages"));
  if (workers == 0) return fail(ErrorKind::invalid, "parallel.workers is 0: a run needs at least one worker");
  if (o.train_samples <= 0 || o.train_samples > int64_t{1} << 32)
    return fail(ErrorKind::invalid, cat("the training set has ", o.train_samples,
                                        " samples; between 1 and 2^32 can be trained on"));
  if (workers > o.train_samples)
    return fail(ErrorKind::invalid,
                cat("parallel.workers = ", workers, " is more than the ", o.train_samples,
                    " samples of the training set: take at most as many workers as samples"));
  if (o.global_batch <= 0 || o.global_batch > kMaxBatch)
    return fail(ErrorKind::invalid,
                cat("train.batch_size = ", o.global_batch, " is not within 1 .. ", kMaxBatch));
  int64_t sum = 0;
  std::vector<int64_t> batches;  // one a replica
  for (size_t w = 0; w < o.worker_batch.size(); ++w) {
    if (o.worker_batch[w] < (o.vacancies ? 0 : 1) || o.worker_batch[w] > kMaxBatch)
      return fail(ErrorKind::invalid,
                  cat("worker ", w, " has a batch of ", o.worker_batch[w],
                      " samples (train.batch_size = ", o.global_batch, ", parallel.workers = ", workers,
                      "): every worker needs at least 1; raise the batch size or take fewer workers"));
    const size_t first = w - w % static_cast<size_t>(o.stages);
    if (o.worker_batch[w] != o.worker_batch[first])
      return fail(ErrorKind::invalid,
                  cat("workers ", first, " and ", w, " are stages of one replica and have batches of ",
                      o.worker_batch[first], " and ", o.worker_batch[w], " samples"));
    if (w != first) continue;
    sum += o.worker_batch[w];
    batches.push_back(o.worker_batch[w]);
  }
  if (sum != o.global_batch)
    return fail(ErrorKind::invalid, cat("the workers' batches ", terms(batches), " = ", sum,
                                        " do not add up to train.batch_size = ", o.global_batch));
  if (o.epochs < 0 || o.epochs > kMaxEpochs || o.max_steps < 0 || o.max_steps > kMaxEpochs)
    return fail(ErrorKind::invalid, cat("train.epochs = ", o.epochs, " and train.max_steps = ", o.max_steps,
                                        " must be within 0 .. ", kMaxEpochs));
  if (o.epochs == 0 && o.max_steps == 0)
    return fail(ErrorKind::invalid,
                "train.epochs and train.max_steps are both 0: one of them must end the run");
  return {};
}

Status check_state(const DealerOptions& o, const DealerState& s) {
  if (s.train_samples != o.train_samples)
    return fail(
        ErrorKind::invalid,
        cat("the checkpoint was trained on ", s.train_samples, " samples, the data set has ", o.train_samples,
            ": its place in the data means nothing here; resume with the data set it was made with"));
  bool sound =
      s.epoch >= 0 && s.epoch <= kMaxEpochs && s.begin >= 0 && s.begin <= s.train_samples && s.step >= 0;
  const SampleRange* last = nullptr;
  for (const SampleRange& r : s.returned) {
    sound =
        sound && r.epoch >= 0 && r.begin >= 0 && r.count > 0 && r.count <= s.train_samples &&
        r.begin <= s.train_samples - r.count &&
        (r.epoch < s.epoch || (r.epoch == s.epoch && r.begin + r.count <= s.begin)) &&
        (!last || last->epoch < r.epoch || (last->epoch == r.epoch && last->begin + last->count <= r.begin));
    last = &r;
  }
  if (!sound)
    return fail(ErrorKind::corrupt, cat("the checkpoint's place in the data makes no sense: epoch ", s.epoch,
                                        ", sample ", s.begin, " of ", s.train_samples, ", step ", s.step,
                                        ", ", s.returned.size(), " ranges to be dealt again"));
  return {};
}

void advance_to_next_epoch_at_end(DealerState& s) {
  if (s.begin < s.train_samples) return;
  ++s.epoch;
  s.begin = 0;
}

/// Ascending, neighbours joined: how often work was cut does not show.
void normalise(std::vector<SampleRange>& ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const SampleRange& a, const SampleRange& b) {
    return std::pair(a.epoch, a.begin) < std::pair(b.epoch, b.begin);
  });
  std::vector<SampleRange> joined;
  for (const SampleRange& r : ranges) {
    if (r.count == 0) continue;
    if (!joined.empty() && joined.back().epoch == r.epoch &&
        joined.back().begin + joined.back().count == r.begin)
      joined.back().count += r.count;
    else
      joined.push_back(r);
  }
  ranges = std::move(joined);
}

}  // namespace

std::vector<int64_t> equal_split(int64_t global_batch, int64_t workers) {
  std::vector<int64_t> parts;
  for (int64_t w = 0; w < workers; ++w)
    parts.push_back(global_batch / workers + (w < global_batch % workers));
  return parts;
}

Result<Dealer> Dealer::make(DealerOptions options, std::optional<DealerState> state) {
  TROUPE_TRY(check_options(options));
  if (!state) state = DealerState{.train_samples = options.train_samples};
  TROUPE_TRY(check_state(options, *state));
  return Dealer(std::move(options), std::move(*state));
}

Dealer::Dealer(DealerOptions options, DealerState start)
    : options_(std::move(options)), slots_(options_.worker_batch.size()), start_(std::move(start)) {
  advance_to_next_epoch_at_end(start_);
  normalise(start_.returned);
  cursor_ = start_;
  for (size_t w = 0; w < slots_.size(); w += static_cast<size_t>(options_.stages))
    batch_end_.push_back((batch_end_.empty() ? 0 : batch_end_.back()) + options_.worker_batch[w]);
  shared_.resize(batch_end_.size());
  for (Slot& slot : slots_) slot.next = start_.step;
  if (options_.epochs == 0) options_.epochs = kMaxEpochs;

  total_samples_ = options_.epochs * options_.train_samples;
  if (options_.max_steps == 0) return;
  if (!options_.lockstep)
    total_samples_ = std::min(total_samples_, options_.max_steps * options_.global_batch);
  else if (options_.max_steps <= start_.step)
    total_samples_ = samples_before(start_);
  else if (const DealerState end = lockstep_position(options_.max_steps); end.epoch < options_.epochs)
    total_samples_ = samples_before(end);
}

int64_t Dealer::samples_before(const DealerState& position) const {
  int64_t samples = position.epoch * position.train_samples + position.begin;
  for (const SampleRange& r : position.returned) samples -= r.count;
  return samples;
}

/// What is still to be dealt when all workers have reached `step`: returned ranges first, then the rest of
/// the epoch that the dealer began in, then whole epochs, each in steps of one global batch.
DealerState Dealer::lockstep_position(Step step) const {
  const int64_t batch = options_.global_batch;
  DealerState p = start_;
  p.step = step;
  int64_t k = step - start_.step;
  while (k > 0 && !p.returned.empty()) {
    SampleRange& first = p.returned.front();
    const int64_t steps = ceil_div(first.count, batch);
    if (k < steps) {
      first.begin += k * batch;
      first.count -= k * batch;
      return p;
    }
    k -= steps;
    p.returned.erase(p.returned.begin());
  }
  const int64_t rest_steps = ceil_div(p.train_samples - p.begin, batch);
  if (k < rest_steps) {
    p.begin += k * batch;
    return p;
  }
  k -= rest_steps;
  const int64_t epoch_steps = ceil_div(p.train_samples, batch);
  p.epoch += 1 + k / epoch_steps;
  p.begin = k % epoch_steps * batch;
  return p;
}

std::optional<Deal> Dealer::lockstep_deal(Step step) const {
  if (options_.max_steps > 0 && step >= options_.max_steps) return {};
  const DealerState p = lockstep_position(step);
  if (p.returned.empty() && p.epoch >= options_.epochs) return {};
  SampleRange all =
      p.returned.empty() ? SampleRange{p.epoch, p.begin, p.train_samples - p.begin} : p.returned.front();
  all.count = std::min(all.count, options_.global_batch);
  return Deal{step, samples_before(p) / options_.global_batch, all.count, all};
}

/// A full batch is cut exactly by worker batch, a short one in proportion; the parts always add up.
SampleRange Dealer::share(const SampleRange& all, WorkerId worker) const {
  const auto cut = [&](int64_t batch_end) { return all.count * batch_end / options_.global_batch; };
  const size_t r = replica(worker);
  const int64_t first = r == 0 ? 0 : cut(batch_end_[r - 1]);
  return {all.epoch, all.begin + first, cut(batch_end_[r]) - first};
}

/// The next samples at `cursor`, which moves behind them.
std::optional<Deal> Dealer::take(DealerState& cursor, int64_t at_most) const {
  const int64_t dealt = samples_before(cursor);
  at_most = std::min(at_most, total_samples_ - dealt);
  if (at_most <= 0) return {};
  SampleRange range;
  if (!cursor.returned.empty()) {
    SampleRange& first = cursor.returned.front();
    range = {first.epoch, first.begin, std::min(at_most, first.count)};
    first.begin += range.count;
    first.count -= range.count;
    if (first.count == 0) cursor.returned.erase(cursor.returned.begin());
  } else {
    range = {cursor.epoch, cursor.begin, std::min(at_most, cursor.train_samples - cursor.begin)};
    cursor.begin += range.count;
    advance_to_next_epoch_at_end(cursor);
  }
  return Deal{0, dealt / options_.global_batch, range.count, range};
}

std::optional<Deal> Dealer::deal(WorkerId worker, DealerState& cursor) const {
  TROUPE_CHECK(worker < slots_.size(), "worker ", worker, " of ", slots_.size());
  const Slot& slot = slots_[worker];
  if (!slot.again.empty()) return slot.again.front();
  if (const Deal* dealt = shared(worker)) return *dealt;
  std::optional<Deal> deal =
      options_.lockstep ? lockstep_deal(slot.next) : take(cursor, options_.worker_batch[worker]);
  if (!deal) return {};
  if (options_.lockstep) deal->range = share(deal->range, worker);
  deal->step = slot.next;
  return deal;
}

std::optional<Deal> Dealer::peek(WorkerId worker) const {
  DealerState cursor = cursor_;
  return deal(worker, cursor);
}

std::optional<Deal> Dealer::next(WorkerId worker) {
  std::optional<Deal> deal = this->deal(worker, cursor_);
  if (!deal) return {};
  Slot& slot = slots_[worker];
  if (!slot.again.empty()) slot.again.pop_front();
  else ++slot.next, share_out(worker, *deal);
  slot.outstanding.push_back(*deal);
  return deal;
}

bool Dealer::repeats(WorkerId worker) const {
  TROUPE_CHECK(worker < slots_.size(), "worker ", worker, " of ", slots_.size());
  return !slots_[worker].again.empty() || shared(worker) != nullptr;
}

const Deal* Dealer::shared(WorkerId worker) const {
  if (options_.stages == 1) return nullptr;
  const auto& deals = shared_[replica(worker)];
  const auto found = deals.find(slots_[worker].next);
  return found == deals.end() ? nullptr : &found->second;
}

// The worker has been dealt its replica's piece: the stages that have not still will be.
void Dealer::share_out(WorkerId worker, const Deal& deal) {
  if (options_.stages > 1) shared_[replica(worker)].emplace(deal.step, deal);
}

// First step that one of the replica's stages has not completed.
Step Dealer::unfinished(size_t replica) const {
  Step first = std::numeric_limits<Step>::max();
  for (size_t w = replica * stages(); w < (replica + 1) * stages(); ++w) {
    first = std::min(first, slots_[w].next);
    for (const Deal& deal : slots_[w].outstanding) first = std::min(first, deal.step);
    for (const Deal& deal : slots_[w].again) first = std::min(first, deal.step);
  }
  return first;
}

Deal Dealer::idle(WorkerId worker) {
  TROUPE_CHECK(worker < slots_.size() && !options_.lockstep, "an idle step of worker ", worker);
  Slot& slot = slots_[worker];
  const Deal deal{slot.next++, samples_dealt() / options_.global_batch, 0, {cursor_.epoch, cursor_.begin, 0}};
  share_out(worker, deal);
  slot.outstanding.push_back(deal);
  return deal;
}

void Dealer::completed(WorkerId worker, Step step) {
  TROUPE_CHECK(worker < slots_.size(), "worker ", worker, " of ", slots_.size());
  std::erase_if(slots_[worker].outstanding, [&](const Deal& deal) { return deal.step == step; });
  auto& deals = shared_[replica(worker)];
  if (!deals.empty()) deals.erase(deals.begin(), deals.lower_bound(unfinished(replica(worker))));
}

void Dealer::restart(WorkerId worker) {
  TROUPE_CHECK(worker < slots_.size(), "worker ", worker, " of ", slots_.size());
  if (options_.stages > 1) return restart_replica(replica(worker));
  Slot& slot = slots_[worker];
  slot.again.insert(slot.again.begin(), slot.outstanding.begin(), slot.outstanding.end());
  slot.outstanding.clear();
}

// A stage can only repeat a step together with the others: those that had completed it, too.
void Dealer::restart_replica(size_t replica) {
  const auto& deals = shared_[replica];
  const Step from = unfinished(replica);
  for (size_t w = replica * stages(); w < (replica + 1) * stages(); ++w) {
    Slot& slot = slots_[w];
    slot.outstanding.clear();
    slot.again.clear();
    for (auto it = deals.lower_bound(from); it != deals.end() && it->first < slot.next; ++it)
      slot.again.push_back(it->second);
  }
}

std::set<Step> Dealer::repeated_steps(WorkerId worker) const {
  std::set<Step> steps;
  for (const Deal& deal : slots_[worker].again) steps.insert(deal.step);
  return steps;
}

void Dealer::give_back(WorkerId worker) {
  TROUPE_CHECK(!options_.lockstep, "a lockstep worker's samples belong to its step");
  restart(worker);
  for (const Deal& deal : slots_[worker].again) cursor_.returned.push_back(deal.range);
  slots_[worker].again.clear();
  normalise(cursor_.returned);
}

Step Dealer::furthest() const {
  Step furthest = start_.step;
  for (const Slot& slot : slots_) furthest = std::max(furthest, slot.next);
  return furthest;
}

int64_t Dealer::samples_dealt() const {
  return samples_before(options_.lockstep ? lockstep_position(furthest()) : cursor_);
}

Step Dealer::total_schedule_steps() const {
  return ceil_div(total_samples_, options_.global_batch);
}

Step Dealer::total_steps() const {
  if (!options_.lockstep) return total_schedule_steps();
  const auto steps_of = [&](int64_t samples) { return ceil_div(samples, options_.global_batch); };
  Step end = start_.step;
  for (const SampleRange& range : start_.returned) end += steps_of(range.count);
  if (start_.epoch < options_.epochs) {
    end += steps_of(options_.train_samples - start_.begin);
    end += (options_.epochs - start_.epoch - 1) * steps_of(options_.train_samples);
  }
  return options_.max_steps > 0 ? std::min(end, std::max(options_.max_steps, start_.step)) : end;
}

bool Dealer::done() const {
  for (const Slot& slot : slots_)
    if (!slot.outstanding.empty() || !slot.again.empty() || (options_.lockstep && lockstep_deal(slot.next)))
      return false;
  for (const auto& deals : shared_)
    if (!deals.empty()) return false;
  return options_.lockstep || samples_before(cursor_) >= total_samples_;
}

DealerState Dealer::state() const {
  const Step reached = furthest();
  DealerState s = options_.lockstep ? lockstep_position(reached) : cursor_;
  s.step = reached;
  std::map<std::pair<size_t, Step>, SampleRange> open;  // by replica: what not all of its stages have done
  for (WorkerId w = 0; w < slots_.size(); ++w) {
    const size_t r = replica(w);
    for (const Deal& deal : slots_[w].outstanding) open[{r, deal.step}] = deal.range;
    for (const Deal& deal : slots_[w].again) open[{r, deal.step}] = deal.range;
    if (options_.lockstep)  // its share of steps that others have begun
      for (Step step = slots_[w].next; step < reached; ++step)
        open[{r, step}] = share(lockstep_deal(step)->range, w);
  }
  for (size_t r = 0; r < shared_.size(); ++r)
    for (const auto& [step, deal] : shared_[r]) open[{r, step}] = deal.range;
  for (const auto& [where, range] : open) s.returned.push_back(range);
  normalise(s.returned);
  return s;
}

}  // namespace troupe::ps
