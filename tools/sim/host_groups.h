#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>

#include <troupe/actors/reducer.h>
#include <troupe/kernels/base/random.h>

#include "agenda.h"
#include "oracle.h"

namespace troupe::sim {

/// The devices of hosts that add up gradients: what actors/host_reducer.h does with a communicator, on the agenda. A
/// member does one thing after the other. Its collective calls wait until all members have made the same one, which the
/// oracle hears of where it is another; results come to each member at a time of its own. Whoever leaves breaks the
/// group: those who wait, or call it later, wait until they are told to leave, too.
class HostGroups {
 public:
  using Note = std::function<void(const std::function<std::string()>&)>;
  HostGroups(Agenda& agenda, Random& random, Oracle& oracle, const Scenario& scenario, Note note)
      : agenda_(agenda), random_(random), oracle_(oracle), scenario_(scenario), note_(std::move(note)) {}

  std::shared_ptr<Reducer> member(const ps::Endpoint& who);

 private:
  struct Member;
  struct Group;
  class End;
  using Task = std::function<void(const std::shared_ptr<Member>&)>;

  void submit(const std::shared_ptr<Member>& m, Task task);
  void done(const std::shared_ptr<Member>& m);
  void later(const std::shared_ptr<Member>& m, Task what);
  void join(const std::shared_ptr<Member>& m, const ps::JoinGroup& task, uint64_t left, const Reducer::Report& report);
  void reduce(const std::shared_ptr<Member>& m, const ps::Bucket& bucket, const Reducer::Report& report);
  void broadcast(const std::shared_ptr<Member>& m, const ps::Broadcast& task, const Reducer::Report& report);
  void answer(const std::shared_ptr<Member>& m, Task how);
  static void answer_alone(const ps::Bucket& bucket, const Reducer::Report& report);
  void call(const std::shared_ptr<Member>& m, std::string what, ps::Bucket bucket, ps::Broadcast task,
            const Reducer::Report& report);
  void sum(Group& group);
  void give(Group& group);
  void leave(const std::shared_ptr<Member>& m);

  Agenda& agenda_;
  Random& random_;
  Oracle& oracle_;
  const Scenario& scenario_;
  Note note_;
  std::map<std::string, std::shared_ptr<Group>> groups_;  ///< by id
  uint64_t made_ = 0;
};

}  // namespace troupe::sim
