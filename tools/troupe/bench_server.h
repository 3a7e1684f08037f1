#pragma once
#include <caf/all.hpp>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include <troupe/actors/server.h>
#include <troupe/ps/transport/memory_transport.h>

/// One server actor under synchronous policies with plain SGD, and workers that are no actors: whoever drives the
/// benchmark sends their envelopes and takes the answers.
class BenchServer {
 public:
  /// `parcels` parcels of `elements` parameters each.
  BenchServer(size_t workers, size_t parcels, int64_t elements);
  ~BenchServer();

  void push(troupe::ps::WorkerId worker, troupe::ps::ParcelId parcel, troupe::ps::Step step);
  void pull(troupe::ps::WorkerId worker, troupe::ps::ParcelId parcel, troupe::ps::Step step);

  struct Answer {
    troupe::ps::WorkerId worker = 0;
    troupe::ps::ParcelId parcel = 0;
    troupe::ps::Step step = 0;
    std::vector<troupe::Tensor> values;  ///< of a pull
  };
  /// The next answer to any worker, in the order in which they came.
  Answer wait();

 private:
  void received(const troupe::ps::Envelope& envelope);
  void send(troupe::ps::WorkerId worker, troupe::ps::Message body);

  size_t parcels_;
  std::vector<troupe::Tensor> gradients_;        ///< by worker, then parcel
  std::vector<troupe::ps::Sequence> sequences_;  ///< by worker
  std::shared_ptr<troupe::ps::MemoryTransport> transport_;
  std::mutex mutex_;
  std::condition_variable there_;
  std::deque<Answer> answers_;
  caf::actor_system_config config_;
  std::unique_ptr<caf::actor_system> system_;  ///< goes first: it waits for the actor
};
