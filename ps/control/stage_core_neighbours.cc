#include <troupe/ps/control/stage_core.h>

#include <algorithm>

#include <troupe/kernels/base/check.h>

// What comes from the other stages: taken once, and only what the schedule lets them send.
namespace troupe::ps {

const char* StageCore::name_of(Activation::Kind kind) {
  switch (kind) {
    case Activation::Kind::forward: return "outputs";
    case Activation::Kind::backward: return "gradients";
    case Activation::Kind::tied: return "gradient of a tied layer";
  }
  return "?";
}

StageCore::Effects StageCore::handle(const Envelope& envelope) {
  Effects out;
  if (const auto* ack = std::get_if<ActivationAck>(&envelope.body)) {
    unacknowledged_.erase({ack->step, ack->kind, ack->chunk, ack->micro_batch});
    advance(out);  // of an evaluation there may be room for more
    return out;
  }
  const auto* activation = std::get_if<Activation>(&envelope.body);
  if (!activation) return out;
  const Key key{activation->step, activation->kind, activation->chunk, activation->micro_batch};
  const auto refuse = [&](const auto&... what) {
    fault(out, cat(describe(envelope.from), " sent ", name_of(key.kind), what...));
    return out;
  };
  const auto from = maker(key);
  if (!from) return refuse(" for chunk ", key.chunk, ", which takes nothing of that kind from another stage");
  if (envelope.from.role != Role::worker || envelope.from.index != options_.self.index - stage() + *from)
    return refuse(" for chunk ", key.chunk, ", which takes them from stage ", *from, " of its own replica");
  // What belongs to a step that is over has been taken, and so has what a task was given; its acknowledgement was lost.
  const bool over = key.step < 0 ? key.step >= -evaluations_done_ : key.step <= steps_done_;
  Run* run = over ? nullptr : run_of(key.step);
  const bool taken = over || (run && run->taken.count(key) > 0) ||
                     (run && key.kind == Activation::Kind::tied && is_complete(*run, key.micro_batch));
  if (taken || key.step >= 0) acknowledge(out, key, envelope.from);
  if (taken || arrived_.count(key) > 0) return out;
  if (const std::string why = objection(run, key, *activation); !why.empty()) return refuse(why);
  arrived_.emplace(key, *activation);
  moved(cat("received ", name_of(key.kind), " ", key.micro_batch, " for chunk ", key.chunk));
  if (!run) return out;
  if (key.kind == Activation::Kind::tied)
    add_tied(out, *run, key.micro_batch);
  else
    note_arrival(*run, key);
  advance(out);
  finish(out);
  return out;
}

void StageCore::acknowledge(Effects& out, const Key& key, const Endpoint& to) const {
  out.send.push_back({options_.self, to, generation_, ActivationAck{key.kind, key.step, key.micro_batch, key.chunk}});
}

int64_t StageCore::most_waiting(const Key& key) const { return key.step < 0 ? kTests : most_waiting_.at(key.chunk); }

// Why it cannot be what the sender should have sent; empty: it can. `run` is of its step, if that has begun.
std::string StageCore::objection(const Run* run, const Key& key, const Activation& activation) const {
  const char* const unit = key.kind == Activation::Kind::tied ? ", layer " : " of micro-batch ";
  const std::string which = cat(unit, key.micro_batch, " for chunk ", key.chunk, " in step ", key.step);
  if (key.kind != Activation::Kind::forward && (!run || run->work.kind != Work::Kind::train))
    return cat(which, ", in which nothing has gone forward here");
  if (key.kind == Activation::Kind::tied) return {};  // judged where it is added
  if (run && key.micro_batch >= run->micro.size())
    return cat(which, " of ", run->micro.size(), " micro-batches");
  const bool forward = key.kind == Activation::Kind::forward;
  if (forward) {
    const auto waiting = std::ranges::count_if(arrived_, [&](const auto& entry) {
      const Key& other = entry.first;
      return other.kind == key.kind && other.chunk == key.chunk && (other.step < 0) == (key.step < 0);
    });
    if (waiting >= most_waiting(key))
      return cat(which, " while ", waiting, " that it sent wait here, and the schedule lets it be no further ahead");
  }
  if (activation.tensors.size() != 1 || !activation.tensors.front())
    return cat(which, " as ", activation.tensors.size(), " tensors, expected one");
  const Tensor& tensor = activation.tensors.front();
  if (const auto& due = options_.activations; due && tensor.dtype() != *due)
    return cat(which, " as ", troupe::name_of(tensor.dtype()), ", expected ", troupe::name_of(*due));
  const auto& inputs = options_.plan.inputs;
  if (inputs.empty()) return {};
  const SampleRange& samples = activation.samples;
  const Shape due = nn::batch_shape(std::max<int64_t>(samples.count, 0), inputs[key.chunk + !forward]);
  if (tensor.shape() == due) return {};
  return cat(which, " of shape ", tensor.shape(), ", expected ", due, " for its ", samples.count, " samples");
}

StageCore::Effects StageCore::tick() const {
  Effects out;
  for (const auto& [key, envelope] : unacknowledged_) out.send.push_back(envelope);
  return out;
}

}  // namespace troupe::ps
