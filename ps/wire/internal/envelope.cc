// Who sends what to whom.
#include <troupe/ps/wire/internal/messages.h>

namespace troupe::ps::wire {
namespace {

using Which = schema::Envelope::Body::Which;

Message body_of(schema::Envelope::Body::Reader in, Reader& reader) {
  switch (in.which()) {
#define TROUPE_WIRE_READ(Name, KIND)                   \
  case Which::KIND: {                                  \
    Message out(std::in_place_type<Name>);             \
    read(in.get##Name(), std::get<Name>(out), reader); \
    return out;                                        \
  }
    TROUPE_WIRE_MESSAGES(TROUPE_WIRE_READ)
#undef TROUPE_WIRE_READ
  }
  refuse("message kind ", static_cast<uint16_t>(in.which()), " is unknown");
}

struct BodyWriter {
  schema::Envelope::Body::Builder out;
  Writer& writer;
#define TROUPE_WIRE_WRITE(Name, KIND) \
  void operator()(const Name& in) { write(in, out.init##Name(), writer); }
  TROUPE_WIRE_MESSAGES(TROUPE_WIRE_WRITE)
#undef TROUPE_WIRE_WRITE
};

template <class Group>
void write_end(const Endpoint& in, Group out) {
  out.setRole(static_cast<schema::Role>(in.role));
  out.setIndex(in.index);
  out.setIncarnation(in.incarnation);
}

template <class Group>
Endpoint read_end(Group in, const char* field) {
  return {enumerant(in.getRole(), Role::client, field), in.getIndex(), in.getIncarnation()};
}

}  // namespace

void write(const Envelope& in, schema::Envelope::Builder out, Writer& writer) {
  write_end(in.from, out.getFrom());
  write_end(in.to, out.getTo());
  out.setGeneration(in.generation);
  std::visit(BodyWriter{out.getBody(), writer}, in.body);
}

void read(schema::Envelope::Reader in, Envelope& out, Reader& reader) {
  out.from = read_end(in.getFrom(), "sender's role");
  out.to = read_end(in.getTo(), "receiver's role");
  out.generation = in.getGeneration();
  out.body = body_of(in.getBody(), reader);
}

}  // namespace troupe::ps::wire
