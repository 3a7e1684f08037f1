#include <troupe/ps/control/journal.h>

#include <array>
#include <cstring>

#include <troupe/kernels/base/text.h>
#include <troupe/ps/wire/internal/checksum.h>

namespace troupe::ps {
namespace {

using Bytes = std::vector<std::byte>;
using View = std::span<const std::byte>;
using Input = CoordinatorInput;

constexpr const char* kFormat = "troupe journal 3";
constexpr size_t kRecordHeadBytes = 16;

tl::unexpected<Error> damaged(const std::string& what) { return fail(ErrorKind::corrupt, what); }

// ---- fields ----------------------------------------------------------------------------------------------------

class Writer {
 public:
  template <class T>
  void put(T value) {
    const auto* raw = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), raw, raw + sizeof value);
  }
  void put(View bytes) {
    put(static_cast<uint32_t>(bytes.size()));
    put_raw(bytes);
  }
  void put_raw(View bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  void put(const std::string& text) { put(std::as_bytes(std::span(text))); }
  Bytes take() { return std::move(bytes_); }

 private:
  Bytes bytes_;
};

/// After the first field that is not there, all that is read is empty and `good` is false.
class Reader {
 public:
  explicit Reader(View bytes) : rest_(bytes) {}

  template <class T>
  T get() {
    T value{};
    const View raw = take(sizeof value);
    if (!raw.empty()) std::memcpy(&value, raw.data(), sizeof value);
    return value;
  }
  View bytes() { return take(get<uint32_t>()); }
  std::string text() {
    const View raw = bytes();
    return {reinterpret_cast<const char*>(raw.data()), raw.size()};
  }
  bool good() const { return good_; }
  bool at_end() const { return good_ && rest_.empty(); }

 private:
  View take(size_t count) {
    good_ = good_ && count <= rest_.size();
    if (!good_) return {};
    const View taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }
  View rest_;
  bool good_ = true;
};

uint32_t check_of(uint32_t length, uint64_t sum) {
  const std::array<uint64_t, 2> both{length, sum};
  return static_cast<uint32_t>(wire::checksum_of(std::as_bytes(std::span(both))));
}

Bytes as_record(const Bytes& body) {
  Writer out;
  const auto length = static_cast<uint32_t>(body.size());
  const uint64_t sum = wire::checksum_of(body);
  out.put(length);
  out.put(check_of(length, sum));
  out.put(sum);
  out.put_raw(body);
  return out.take();
}

// ---- inputs ----------------------------------------------------------------------------------------------------

/// What the coordinator does about it does not depend on tensors; what it is not meant to hear it only hears from whom.
Message for_the_journal(const Message& body) {
  if (const auto* reply = std::get_if<SnapshotReply>(&body)) return SnapshotReply{reply->round, {}};
  const bool large = std::holds_alternative<Push>(body) || std::holds_alternative<PullReply>(body) ||
                     std::holds_alternative<Install>(body) || std::holds_alternative<Spawn>(body) ||
                     std::holds_alternative<Replicate>(body) || std::holds_alternative<Membership>(body);
  return large ? Message(Finish{}) : body;
}

void put(Writer& out, const Error& error) {
  out.put(static_cast<uint8_t>(error.kind));
  out.put(error.message);
}

struct Encoder {
  Writer& out;
  void operator()(const Input::Start&) const {}
  void operator()(const Input::Heard& heard) const {
    const Envelope& e = *heard.envelope;
    out.put(View(wire::pack({e.from, e.to, e.generation, for_the_journal(e.body)}, 0)));
  }
  void operator()(const Input::CheckpointWritten& written) const {
    out.put<uint8_t>(written.status.has_value());
    if (!written.status) put(out, written.status.error());
  }
  void operator()(const Input::Stop&) const {}
  void operator()(const Input::ChangePolicies& change) const {
    out.put(static_cast<uint32_t>(change.rules.size()));
    for (const UpdateRule& rule : change.rules) {
      out.put(rule.layers);
      out.put(static_cast<uint8_t>(rule.policy.mode));
      out.put(rule.policy.staleness);
      out.put(rule.from_step);
    }
  }
  void operator()(const Input::LinkLost& lost) const { out.put(lost.node); }
  void operator()(const Input::Tick&) const {}
  void operator()(const Input::Recovered&) const {}
  void operator()(const Input::CheckpointRead& done) const {
    out.put(done.server.index);
    out.put(done.server.incarnation);
    out.put<uint8_t>(done.read.has_value());
    if (!done.read) return put(out, done.read.error());
    out.put(done.read->folder);
    out.put(done.read->step);
    out.put(static_cast<uint32_t>(done.read->slices.size()));
    for (const SliceState& slice : done.read->slices) out.put(slice.slice), out.put(slice.updates);
  }
};

Status get_error(Reader& in, Error& error) {
  const auto kind = in.get<uint8_t>();
  if (kind > static_cast<uint8_t>(ErrorKind::failed)) return damaged(cat("an error of kind ", int{kind}));
  error = {static_cast<ErrorKind>(kind), in.text()};
  return {};
}

struct Decoder {
  Reader& in;
  Status operator()(Input::Start&) const { return {}; }
  Status operator()(Input::Heard& heard) const {
    auto envelope = wire::unpack(in.bytes(), {});
    if (!envelope) return tl::unexpected<Error>(envelope.error());
    heard.envelope = std::make_shared<const Envelope>(std::move(*envelope));
    return {};
  }
  Status operator()(Input::CheckpointWritten& written) const {
    if (in.get<uint8_t>() != 0) return {};
    Error error;
    TROUPE_TRY(get_error(in, error));
    written.status = tl::unexpected<Error>(std::move(error));
    return {};
  }
  Status operator()(Input::Stop&) const { return {}; }
  Status operator()(Input::ChangePolicies& change) const {
    for (auto left = in.get<uint32_t>(); left > 0 && in.good(); --left) {
      UpdateRule& rule = change.rules.emplace_back();
      rule.layers = in.text();
      const auto mode = in.get<uint8_t>();
      if (mode > static_cast<uint8_t>(Mode::async)) return damaged(cat("an update mode ", int{mode}));
      rule.policy.mode = static_cast<Mode>(mode);
      rule.policy.staleness = in.get<int64_t>();
      rule.from_step = in.get<int64_t>();
    }
    return {};
  }
  Status operator()(Input::LinkLost& lost) const {
    lost.node = in.get<uint32_t>();
    return {};
  }
  Status operator()(Input::Tick&) const { return {}; }
  Status operator()(Input::Recovered&) const { return {}; }
  Status operator()(Input::CheckpointRead& done) const {
    done.server = {Role::server, in.get<uint32_t>(), 1};
    done.server.incarnation = in.get<uint32_t>();
    if (in.get<uint8_t>() == 0) {
      Error error;
      TROUPE_TRY(get_error(in, error));
      done.read = tl::unexpected<Error>(std::move(error));
      return {};
    }
    done.read = Reload{in.text(), 0, {}};
    done.read->step = in.get<int64_t>();
    for (auto left = in.get<uint32_t>(); left > 0 && in.good(); --left) {
      SliceState& slice = done.read->slices.emplace_back();
      slice.slice = in.get<uint32_t>();
      slice.updates = in.get<int64_t>();
    }
    return {};
  }
};

template <size_t... i>
bool emplace(Input::What& what, size_t kind, std::index_sequence<i...>) {
  return ((kind == i && (what.emplace<i>(), true)) || ...);
}

// ---- the head --------------------------------------------------------------------------------------------------

/// Its texts in their order.
template <class Head>
auto texts_of(Head& head) {
  return std::array{&head.network.listen, &head.network.advertise, &head.network.keys, &head.config, &head.resume_from};
}

void put(Writer& out, const DealerState& state) {
  out.put(state.train_samples);
  out.put(state.epoch);
  out.put(state.begin);
  out.put(state.step);
  out.put(static_cast<uint32_t>(state.returned.size()));
  for (const SampleRange& range : state.returned) out.put(range.epoch), out.put(range.begin), out.put(range.count);
}

DealerState get_dealer_state(Reader& in) {
  DealerState state;
  state.train_samples = in.get<int64_t>();
  state.epoch = in.get<int64_t>();
  state.begin = in.get<int64_t>();
  state.step = in.get<int64_t>();
  for (auto left = in.get<uint32_t>(); left > 0 && in.good(); --left) {
    SampleRange& range = state.returned.emplace_back();
    range.epoch = in.get<int64_t>();
    range.begin = in.get<int64_t>();
    range.count = in.get<int64_t>();
  }
  return state;
}

}  // namespace

Bytes journal_record(const CoordinatorInput& input) {
  Writer out;
  out.put(static_cast<uint8_t>(input.what.index()));
  out.put(input.now_ms);
  std::visit(Encoder{out}, input.what);
  return as_record(out.take());
}

Bytes image_record(const CoordinatorCore& core) { return as_record(core.image()); }

Bytes journal_record(const JournalHead& head, uint64_t segment, uint64_t bytes_before, bool with_image) {
  Writer out;
  out.put(std::string(kFormat));
  out.put(segment);
  out.put(bytes_before);
  out.put<uint8_t>(with_image);
  out.put(head.run);
  for (const std::string* text : texts_of(head))
    out.put(*text);
  out.put<uint8_t>(head.network.insecure);
  out.put(head.nodes);
  out.put(head.seconds);
  out.put<uint8_t>(head.resume.has_value());
  if (head.resume) put(out, *head.resume);
  out.put<uint8_t>(head.loss_scale.has_value());
  if (head.loss_scale) out.put(head.loss_scale->value), out.put(head.loss_scale->good_steps);
  return as_record(out.take());
}

Result<std::optional<View>> JournalReader::body() {
  if (rest_.size() < kRecordHeadBytes) return std::nullopt;
  Reader head(rest_.first(kRecordHeadBytes));
  const auto length = head.get<uint32_t>(), check = head.get<uint32_t>();
  const auto sum = head.get<uint64_t>();
  if (check != check_of(length, sum))
    return damaged(cat("what should be a record at byte ", consumed(), " is none"));
  if (rest_.size() - kRecordHeadBytes < length) return std::nullopt;
  const View body = rest_.subspan(kRecordHeadBytes, length);
  if (sum != wire::checksum_of(body)) return damaged(cat("the record at byte ", consumed(), " has a wrong checksum"));
  rest_ = rest_.subspan(kRecordHeadBytes + length);
  return body;
}

Result<JournalReader::Begin> JournalReader::begin() {
  const auto found = body();
  if (!found) return tl::unexpected<Error>(found.error());
  if (!*found) return fail(ErrorKind::missing, "it ends before its first record does");
  Reader in(**found);
  if (const std::string format = in.text(); format != kFormat)
    return damaged(cat("it begins with '", format, "', not with '", kFormat,
                       "': if another build of Troupe wrote it, recover with that, or go on with --resume"));
  Begin begin;
  begin.segment = in.get<uint64_t>();
  begin.bytes_before = in.get<uint64_t>();
  const bool with_image = in.get<uint8_t>() != 0;
  JournalHead& head = begin.head;
  head.run = in.get<wire::RunId>();
  for (std::string* text : texts_of(head))
    *text = in.text();
  head.network.insecure = in.get<uint8_t>() != 0;
  head.nodes = in.get<int64_t>();
  head.seconds = in.get<double>();
  if (in.get<uint8_t>() != 0) head.resume = get_dealer_state(in);
  if (in.get<uint8_t>() != 0) {
    const auto value = in.get<double>();
    head.loss_scale = LossScale{value, in.get<int64_t>()};
  }
  if (!in.at_end()) return damaged("its first record is not what the format says");
  if (!with_image) return begin;
  const auto image = body();
  if (!image) return tl::unexpected<Error>(image.error());
  if (!*image) return fail(ErrorKind::missing, "it ends before its image does");
  begin.image = **image;
  return begin;
}

Result<std::optional<Input>> JournalReader::next() {
  const uint64_t at = consumed();
  const auto found = body();
  if (!found) return tl::unexpected<Error>(found.error());
  if (!*found) return std::nullopt;
  Reader in(**found);
  const auto kind = in.get<uint8_t>();
  Input input;
  input.now_ms = in.get<int64_t>();
  if (!emplace(input.what, kind, std::make_index_sequence<std::variant_size_v<Input::What>>()))
    return damaged(cat("the record at byte ", at, " is of kind ", int{kind}));
  if (auto read = std::visit(Decoder{in}, input.what); !read)
    return fail(cat("the record at byte ", at), read.error());
  if (!in.at_end()) return damaged(cat("the record at byte ", at, " is not what its kind has"));
  return input;
}

}  // namespace troupe::ps
