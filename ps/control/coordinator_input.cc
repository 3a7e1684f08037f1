#include <troupe/ps/control/coordinator_input.h>

namespace troupe::ps {
namespace {

using Effects = CoordinatorCore::Effects;

struct Teller {
  CoordinatorCore& core;
  Result<Effects> operator()(const CoordinatorInput::Start&) const { return core.start(); }
  Result<Effects> operator()(const CoordinatorInput::Heard& heard) const { return core.handle(*heard.envelope); }
  Result<Effects> operator()(const CoordinatorInput::CheckpointWritten& written) const {
    return core.checkpoint_written(written.status);
  }
  Result<Effects> operator()(const CoordinatorInput::Stop&) const { return core.stop(); }
  Result<Effects> operator()(const CoordinatorInput::ChangePolicies& change) const {
    return core.change_policies(change.rules);
  }
  Result<Effects> operator()(const CoordinatorInput::LinkLost& lost) const {
    core.link_lost(lost.node);
    return Effects{};
  }
  Result<Effects> operator()(const CoordinatorInput::Tick&) const { return core.tick(); }
  Result<Effects> operator()(const CoordinatorInput::Recovered&) const { return core.recovered(); }
  Result<Effects> operator()(const CoordinatorInput::CheckpointRead& done) const {
    return core.reloaded(done.server, done.read);
  }
};

}  // namespace

Result<Effects> tell(CoordinatorCore& core, const CoordinatorInput& input) {
  core.set_now_ms(input.now_ms);
  return std::visit(Teller{core}, input.what);
}

}  // namespace troupe::ps
