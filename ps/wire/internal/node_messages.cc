// How processes come, stay and go, and what tools ask.
#include <troupe/ps/wire/internal/messages.h>

namespace troupe::ps::wire {

void write(const Endpoint& in, schema::Endpoint::Builder out, Writer&) {
  out.setRole(static_cast<schema::Role>(in.role));
  out.setIndex(in.index);
  out.setIncarnation(in.incarnation);
}
void read(schema::Endpoint::Reader in, Endpoint& out, Reader&) {
  out.role = enumerant(in.getRole(), Role::client, "role");
  out.index = in.getIndex();
  out.incarnation = in.getIncarnation();
}

void write(const Down& in, schema::Down::Builder out, Writer& writer) {
  write(in.who, out.initWho(), writer);
  writer.text(in.reason, [&](auto text) { out.setReason(text); });
}
void read(schema::Down::Reader in, Down& out, Reader& reader) {
  read(in.getWho(), out.who, reader);
  out.reason = reader.text(in.getReason());
}

void write(const DownAck& in, schema::DownAck::Builder out, Writer& writer) { write(in.who, out.initWho(), writer); }
void read(schema::DownAck::Reader in, DownAck& out, Reader& reader) { read(in.getWho(), out.who, reader); }

void write(const Spawn& in, schema::Spawn::Builder out, Writer& writer) {
  write(in.who, out.initWho(), writer);
  if (in.takes_over) write(*in.takes_over, out.initTakesOver(), writer);
  if (in.image) write(*in.image, out.initImage(), writer);
}
void read(schema::Spawn::Reader in, Spawn& out, Reader& reader) {
  read(in.getWho(), out.who, reader);
  if (in.hasTakesOver()) read(in.getTakesOver(), out.takes_over.emplace(), reader);
  if (!in.hasImage()) return;
  auto image = std::make_shared<ShardImage>();
  read(in.getImage(), *image, reader);
  out.image = std::move(image);
}

void write(const SpawnAck& in, schema::SpawnAck::Builder out, Writer& writer) { write(in.who, out.initWho(), writer); }
void read(schema::SpawnAck::Reader in, SpawnAck& out, Reader& reader) { read(in.getWho(), out.who, reader); }

static void write(const NodeAddress& in, schema::NodeAddress::Builder out, Writer& writer) {
  out.setNode(in.node);
  writer.text(in.address, [&](auto text) { out.setAddress(text); });
  writer.text(in.public_key, [&](auto text) { out.setPublicKey(text); });
  writer.text(in.host, [&](auto text) { out.setHost(text); });
}
static void read(schema::NodeAddress::Reader in, NodeAddress& out, Reader& reader) {
  out.node = in.getNode();
  out.address = reader.text(in.getAddress());
  out.public_key = reader.text(in.getPublicKey());
  out.host = reader.text(in.getHost());
}

void write(const Hello& in, schema::Hello::Builder out, Writer& writer) {
  writer.text(in.name, [&](auto text) { out.setName(text); });
  write(in.address, out.initAddress(), writer);
  out.setTakesWorkers(in.takes_workers);
  out.setTakesServers(in.takes_servers);
  out.setPlace(in.place);
}
void read(schema::Hello::Reader in, Hello& out, Reader& reader) {
  out.name = reader.text(in.getName());
  read(in.getAddress(), out.address, reader);
  out.takes_workers = in.getTakesWorkers();
  out.takes_servers = in.getTakesServers();
  out.place = in.getPlace();
}

void write(const Welcome& in, schema::Welcome::Builder out, Writer& writer) {
  write(in.node, out.initNode(), writer);
  writer.text(in.config, [&](auto text) { out.setConfig(text); });
  writer.text(in.resume_from, [&](auto text) { out.setResumeFrom(text); });
  out.setLeaseMs(in.lease_ms);
  out.setRun(in.run);
}
void read(schema::Welcome::Reader in, Welcome& out, Reader& reader) {
  read(in.getNode(), out.node, reader);
  out.config = reader.text(in.getConfig());
  out.resume_from = reader.text(in.getResumeFrom());
  out.lease_ms = reader.count(in.getLeaseMs(), "lease");
  out.run = in.getRun();
}

void write(const Rejected& in, schema::Rejected::Builder out, Writer& writer) {
  writer.text(in.reason, [&](auto text) { out.setReason(text); });
}
void read(schema::Rejected::Reader in, Rejected& out, Reader& reader) { out.reason = reader.text(in.getReason()); }

void write(const Ready& in, schema::Ready::Builder out, Writer& writer) {
  writer.structs(in.layers, [&](unsigned n) { return out.initLayers(n); });
  out.setTrainSamples(in.train_samples);
  out.setTestSamples(in.test_samples);
  writer.text(in.config_hash, [&](auto text) { out.setConfigHash(text); });
}
void read(schema::Ready::Reader in, Ready& out, Reader& reader) {
  out.layers = reader.structs<LayerSpec>(in.getLayers());
  out.train_samples = reader.count(in.getTrainSamples(), "training samples");
  out.test_samples = reader.count(in.getTestSamples(), "test samples");
  out.config_hash = reader.text(in.getConfigHash());
}

void write(const Heartbeat& in, schema::Heartbeat::Builder out, Writer&) {
  out.setNumber(in.number);
  out.setQueuedMessages(in.queued_messages);
  out.setQueuedBytes(in.queued_bytes);
  out.setRefusedFrames(in.refused_frames);
  out.setRoutes(in.routes);
}
void read(schema::Heartbeat::Reader in, Heartbeat& out, Reader& reader) {
  out.number = in.getNumber();
  out.queued_messages = reader.count(in.getQueuedMessages(), "queued messages");
  out.queued_bytes = reader.count(in.getQueuedBytes(), "queued bytes");
  out.refused_frames = reader.count(in.getRefusedFrames(), "refused frames");
  out.routes = in.getRoutes();
}

void write(const HeartbeatAck& in, schema::HeartbeatAck::Builder out, Writer&) { out.setNumber(in.number); }
void read(schema::HeartbeatAck::Reader in, HeartbeatAck& out, Reader&) { out.number = in.getNumber(); }

static void write(const Routes::Place& in, schema::Routes::Place::Builder out, Writer& writer) {
  write(in.who, out.initWho(), writer);
  out.setNode(in.node);
}
static void read(schema::Routes::Place::Reader in, Routes::Place& out, Reader& reader) {
  read(in.getWho(), out.who, reader);
  out.node = in.getNode();
}

void write(const Routes& in, schema::Routes::Builder out, Writer& writer) {
  out.setVersion(in.version);
  writer.structs(in.nodes, [&](unsigned n) { return out.initNodes(n); });
  writer.structs(in.places, [&](unsigned n) { return out.initPlaces(n); });
}
void read(schema::Routes::Reader in, Routes& out, Reader& reader) {
  out.version = in.getVersion();
  out.nodes = reader.structs<NodeAddress>(in.getNodes());
  out.places = reader.structs<Routes::Place>(in.getPlaces());
}

void write(const Leave& in, schema::Leave::Builder out, Writer&) { out.setGone(in.gone); }
void read(schema::Leave::Reader in, Leave& out, Reader&) { out.gone = in.getGone(); }

void write(const StatusRequest&, schema::StatusRequest::Builder, Writer&) {}
void read(schema::StatusRequest::Reader, StatusRequest&, Reader&) {}

void write(const StatusReply& in, schema::StatusReply::Builder out, Writer& writer) {
  writer.text(in.json, [&](auto text) { out.setJson(text); });
}
void read(schema::StatusReply::Reader in, StatusReply& out, Reader& reader) { out.json = reader.text(in.getJson()); }

void write(const StopRequest&, schema::StopRequest::Builder, Writer&) {}
void read(schema::StopRequest::Reader, StopRequest&, Reader&) {}

}  // namespace troupe::ps::wire
