#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <troupe/kernels/base/result.h>
#include <troupe/kernels/tensor/tensor.h>
#include <troupe/ps/checkpoint/digest.h>
#include <troupe/ps/checkpoint/file_ops.h>

/// safetensors, as huggingface/safetensors describes it:
///
///   8 bytes   N, little-endian, at most 100,000,000
///   N bytes   JSON: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...,
///             "__metadata__": {text: text}}, padded with spaces so that the rest begins 8-aligned
///   the rest  the tensors' bytes, row-major, little-endian, without holes or overlap
namespace troupe::ps {

struct TensorEntry {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  size_t bytes() const { return static_cast<size_t>(shape.count()) * size_of(dtype); }
};

/// Writes one file piece by piece, so that no tensor has to be whole in memory. For one thread.
class SafetensorsWriter {
 public:
  /// Writes the header. Tensors lie in the file in the order of `entries`. Two of one name, or a name that is
  /// not UTF-8, are errors.
  static Result<SafetensorsWriter> create(FileOps& files, const std::string& path,
                                          const std::vector<TensorEntry>& entries);

  /// The next bytes of the tensors, one after the other.
  Status append(std::span<const std::byte> bytes);

  /// Written through to the disk and closed. Every tensor must have been appended whole.
  struct Written {
    uint64_t bytes = 0;
    std::string digest;
  };
  Result<Written> finish();

 private:
  SafetensorsWriter(std::unique_ptr<OutputFile> file, uint64_t total_bytes)
      : file_(std::move(file)), total_bytes_(total_bytes) {}
  Status put(std::span<const std::byte> bytes);

  std::unique_ptr<OutputFile> file_;
  uint64_t total_bytes_;
  uint64_t written_bytes_ = 0;
  Digest digest_;
};

/// A file opened for reading: its header has been checked against the format and the file's size. Tensors of
/// types that Troupe does not compute with (F16, BF16, ...) are listed, but not read. Const calls are safe
/// from any thread.
class SafetensorsFile {
 public:
  struct Entry {
    std::string name;
    std::string dtype;            ///< as written
    std::vector<int64_t> shape;   ///< as written
    uint64_t begin = 0, end = 0;  ///< bytes, from the file's beginning
  };

  /// ErrorKind::corrupt where the header is not what the format says.
  static Result<SafetensorsFile> open(FileOps& files, const std::string& path);

  const std::vector<Entry>& entries() const { return entries_; }  ///< in the order of their bytes
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const Entry* find(const std::string& name) const;

  Result<Tensor> read(const std::string& name) const;
  /// Elements [begin, begin + out.size()) of the flattened F32 tensor.
  Status read(const std::string& name, int64_t begin, std::span<float> out) const;

 private:
  std::string path_;
  std::shared_ptr<const InputFile> file_;
  std::vector<Entry> entries_;
  std::map<std::string, size_t> index_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace troupe::ps
