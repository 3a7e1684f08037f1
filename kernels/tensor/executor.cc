#include <troupe/kernels/tensor/executor.h>

#include <omp.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include <troupe/kernels/base/lookout.h>

namespace troupe {
namespace {

// What a step waits for in the middle of itself comes within this time, or much later.
constexpr std::chrono::microseconds kLook{150};

class CpuQueue final : public Executor {
 public:
  CpuQueue(std::string name, int threads) : thread_([this, name = std::move(name), threads] { run(name, threads); }) {}

  ~CpuQueue() override {
    Tasks dropped, dropped_idle;  // outlive the lock: what a task captured may submit as it goes
    {
      std::lock_guard lock(mutex_);
      stopping_ = due_ = true;
      dropped.swap(tasks_);
      dropped_idle.swap(idle_tasks_);
    }
    wake_.notify_one();
    thread_.join();
  }

  void submit(std::function<void()> task) override { put(tasks_, std::move(task)); }
  void submit_idle(std::function<void()> task) override { put(idle_tasks_, std::move(task)); }

 private:
  using Tasks = std::deque<std::function<void()>>;

  void put(Tasks& tasks, std::function<void()> task) {
    {
      std::lock_guard lock(mutex_);
      if (stopping_) return;
      tasks.push_back(std::move(task));
      due_ = true;
    }
    wake_.notify_one();
  }

  void run(const std::string& name, int threads) {
    pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
    omp_set_num_threads(threads);  // a setting of this thread alone
    Lookout lookout(kLook);
    std::unique_lock lock(mutex_);
    while (true) {
      due_ = stopping_ || !tasks_.empty() || !idle_tasks_.empty();
      if (!due_) {
        lock.unlock();
        lookout.look([this] { return due_.load(std::memory_order_relaxed); });
        lock.lock();
      }
      wake_.wait(lock, [this] { return due_.load(std::memory_order_relaxed); });
      if (stopping_) return;
      Tasks& tasks = tasks_.empty() ? idle_tasks_ : tasks_;
      auto task = std::move(tasks.front());
      tasks.pop_front();
      lock.unlock();
      task();
      task = nullptr;  // what it captured goes before the next task comes
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  Tasks tasks_, idle_tasks_;
  bool stopping_ = false;
  std::atomic<bool> due_{false};  ///< there is something to do; written under the lock
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Executor> make_cpu_queue(std::string name, int threads) {
  return std::make_unique<CpuQueue>(std::move(name), threads);
}

}  // namespace troupe
