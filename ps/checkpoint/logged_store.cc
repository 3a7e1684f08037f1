#include <troupe/ps/checkpoint/logged_store.h>

#include <utility>

#include <troupe/kernels/base/check.h>

namespace troupe::ps {
namespace {

class LoggedStore final : public ShardStore {
 public:
  LoggedStore(std::shared_ptr<FileOps> files, UpdateLogOptions options, EnvelopeCodec codec)
      : files_(std::move(files)), options_(std::move(options)), codec_(std::move(codec)) {
    TROUPE_CHECK(files_ && codec_.pack && codec_.unpack, "files and a codec are needed");
  }

  Status open(Generation generation, const std::function<void(const Envelope&)>& replay) override {
    TROUPE_CHECK(!log_, "the store in ", options_.folder, " is another actor's");
    auto log = UpdateLog::open(files_, options_, generation, [&](std::span<const std::byte> record) -> Status {
      const auto event = codec_.unpack(record);
      if (!event) return fail(cat("a record of the log in ", options_.folder), event.error());
      replay(*event);
      return {};
    });
    if (!log) return tl::unexpected(log.error());
    log_ = std::move(*log);
    return {};
  }

  Status append(Generation generation, const Envelope& event) override {
    TROUPE_TRY(log_->claim(generation));
    return log_->append(codec_.pack(event));
  }

  bool wants_image() const override { return log_ && log_->wants_image(); }
  Status compact(Generation generation, std::shared_ptr<const ShardImage> image) override {
    TROUPE_TRY(log_->claim(generation));
    const auto bytes = [pack = codec_.pack, generation, image = std::move(image)] {
      Envelope envelope;
      envelope.generation = generation;
      envelope.body = Replicate{0, nullptr, image};
      return pack(envelope);
    };
    return log_->begin_image(bytes, log_->appended() == 0);  // before any event: the shard came from elsewhere
  }

  uint64_t appended() const override { return log_ ? log_->appended() : 0; }
  uint64_t safe() const override { return log_ ? log_->safe() : 0; }
  Status commit() override { return log_ ? log_->commit() : Status(); }
  bool needs_commit() const override { return log_ && log_->needs_commit(); }

 private:
  const std::shared_ptr<FileOps> files_;
  const UpdateLogOptions options_;
  const EnvelopeCodec codec_;
  std::unique_ptr<UpdateLog> log_;
};

}  // namespace

std::shared_ptr<ShardStore> make_logged_store(std::shared_ptr<FileOps> files, UpdateLogOptions options,
                                              EnvelopeCodec codec) {
  return std::make_shared<LoggedStore>(std::move(files), std::move(options), std::move(codec));
}

}  // namespace troupe::ps
