#include <troupe/actors/all_reducer.h>

namespace troupe {
namespace {

class BlockingAllReducer final : public AllReducer {
 public:
  BlockingAllReducer(std::unique_ptr<Communicator> communicator, std::shared_ptr<Executor> executor)
      : communicator_(std::move(communicator)), executor_(std::move(executor)) {}

  // Whoever waits is woken before the executor's thread is joined.
  ~BlockingAllReducer() override { abort("a worker of the group ended"); }

  // The task holds the communicator: an executor that others hold too may run it after this has gone.
  void all_reduce(Tensor values, std::function<void(Status, Tensor)> done) override {
    executor_->submit([communicator = communicator_, values = std::move(values), done = std::move(done)]() mutable {
      Status status;
      try {
        status = communicator->all_reduce(values, values);
      } catch (const std::exception& e) {
        status = fail(ErrorKind::failed, e.what());
      }
      done(std::move(status), std::move(values));
    });
  }

  void abort(const std::string& reason) override { communicator_->abort(reason); }

 private:
  std::shared_ptr<Communicator> communicator_;
  std::shared_ptr<Executor> executor_;
};

}  // namespace

std::unique_ptr<AllReducer> make_all_reducer(std::unique_ptr<Communicator> communicator,
                                             std::shared_ptr<Executor> executor) {
  return std::make_unique<BlockingAllReducer>(std::move(communicator), std::move(executor));
}

}  // namespace troupe
