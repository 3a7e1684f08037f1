#include <troupe/kernels/tensor/executor.h>

#include <omp.h>
#include <pthread.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace troupe {
namespace {

class CpuQueue final : public Executor {
 public:
  CpuQueue(std::string name, int threads) : thread_([this, name = std::move(name), threads] { run(name, threads); }) {}

  ~CpuQueue() override {
    std::deque<std::function<void()>> dropped;  // outlives the lock: what a task captured may submit as it goes
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
      dropped.swap(tasks_);
    }
    wake_.notify_one();
    thread_.join();
  }

  void submit(std::function<void()> task) override {
    {
      std::lock_guard lock(mutex_);
      if (stopping_) return;
      tasks_.push_back(std::move(task));
    }
    wake_.notify_one();
  }

 private:
  void run(const std::string& name, int threads) {
    pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
    omp_set_num_threads(threads);  // a setting of this thread alone
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
      if (stopping_) return;
      auto task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      task = nullptr;  // what it captured goes before the next task comes
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Executor> make_cpu_queue(std::string name, int threads) {
  return std::make_unique<CpuQueue>(std::move(name), threads);
}

}  // namespace troupe
