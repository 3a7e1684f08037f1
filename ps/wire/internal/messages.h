#pragma once
#include <wire/schema.capnp.h>

#include <troupe/ps/param/shard_image.h>
#include <troupe/ps/wire/internal/message_list.h>
#include <troupe/ps/wire/internal/reader.h>
#include <troupe/ps/wire/internal/writer.h>

/// One pair of functions a struct, in the file of its family: `write` fills a builder, `read` checks and fills the
/// struct. A new message: a line in message_list.h, a struct in schema.capnp, a pair beside its relatives.
namespace troupe::ps::wire {

#define TROUPE_WIRE_DECLARE(Name, kind)                                  \
  void write(const Name& in, schema::Name::Builder out, Writer& writer); \
  void read(schema::Name::Reader in, Name& out, Reader& reader);
TROUPE_WIRE_MESSAGES(TROUPE_WIRE_DECLARE)
#undef TROUPE_WIRE_DECLARE

// What several messages are made of.
void write(const Endpoint& in, schema::Endpoint::Builder out, Writer& writer);
void read(schema::Endpoint::Reader in, Endpoint& out, Reader& reader);
void write(const LayerSpec& in, schema::LayerSpec::Builder out, Writer& writer);
void read(schema::LayerSpec::Reader in, LayerSpec& out, Reader& reader);
void write(const SliceState& in, schema::SliceState::Builder out, Writer& writer);
void read(schema::SliceState::Reader in, SliceState& out, Reader& reader);
void write(const LayerCounters& in, schema::LayerCounters::Builder out, Writer& writer);
void read(schema::LayerCounters::Reader in, LayerCounters& out, Reader& reader);
void write(const ShardImage& in, schema::ShardImage::Builder out, Writer& writer);
void read(schema::ShardImage::Reader in, ShardImage& out, Reader& reader);

/// Sender, receiver, generation and body, without the frame's own fields.
void write(const Envelope& in, schema::Envelope::Builder out, Writer& writer);
void read(schema::Envelope::Reader in, Envelope& out, Reader& reader);

}  // namespace troupe::ps::wire
