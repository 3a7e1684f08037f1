// Snapshots, counters, and how a run ends.
#include <troupe/ps/wire/internal/messages.h>

namespace troupe::ps::wire {

void write(const Snapshot& in, schema::Snapshot::Builder out, Writer&) { out.setRound(in.round); }
void read(schema::Snapshot::Reader in, Snapshot& out, Reader&) { out.round = in.getRound(); }

void write(const SnapshotReply& in, schema::SnapshotReply::Builder out, Writer& writer) {
  out.setRound(in.round);
  writer.structs(in.slices, [&](unsigned n) { return out.initSlices(n); });
}
void read(schema::SnapshotReply::Reader in, SnapshotReply& out, Reader& reader) {
  out.round = in.getRound();
  out.slices = reader.structs<SliceState>(in.getSlices());
}

void write(const Install& in, schema::Install::Builder out, Writer& writer) {
  out.setRound(in.round);
  writer.structs(in.slices, [&](unsigned n) { return out.initSlices(n); });
}
void read(schema::Install::Reader in, Install& out, Reader& reader) {
  out.round = in.getRound();
  out.slices = reader.structs<SliceState>(in.getSlices());
}

void write(const InstallAck& in, schema::InstallAck::Builder out, Writer&) { out.setRound(in.round); }
void read(schema::InstallAck::Reader in, InstallAck& out, Reader&) { out.round = in.getRound(); }

void write(const LayerCounters& in, schema::LayerCounters::Builder out, Writer& writer) {
  out.setLayer(in.layer);
  out.setPushes(in.pushes);
  out.setUpdates(in.updates);
  out.setPushedBytes(in.pushed_bytes);
  out.setPulledBytes(in.pulled_bytes);
  writer.numbers(in.lag_histogram, [&](unsigned n) { return out.initLagHistogram(n); });
  writer.numbers(in.delay_histogram, [&](unsigned n) { return out.initDelayHistogram(n); });
}
void read(schema::LayerCounters::Reader in, LayerCounters& out, Reader& reader) {
  out.layer = in.getLayer();
  out.pushes = reader.count(in.getPushes(), "pushes");
  out.updates = reader.count(in.getUpdates(), "updates");
  out.pushed_bytes = reader.count(in.getPushedBytes(), "pushed bytes");
  out.pulled_bytes = reader.count(in.getPulledBytes(), "pulled bytes");
  out.lag_histogram = counts(in.getLagHistogram(), "pulls of a lag");
  out.delay_histogram = counts(in.getDelayHistogram(), "pushes of a delay");
}

void write(const StatsRequest& in, schema::StatsRequest::Builder out, Writer&) { out.setRound(in.round); }
void read(schema::StatsRequest::Reader in, StatsRequest& out, Reader&) { out.round = in.getRound(); }

void write(const StatsReply& in, schema::StatsReply::Builder out, Writer& writer) {
  out.setRound(in.round);
  writer.structs(in.layers, [&](unsigned n) { return out.initLayers(n); });
  out.setDuplicatesDropped(in.duplicates_dropped);
  out.setRefused(in.refused);
  out.setSkippedSteps(in.skipped_steps);
}
void read(schema::StatsReply::Reader in, StatsReply& out, Reader& reader) {
  out.round = in.getRound();
  out.layers = reader.structs<LayerCounters>(in.getLayers());
  out.duplicates_dropped = reader.count(in.getDuplicatesDropped(), "dropped duplicates");
  out.refused = reader.count(in.getRefused(), "refused messages");
  out.skipped_steps = reader.count(in.getSkippedSteps(), "skipped steps");
}

void write(const Fault& in, schema::Fault::Builder out, Writer& writer) {
  writer.text(in.what, [&](auto text) { out.setWhat(text); });
}
void read(schema::Fault::Reader in, Fault& out, Reader& reader) { out.what = reader.text(in.getWhat()); }

void write(const Finish&, schema::Finish::Builder, Writer&) {}
void read(schema::Finish::Reader, Finish&, Reader&) {}

}  // namespace troupe::ps::wire
