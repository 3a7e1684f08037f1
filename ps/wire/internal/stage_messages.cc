// What the stages of a replica hand to each other, and what makes workers find each other for collectives.
#include <troupe/ps/wire/internal/messages.h>

namespace troupe::ps::wire {

/// Ids of collective libraries have some hundred bytes.
static constexpr size_t kMaxCollectiveId = 4096;

void write(const Activation& in, schema::Activation::Builder out, Writer& writer) {
  out.setKind(static_cast<schema::Activation::Kind>(in.kind));
  out.setStep(in.step);
  out.setMicroBatch(in.micro_batch);
  out.setChunk(in.chunk);
  out.setEpoch(in.samples.epoch);
  out.setBegin(in.samples.begin);
  out.setCount(in.samples.count);
  writer.add_all(in.tensors, [&](unsigned n) { return out.initTensors(n); });
}
void read(schema::Activation::Reader in, Activation& out, Reader& reader) {
  out.kind = enumerant(in.getKind(), Activation::Kind::tied, "kind of activation");
  out.step = reader.step(in.getStep(), "step");
  out.micro_batch = in.getMicroBatch();
  out.chunk = in.getChunk();
  out.samples = {reader.count(in.getEpoch(), "epoch"), reader.count(in.getBegin(), "first sample"),
                 reader.count(in.getCount(), "samples")};
  for (const uint32_t index : in.getTensors()) out.tensors.push_back(reader.tensor(index, "activation"));
}

void write(const ActivationAck& in, schema::ActivationAck::Builder out, Writer&) {
  out.setKind(static_cast<schema::Activation::Kind>(in.kind));
  out.setStep(in.step);
  out.setMicroBatch(in.micro_batch);
  out.setChunk(in.chunk);
}
void read(schema::ActivationAck::Reader in, ActivationAck& out, Reader& reader) {
  out.kind = enumerant(in.getKind(), Activation::Kind::tied, "kind of activation");
  out.step = reader.step(in.getStep(), "step");
  out.micro_batch = in.getMicroBatch();
  out.chunk = in.getChunk();
}

void write(const CollectiveId& in, schema::CollectiveId::Builder out, Writer& writer) {
  writer.text(in.device, [&](auto text) { out.setDevice(text); });
  writer.numbers(in.members, [&](unsigned n) { return out.initMembers(n); });
  out.setJoined(in.joined);
  out.setFirst(in.first);
  if (!in.id.empty()) out.setId({reinterpret_cast<const kj::byte*>(in.id.data()), in.id.size()});
}
void read(schema::CollectiveId::Reader in, CollectiveId& out, Reader& reader) {
  out.device = reader.text(in.getDevice());
  out.members = reader.numbers<WorkerId>(in.getMembers());
  out.joined = in.getJoined();
  out.first = reader.step(in.getFirst(), "first");
  const auto id = in.getId();
  if (id.size() > kMaxCollectiveId) refuse("the id of a collective has ", id.size(), " bytes");
  out.id.assign(id.asChars().begin(), id.size());
}

}  // namespace troupe::ps::wire
