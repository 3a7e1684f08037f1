// Who takes part, and who holds what.
#include <troupe/ps/param/request_check.h>
#include <troupe/ps/wire/internal/messages.h>

namespace troupe::ps::wire {
// Static, and not in an unnamed namespace, where Writer::structs would not find them.

static void write(const Policy& in, schema::Policy::Builder out, Writer&) {
  out.setMode(static_cast<schema::Policy::Mode>(in.mode));
  out.setStaleness(in.staleness);
}
static void read(schema::Policy::Reader in, Policy& out, Reader& reader) {
  out.mode = enumerant(in.getMode(), Mode::async, "mode");
  out.staleness = reader.step(reader.count(in.getStaleness(), "staleness"), "staleness");
}

static void write(const ParamSpec& in, schema::ParamSpec::Builder out, Writer& writer) {
  writer.text(in.name, [&](auto text) { out.setName(text); });
  const auto dims = in.shape.span();
  if (!dims.empty()) {
    auto shape = out.initShape(static_cast<unsigned>(dims.size()));
    for (unsigned i = 0; i < dims.size(); ++i) shape.set(i, dims[i]);
  }
  out.setOffset(in.offset);
  out.setKind(static_cast<schema::ParamSpec::Kind>(in.kind));
}
static void read(schema::ParamSpec::Reader in, ParamSpec& out, Reader& reader) {
  out.name = reader.text(in.getName());
  out.shape = shape_of(in.getShape(), "parameter");
  out.offset = reader.count(in.getOffset(), "offset");
  out.kind = enumerant(in.getKind(), ParamKind::statistic, "parameter kind");
}

static void write(const Slice& in, schema::Slice::Builder out, Writer&) {
  out.setLayer(in.layer);
  out.setServer(in.server);
  out.setBegin(in.begin);
  out.setEnd(in.end);
}
static void read(schema::Slice::Reader in, Slice& out, Reader&) {
  out.layer = in.getLayer();
  out.server = in.getServer();
  out.begin = in.getBegin();
  out.end = in.getEnd();
}

static void write(const Parcel& in, schema::Parcel::Builder out, Writer& writer) {
  out.setServer(in.server);
  out.setPriority(in.priority);
  write(in.policy, out.initPolicy(), writer);
  writer.numbers(in.slices, [&](unsigned n) { return out.initSlices(n); });
}
static void read(schema::Parcel::Reader in, Parcel& out, Reader& reader) {
  out.server = in.getServer();
  out.priority = in.getPriority();
  read(in.getPolicy(), out.policy, reader);
  out.slices = reader.numbers<SliceId>(in.getSlices());
}

void write(const LayerSpec& in, schema::LayerSpec::Builder out, Writer& writer) {
  writer.text(in.name, [&](auto text) { out.setName(text); });
  out.setCount(in.count);
  writer.structs(in.params, [&](unsigned n) { return out.initParams(n); });
  out.setRowWidth(in.row_width);
}
void read(schema::LayerSpec::Reader in, LayerSpec& out, Reader& reader) {
  out.name = reader.text(in.getName());
  out.count = reader.count(in.getCount(), "layer's elements");
  out.params = reader.structs<ParamSpec>(in.getParams());
  out.row_width = reader.count(in.getRowWidth(), "row width");
}

static void write(const Layout& in, schema::Layout::Builder out, Writer& writer) {
  out.setServers(in.servers);
  writer.structs(in.layers, [&](unsigned n) { return out.initLayers(n); });
  writer.structs(in.policies, [&](unsigned n) { return out.initPolicies(n); });
  writer.structs(in.slices, [&](unsigned n) { return out.initSlices(n); });
  writer.structs(in.parcels, [&](unsigned n) { return out.initParcels(n); });
  out.setStages(in.stages);
  writer.numbers(in.stage_of, [&](unsigned n) { return out.initStageOf(n); });
}
static void read(schema::Layout::Reader in, Layout& out, Reader& reader) {
  out.servers = in.getServers();
  out.layers = reader.structs<LayerSpec>(in.getLayers());
  out.policies = reader.structs<Policy>(in.getPolicies());
  out.slices = reader.structs<Slice>(in.getSlices());
  out.parcels = reader.structs<Parcel>(in.getParcels());
  out.stages = in.getStages();
  out.stage_of = reader.numbers<uint32_t>(in.getStageOf());
  for (size_t i = 0; i < out.slices.size(); ++i) out.slices[i].id = static_cast<SliceId>(i);
  for (size_t i = 0; i < out.parcels.size(); ++i) out.parcels[i].id = static_cast<ParcelId>(i);
}

// Slices ascend and cover their layers without a gap, and parcels have a place in the forward pass.
static void check_cover(const Layout& layout) {
  size_t at = 0;
  for (size_t layer = 0; layer < layout.layers.size(); ++layer) {
    int64_t covered = 0;
    for (; at < layout.slices.size() && layout.slices[at].layer == layer; ++at) {
      if (layout.slices[at].begin != covered)
        refuse("slice ", at, " begins at ", layout.slices[at].begin, ", what lies before it ends at ", covered);
      covered = layout.slices[at].end;
    }
    if (covered != layout.layers[layer].count)
      refuse("slices cover ", covered, " of the ", layout.layers[layer].count, " elements of ",
             layout.layers[layer].name);
  }
  if (at != layout.slices.size()) refuse("slice ", at, " is out of order");
  for (const Parcel& parcel : layout.parcels)
    if (parcel.priority >= layout.layers.size()) refuse("parcel ", parcel.id, " has priority ", parcel.priority);
}

void write(const Membership& in, schema::Membership::Builder out, Writer& writer) {
  out.setGeneration(in.generation);
  writer.numbers(in.workers, [&](unsigned n) { return out.initWorkers(n); });
  writer.numbers(in.servers, [&](unsigned n) { return out.initServers(n); });
  writer.numbers(in.replicas, [&](unsigned n) { return out.initReplicas(n); });
  if (in.layout) write(*in.layout, out.initLayout(), writer);
  out.setHasRebase(in.rebase.has_value());
  out.setRebase(in.rebase.value_or(0));
}
void read(schema::Membership::Reader in, Membership& out, Reader& reader) {
  out.generation = in.getGeneration();
  out.workers = reader.numbers<Incarnation>(in.getWorkers());
  out.servers = reader.numbers<Incarnation>(in.getServers());
  out.replicas = reader.numbers<Incarnation>(in.getReplicas());
  if (in.getHasRebase()) out.rebase = reader.step(in.getRebase(), "rebase");
  if (!in.hasLayout()) refuse("no layout");
  auto layout = std::make_shared<Layout>();
  read(in.getLayout(), *layout, reader);
  // So that servers[s] is there for every slice's server, and nobody makes room for servers that are only declared.
  if (layout->servers == 0 || layout->servers > out.servers.size())
    refuse("the layout is for ", layout->servers, " servers, the membership has ", out.servers.size());
  if (const Status ok = check_layout(*layout); !ok) refuse(ok.error().message);
  check_cover(*layout);
  out.layout = std::move(layout);
}

void write(const MembershipAck&, schema::MembershipAck::Builder, Writer&) {}
void read(schema::MembershipAck::Reader, MembershipAck&, Reader&) {}

}  // namespace troupe::ps::wire
