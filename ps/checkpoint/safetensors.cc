#include <troupe/ps/checkpoint/safetensors.h>

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <set>

#include <troupe/kernels/base/text.h>

namespace troupe::ps {

namespace {

using Json = nlohmann::ordered_json;

static_assert(std::endian::native == std::endian::little, "tensors are written as they lie in memory");

constexpr uint64_t kMaxHeaderBytes = 100'000'000;

/// Bits an element of each type of the format; 0: no such type.
uint64_t bits_of(const std::string& dtype) {
  static const std::map<std::string, uint64_t> bits{
      {"BOOL", 8},        {"U8", 8},   {"I8", 8},      {"I16", 16},    {"U16", 16},    {"F16", 16},
      {"BF16", 16},       {"I32", 32}, {"U32", 32},    {"F32", 32},    {"F64", 64},    {"I64", 64},
      {"U64", 64},        {"C64", 64}, {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
      {"F8_E5M2FNUZ", 8}, {"F4", 4},   {"F6_E2M3", 6}, {"F6_E3M2", 6}};
  const auto found = bits.find(dtype);
  return found == bits.end() ? 0 : found->second;
}

/// Deeper than a header's {"name": {"shape": [...]}}. What handles JSON afterwards recurses.
constexpr int kMaxDepth = 8;

/// JSON in which no object names a key twice and nothing lies too deep; none where the text is not that.
std::optional<Json> parse_strictly(const std::string& text) {
  std::vector<std::set<std::string>> keys;
  bool twice = false, deep = false;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& value) {
    deep |= depth > kMaxDepth;
    if (deep) return false;
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key) twice |= !keys.back().insert(value.get<std::string>()).second;
    return true;
  };
  Json json = Json::parse(text, watch, /*allow_exceptions=*/false);
  if (json.is_discarded() || twice || deep) return {};
  return json;
}

/// The entry that `value` describes, or what is wrong with it.
tl::expected<SafetensorsFile::Entry, std::string> entry_of(const std::string& name, const Json& value) {
  if (!value.is_object() || value.size() != 3 || !value.contains("dtype") || !value.contains("shape") ||
      !value.contains("data_offsets"))
    return tl::unexpected(std::string("is not an object of dtype, shape and data_offsets"));
  const Json &dtype = value["dtype"], &shape = value["shape"], &offsets = value["data_offsets"];
  if (!dtype.is_string() || bits_of(dtype.get<std::string>()) == 0)
    return tl::unexpected("has the unknown dtype " +
                          dtype.dump(-1, ' ', true, Json::error_handler_t::replace));
  if (!shape.is_array() || !std::all_of(shape.begin(), shape.end(), [](const Json& n) {
        return n.is_number_unsigned() && n.get<uint64_t>() <= INT64_MAX;
      }))
    return tl::unexpected(std::string("has a shape that is not a list of sizes"));
  if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
      !offsets[1].is_number_unsigned())
    return tl::unexpected(std::string("has data_offsets that are not two numbers"));

  SafetensorsFile::Entry entry{name, dtype.get<std::string>(), shape.get<std::vector<int64_t>>(),
                               offsets[0].get<uint64_t>(), offsets[1].get<uint64_t>()};
  uint64_t bits = bits_of(entry.dtype);
  for (const int64_t n : entry.shape)
    if (__builtin_mul_overflow(bits, static_cast<uint64_t>(n), &bits))
      return tl::unexpected(std::string("has a shape too large for any file"));
  if (entry.begin > entry.end || bits % 8 != 0 || entry.end - entry.begin != bits / 8)
    return tl::unexpected(cat("has data_offsets [", entry.begin, ", ", entry.end,
                              "], its shape and type take ", bits / 8, " bytes"));
  return entry;
}

/// Tensors must follow one another from 0 to the end of the data; offsets become relative to the file.
Status place(std::vector<SafetensorsFile::Entry>& entries, uint64_t data_begin, uint64_t data_bytes,
             const std::string& path) {
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  uint64_t at = 0;
  for (auto& e : entries) {
    if (e.begin != at)
      return fail(ErrorKind::corrupt,
                  cat(path, ": tensor ", e.name, " begins at byte ", e.begin, " of the data, ", at,
                      " was expected: tensors overlap or leave a hole"));
    at = e.end;
    e.begin += data_begin;
    e.end += data_begin;
  }
  if (at != data_bytes)
    return fail(ErrorKind::corrupt, cat(path, " holds ", data_bytes, " bytes of data, its header describes ",
                                        at, ": it is cut short or something was appended"));
  return {};
}

}  // namespace

Result<SafetensorsWriter> SafetensorsWriter::create(FileOps& files, const std::string& path,
                                                    const std::vector<TensorEntry>& entries) {
  Json json = Json::object();
  uint64_t at = 0;
  for (const TensorEntry& e : entries) {
    if (e.name == "__metadata__" || json.contains(e.name))
      return fail(ErrorKind::invalid, cat(path, " cannot hold two tensors named ", e.name));
    json[e.name] = {{"dtype", std::string(name_of(e.dtype))},
                    {"shape", std::vector<int64_t>(e.shape.span().begin(), e.shape.span().end())},
                    {"data_offsets", {at, at + e.bytes()}}};
    at += e.bytes();
  }
  std::string header;
  try {
    header = json.dump();
  } catch (const Json::exception& error) {
    return fail(ErrorKind::invalid,
                cat(path, " cannot be written: a name is not UTF-8 (", error.what(), ")"));
  }
  header.append((8 - header.size() % 8) % 8, ' ');
  if (header.size() > kMaxHeaderBytes)
    return fail(ErrorKind::invalid, cat(path, " would need a header of ", header.size(),
                                        " bytes; the format allows ", kMaxHeaderBytes));

  auto file = files.create(path);
  if (!file) return tl::unexpected(file.error());
  SafetensorsWriter writer(std::move(*file), 8 + header.size() + at);
  const uint64_t length = header.size();
  TROUPE_TRY(writer.put(std::as_bytes(std::span(&length, 1))));
  TROUPE_TRY(writer.put(std::as_bytes(std::span(header))));
  return writer;
}

Status SafetensorsWriter::put(std::span<const std::byte> bytes) {
  TROUPE_TRY(file_->write(bytes));
  digest_.update(bytes);
  written_bytes_ += bytes.size();
  return {};
}

Status SafetensorsWriter::append(std::span<const std::byte> bytes) {
  TROUPE_CHECK(written_bytes_ + bytes.size() <= total_bytes_, "more bytes than tensors: ", written_bytes_,
               " + ", bytes.size(), " of ", total_bytes_);
  return put(bytes);
}

Result<SafetensorsWriter::Written> SafetensorsWriter::finish() {
  TROUPE_CHECK(written_bytes_ == total_bytes_, written_bytes_, " of ", total_bytes_, " bytes were appended");
  TROUPE_TRY(file_->sync());
  TROUPE_TRY(file_->close());
  return Written{written_bytes_, digest_.hex()};
}

Result<SafetensorsFile> SafetensorsFile::open(FileOps& files, const std::string& path) {
  auto opened = files.open(path);
  if (!opened) return tl::unexpected(opened.error());
  SafetensorsFile out;
  out.path_ = path;
  out.file_ = std::move(*opened);
  const uint64_t size = out.file_->size();
  uint64_t length = 0;
  if (size < 8)
    return fail(ErrorKind::corrupt, cat(path, " has ", size, " bytes, too few for a safetensors file"));
  TROUPE_TRY(out.file_->read(0, std::as_writable_bytes(std::span(&length, 1))));
  if (length > kMaxHeaderBytes || length > size - 8)
    return fail(ErrorKind::corrupt,
                cat(path, " announces a header of ", length, " bytes in a file of ", size));
  std::string header(length, '\0');
  TROUPE_TRY(out.file_->read(8, std::as_writable_bytes(std::span(header))));
  const auto json = header.starts_with('{') ? parse_strictly(header) : std::nullopt;
  if (!json || !json->is_object())
    return fail(ErrorKind::corrupt, cat(path, " has a header that is not a JSON object with each key once"));

  for (const auto& [name, value] : json->items()) {
    if (name == "__metadata__") {
      if (!value.is_object() ||
          !std::all_of(value.begin(), value.end(), [](const Json& v) { return v.is_string(); }))
        return fail(ErrorKind::corrupt, cat(path, ": __metadata__ is not an object of texts"));
      out.metadata_ = value.get<std::map<std::string, std::string>>();
      continue;
    }
    auto entry = entry_of(name, value);
    if (!entry) return fail(ErrorKind::corrupt, cat(path, ": tensor ", name, ' ', entry.error()));
    out.entries_.push_back(std::move(*entry));
  }
  TROUPE_TRY(place(out.entries_, 8 + length, size - 8 - length, path));
  for (size_t i = 0; i < out.entries_.size(); ++i) out.index_[out.entries_[i].name] = i;
  return out;
}

const SafetensorsFile::Entry* SafetensorsFile::find(const std::string& name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &entries_[found->second];
}

Result<Tensor> SafetensorsFile::read(const std::string& name) const {
  const Entry* entry = find(name);
  if (!entry) return fail(ErrorKind::missing, cat(path_, " holds no tensor ", name));
  const auto dtype = dtype_named(entry->dtype);
  if (!dtype || entry->shape.size() > Shape::kMaxDims)
    return fail(ErrorKind::invalid,
                cat(path_, ": tensor ", name, " is ", entry->dtype, " of ", entry->shape.size(),
                    " dimensions, which cannot be computed with here"));
  Tensor out = Tensor::empty(Shape(std::span<const int64_t>(entry->shape)), *dtype);
  TROUPE_TRY(file_->read(entry->begin, {out.raw(), out.bytes()}));
  return out;
}

Status SafetensorsFile::read(const std::string& name, int64_t begin, std::span<float> out) const {
  const Entry* entry = find(name);
  if (!entry) return fail(ErrorKind::missing, cat(path_, " holds no tensor ", name));
  const uint64_t count = (entry->end - entry->begin) / sizeof(float);
  const auto first = static_cast<uint64_t>(begin);
  if (entry->dtype != "F32" || first > count || out.size() > count - first)
    return fail(ErrorKind::invalid,
                cat(path_, ": tensor ", name, " is ", count, " elements of ", entry->dtype, "; F32 elements ",
                    first, " + ", out.size(), " were asked for"));
  return file_->read(entry->begin + first * sizeof(float), std::as_writable_bytes(out));
}

}  // namespace troupe::ps
