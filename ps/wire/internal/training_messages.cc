// What workers, servers and the coordinator say in every step.
#include <troupe/ps/wire/internal/messages.h>

namespace troupe::ps::wire {

void write(const Push& in, schema::Push::Builder out, Writer& writer) {
  out.setSequence(in.sequence);
  out.setParcel(in.parcel);
  out.setStep(in.step);
  out.setScheduleStep(in.schedule_step);
  out.setSamples(in.samples);
  out.setScale(in.scale);
  out.setFinite(in.finite);
  writer.add_all(in.gradients, [&](unsigned n) { return out.initGradients(n); });
  writer.add_some(in.rows, [&](unsigned n) { return out.initRows(n); });
}
void read(schema::Push::Reader in, Push& out, Reader& reader) {
  out.sequence = in.getSequence();
  out.parcel = in.getParcel();
  out.step = reader.step(in.getStep(), "step");
  out.schedule_step = reader.step(in.getScheduleStep(), "schedule step");
  out.samples = in.getSamples();
  out.scale = in.getScale();
  out.finite = in.getFinite();
  out.gradients = reader.floats(in.getGradients(), "gradient");
  out.rows = reader.rows(in.getRows());
}

void write(const PushAck& in, schema::PushAck::Builder out, Writer&) {
  out.setSequence(in.sequence);
  out.setParcel(in.parcel);
  out.setStep(in.step);
}
void read(schema::PushAck::Reader in, PushAck& out, Reader& reader) {
  out.sequence = in.getSequence();
  out.parcel = in.getParcel();
  out.step = reader.step(in.getStep(), "step");
}

void write(const Pull& in, schema::Pull::Builder out, Writer& writer) {
  out.setParcel(in.parcel);
  out.setStep(in.step);
  out.setTicket(in.ticket);
  writer.add_some(in.rows, [&](unsigned n) { return out.initRows(n); });
}
void read(schema::Pull::Reader in, Pull& out, Reader& reader) {
  out.parcel = in.getParcel();
  out.step = reader.step(in.getStep(), "step");
  out.ticket = in.getTicket();
  out.rows = reader.rows(in.getRows());
}

void write(const SliceState& in, schema::SliceState::Builder out, Writer& writer) {
  out.setSlice(in.slice);
  out.setUpdates(in.updates);
  out.setValues(writer.add(in.values));
  writer.add_all(in.state, [&](unsigned n) { return out.initState(n); });
}
void read(schema::SliceState::Reader in, SliceState& out, Reader& reader) {
  out.slice = in.getSlice();
  out.updates = reader.count(in.getUpdates(), "updates");
  out.values = reader.floats(in.getValues(), "values");
  out.state = reader.floats(in.getState(), "state");
  for (const Tensor& state : out.state)
    if (state.count() != out.values.count())
      refuse("state of slice ", out.slice, " has ", state.count(), " elements, its values ", out.values.count());
}

void write(const PullReply& in, schema::PullReply::Builder out, Writer& writer) {
  out.setParcel(in.parcel);
  out.setStep(in.step);
  out.setTicket(in.ticket);
  out.setLag(in.lag);
  writer.add_all(in.values, [&](unsigned n) { return out.initValues(n); });
  writer.structs(in.state, [&](unsigned n) { return out.initState(n); });
}
void read(schema::PullReply::Reader in, PullReply& out, Reader& reader) {
  out.parcel = in.getParcel();
  out.step = reader.step(in.getStep(), "step");
  out.ticket = in.getTicket();
  out.lag = reader.count(in.getLag(), "lag");
  out.values = reader.floats(in.getValues(), "values");
  out.state = reader.structs<SliceState>(in.getState());
  if (!out.state.empty() && out.state.size() != out.values.size())
    refuse(out.state.size(), " states of ", out.values.size(), " slices");
}

void write(const Refused& in, schema::Refused::Builder out, Writer& writer) {
  out.setReason(static_cast<schema::Refused::Reason>(in.reason));
  out.setSequence(in.sequence);
  out.setParcel(in.parcel);
  out.setStep(in.step);
  writer.text(in.detail, [&](auto text) { out.setDetail(text); });
}
void read(schema::Refused::Reader in, Refused& out, Reader& reader) {
  out.reason = enumerant(in.getReason(), Refused::Reason::malformed, "reason");
  out.sequence = in.getSequence();
  out.parcel = in.getParcel();
  out.step = reader.step(in.getStep(), "step");
  out.detail = reader.text(in.getDetail());
}

void write(const WorkRequest& in, schema::WorkRequest::Builder out, Writer&) { out.setNumber(in.number); }
void read(schema::WorkRequest::Reader in, WorkRequest& out, Reader&) { out.number = in.getNumber(); }

void write(const Work& in, schema::Work::Builder out, Writer&) {
  out.setNumber(in.number);
  out.setKind(static_cast<schema::Work::Kind>(in.kind));
  out.setStep(in.step);
  out.setScheduleStep(in.schedule_step);
  out.setStepSamples(in.step_samples);
  out.setEpoch(in.range.epoch);
  out.setBegin(in.range.begin);
  out.setCount(in.range.count);
  out.setSince(in.since);
  out.setLossScale(in.loss_scale);
}
void read(schema::Work::Reader in, Work& out, Reader& reader) {
  out.number = in.getNumber();
  out.kind = enumerant(in.getKind(), Work::Kind::upload, "kind");
  out.step = reader.step(in.getStep(), "step");
  out.schedule_step = reader.step(in.getScheduleStep(), "schedule step");
  out.step_samples = reader.count(in.getStepSamples(), "step samples");
  out.range.epoch = reader.count(in.getEpoch(), "epoch");
  out.range.begin = reader.count(in.getBegin(), "begin");
  out.range.count = reader.count(in.getCount(), "count");
  out.since = reader.step(in.getSince(), "step");
  out.loss_scale = reader.finite(in.getLossScale(), "loss scale");
}

void write(const WorkDone& in, schema::WorkDone::Builder out, Writer& writer) {
  out.setNumber(in.number);
  out.setKind(static_cast<schema::Work::Kind>(in.kind));
  out.setStep(in.step);
  out.setLossSum(in.stats.loss_sum);
  out.setCorrect(in.stats.correct);
  out.setSamples(in.stats.samples);
  out.setComputeSeconds(in.compute_s);
  out.setWaitSeconds(in.wait_s);
  out.setPushedBytes(in.pushed_bytes);
  out.setPulledBytes(in.pulled_bytes);
  out.setMaxLag(in.max_lag);
  writer.text(in.non_finite, [&](auto text) { out.setNonFinite(text); });
}
void read(schema::WorkDone::Reader in, WorkDone& out, Reader& reader) {
  out.number = in.getNumber();
  out.kind = enumerant(in.getKind(), Work::Kind::upload, "kind");
  out.step = reader.step(in.getStep(), "step");
  out.stats.loss_sum = in.getLossSum();
  out.stats.correct = reader.count(in.getCorrect(), "correct answers");
  out.stats.samples = reader.count(in.getSamples(), "samples");
  out.compute_s = reader.finite(in.getComputeSeconds(), "computing time");
  out.wait_s = reader.finite(in.getWaitSeconds(), "waiting time");
  out.pushed_bytes = reader.count(in.getPushedBytes(), "pushed bytes");
  out.pulled_bytes = reader.count(in.getPulledBytes(), "pulled bytes");
  out.max_lag = reader.count(in.getMaxLag(), "lag");
  out.non_finite = reader.text(in.getNonFinite());
}

void write(const WorkDoneAck& in, schema::WorkDoneAck::Builder out, Writer&) { out.setNumber(in.number); }
void read(schema::WorkDoneAck::Reader in, WorkDoneAck& out, Reader&) { out.number = in.getNumber(); }

void write(const Partial& in, schema::Partial::Builder out, Writer& writer) {
  out.setStep(in.step);
  out.setSumOfSquares(in.sum_of_squares);
  out.setFinite(in.finite);
  writer.text(in.culprit, [&](auto text) { out.setCulprit(text); });
}
void read(schema::Partial::Reader in, Partial& out, Reader& reader) {
  out.step = reader.step(in.getStep(), "step");
  out.sum_of_squares = in.getSumOfSquares();
  out.finite = in.getFinite();
  out.culprit = reader.text(in.getCulprit());
  if (out.finite) reader.finite(out.sum_of_squares, "sum of squares");
}

void write(const Verdict& in, schema::Verdict::Builder out, Writer&) {
  out.setStep(in.step);
  out.setSkip(in.skip);
  out.setScale(in.scale);
}
void read(schema::Verdict::Reader in, Verdict& out, Reader& reader) {
  out.step = reader.step(in.getStep(), "step");
  out.skip = in.getSkip();
  out.scale = reader.finite(in.getScale(), "scale");
}

}  // namespace troupe::ps::wire
