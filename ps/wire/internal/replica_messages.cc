// What keeps a replica equal to its shard: images and events.
#include <troupe/ps/wire/internal/messages.h>

namespace troupe::ps::wire {

using ImageSchema = schema::ShardImage;

static void write(const ShardImage::Worker& in, ImageSchema::Worker::Builder out, Writer& writer) {
  out.setHighWater(in.high_water);
  out.setInstallRound(in.install_round);
  writer.numbers(in.above, [&](unsigned n) { return out.initAbove(n); });
}
static void read(ImageSchema::Worker::Reader in, ShardImage::Worker& out, Reader& reader) {
  out.high_water = in.getHighWater();
  out.install_round = in.getInstallRound();
  out.above = reader.numbers<Sequence>(in.getAbove());
}

static void write(const ShardImage::Parcel::Read& in, ImageSchema::Read::Builder out, Writer&) {
  out.setStep(in.step);
  out.setUpdates(in.updates);
}
static void read(ImageSchema::Read::Reader in, ShardImage::Parcel::Read& out, Reader& reader) {
  out.step = reader.step(in.getStep(), "step of a read");
  out.updates = reader.step(in.getUpdates(), "updates at a read");
}

static void write(const ShardImage::Parcel::Part& in, ImageSchema::Part::Builder out, Writer& writer) {
  out.setWorker(in.worker);
  out.setSamples(in.samples);
  out.setScheduleStep(in.schedule_step);
  out.setFinite(in.finite);
  writer.add_all(in.gradients, [&](unsigned n) { return out.initGradients(n); });
  writer.add_some(in.rows, [&](unsigned n) { return out.initRows(n); });
}
static void read(ImageSchema::Part::Reader in, ShardImage::Parcel::Part& out, Reader& reader) {
  out.worker = in.getWorker();
  out.samples = reader.count(in.getSamples(), "samples");
  out.schedule_step = reader.step(in.getScheduleStep(), "schedule step");
  out.finite = in.getFinite();
  out.gradients = reader.floats(in.getGradients(), "gradient");
  out.rows = reader.rows(in.getRows());
}

static void write(const ShardImage::Parcel& in, ImageSchema::HeldParcel::Builder out, Writer& writer) {
  out.setId(in.id);
  out.setVersion(in.version);
  out.setUpdates(in.updates);
  writer.numbers(in.clock, [&](unsigned n) { return out.initClock(n); });
  writer.structs(in.reads, [&](unsigned n) { return out.initReads(n); });
  writer.structs(in.pending, [&](unsigned n) { return out.initPending(n); });
  writer.add_all(in.previous, [&](unsigned n) { return out.initPrevious(n); });
}
static void read(ImageSchema::HeldParcel::Reader in, ShardImage::Parcel& out, Reader& reader) {
  out.id = in.getId();
  out.version = reader.step(in.getVersion(), "version");
  out.updates = reader.count(in.getUpdates(), "updates");
  out.clock = reader.numbers<Step>(in.getClock());
  for (const Step step : out.clock) reader.step(step, "clock");
  out.reads = reader.structs<ShardImage::Parcel::Read>(in.getReads());
  out.pending = reader.structs<ShardImage::Parcel::Part>(in.getPending());
  out.previous = reader.floats(in.getPrevious(), "previous parameters");
}

void write(const ShardImage& in, ImageSchema::Builder out, Writer& writer) {
  write(in.membership, out.initMembership(), writer);
  writer.structs(in.workers, [&](unsigned n) { return out.initWorkers(n); });
  writer.structs(in.parcels, [&](unsigned n) { return out.initParcels(n); });
  writer.structs(in.slices, [&](unsigned n) { return out.initSlices(n); });
  if (in.partial) write(*in.partial, out.initPartial(), writer);
  writer.structs(in.counters, [&](unsigned n) { return out.initCounters(n); });
  out.setDuplicatesDropped(in.duplicates_dropped);
  out.setRefused(in.refused);
  out.setSkippedSteps(in.skipped_steps);
}
void read(ImageSchema::Reader in, ShardImage& out, Reader& reader) {
  read(in.getMembership(), out.membership, reader);
  out.workers = reader.structs<ShardImage::Worker>(in.getWorkers());
  out.parcels = reader.structs<ShardImage::Parcel>(in.getParcels());
  out.slices = reader.structs<SliceState>(in.getSlices());
  if (in.hasPartial()) read(in.getPartial(), out.partial.emplace(), reader);
  out.counters = reader.structs<LayerCounters>(in.getCounters());
  out.duplicates_dropped = reader.count(in.getDuplicatesDropped(), "dropped duplicates");
  out.refused = reader.count(in.getRefused(), "refused messages");
  out.skipped_steps = reader.count(in.getSkippedSteps(), "skipped steps");
}

void write(const Replicate& in, schema::Replicate::Builder out, Writer& writer) {
  out.setIndex(in.index);
  if (in.event) write(*in.event, out.initEvent(), writer);
  if (in.image) write(*in.image, out.initImage(), writer);
}
void read(schema::Replicate::Reader in, Replicate& out, Reader& reader) {
  out.index = in.getIndex();
  if (!reader.enter_event()) refuse("an event is a Replicate itself");
  if (in.hasEvent() != (out.index > 0)) refuse("index ", out.index, in.hasEvent() ? " has an event" : " has no event");
  if (in.hasImage() != (out.index == 0)) refuse("index ", out.index, in.hasImage() ? " has an image" : " has no image");
  if (in.hasEvent()) {
    auto event = std::make_shared<Envelope>();
    read(in.getEvent(), *event, reader);
    out.event = std::move(event);
  } else {
    auto image = std::make_shared<ShardImage>();
    read(in.getImage(), *image, reader);
    out.image = std::move(image);
  }
}

void write(const ReplicateAck& in, schema::ReplicateAck::Builder out, Writer&) { out.setIndex(in.index); }
void read(schema::ReplicateAck::Reader in, ReplicateAck& out, Reader&) { out.index = in.getIndex(); }

void write(const Synced& in, schema::Synced::Builder out, Writer& writer) {
  write(in.server, out.initServer(), writer);
}
void read(schema::Synced::Reader in, Synced& out, Reader& reader) { read(in.getServer(), out.server, reader); }

void write(const SyncedAck& in, schema::SyncedAck::Builder out, Writer& writer) {
  write(in.server, out.initServer(), writer);
}
void read(schema::SyncedAck::Reader in, SyncedAck& out, Reader& reader) { read(in.getServer(), out.server, reader); }

}  // namespace troupe::ps::wire
