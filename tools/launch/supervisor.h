#pragma once
#include <functional>
#include <set>
#include <string>
#include <vector>

#include <troupe/kernels/base/result.h>

#include "announcement.h"
#include "child.h"
#include "keeper.h"

namespace troupe::launch {

/// A node that the launcher starts.
struct NodePlan {
  int place = 0;
  std::string host;  ///< as people know it
  bool remote =
      false;  ///< over ssh: it counts as started when `kPidMarker` comes, and is asked to end by its death pipe
};

/// What runs: the commands come from functions because they need what is only known later.
struct LaunchPlan {
  Command coordinator;        ///< argv empty: another launcher has it
  std::string announce_file;  ///< which the coordinator makes, whole, when it listens
  std::string address;        ///< of a coordinator that another launcher has
  std::string logs_folder;    ///< its run folder, where the logs go as soon as it is there; empty: there are none
  std::function<Command(const Announcement&)> recover;  ///< the coordinator, started again
  std::vector<NodePlan> nodes;
  std::function<Command(const NodePlan&, const std::string& address)> node;
};

struct SupervisorOptions {
  KeeperOptions keeper;        ///< `coordinator` and `nodes` are set from the plan
  std::set<std::string> show;  ///< "coordinator", "0", "2": whose lines are merged; empty: everybody's
  int out_fd = 1, err_fd = 2;
  Moment guard_patience{8000};  ///< longer than kDrainTime
};

/// A node writes this in a line of its own, and then its number, when the coordinator has welcomed it.
inline constexpr std::string_view kJoined = "joined as ";
/// And when the run has all nodes that it needs to begin, the same.
inline constexpr std::string_view kBegun = "the run has begun";

/// A remote process writes this and its number, in a line of its own, before it becomes `troupe`.
inline constexpr std::string_view kPidMarker = "troupe-process ";

/// Runs the plan to its end, in the calling thread, which must be the only one: the coordinator, then, once it
/// listens, the nodes. While it runs it takes SIGINT, SIGTERM and SIGHUP, and it ignores SIGPIPE.
///
/// Every child's lines go to RUN/logs/NAME.log and to the launcher's own output: the coordinator's as they are, a
/// node's behind "[node 0] ". When all have ended, what went wrong is shown as a table. The result is the exit code
/// of the job; an error means that nothing was begun. No child is left when it returns, nor 10 s after the launcher
/// was killed.
Result<int> supervise(const LaunchPlan& plan, const SupervisorOptions& options);

}  // namespace troupe::launch
