#pragma once
#include <chrono>
#include <exception>
#include <string>
#include <utility>

#include <caf/all.hpp>

#include <troupe/actors/mail.h>
#include <troupe/ps/transport/transport.h>

/// What every actor does alike: how it is reached, how it ticks and knows the time, and with what text it ends.
namespace troupe {

/// From now on the transport puts what comes for `endpoint` into the actor's mailbox. Done where an actor is
/// spawned, so that its peers may write to it at once; the actor detaches itself when it ends.
template <class Handle>
void attach(const Handle& actor, const ps::Endpoint& endpoint, ps::Transport& transport) {
  transport.attach(endpoint, [to = caf::actor_cast<caf::actor>(actor)](ps::EnvelopePtr envelope) {
    caf::anon_send(to, std::move(envelope));
  });
}

/// One tick after `interval`; none if it is 0.
template <class Self>
void tick_every(Self* self, std::chrono::milliseconds interval) {
  if (interval.count() > 0) self->delayed_send(self, interval, tick_atom::value);
}

/// Milliseconds of the actor's clock, which is virtual in a simulation.
template <class Self>
int64_t now_ms(Self* self) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(self->clock().now().time_since_epoch()).count();
}

/// The exception that ended an actor, as the reason its node hears.
template <class Self>
void end_on_exception(Self* self) {
  self->set_exception_handler([](std::exception_ptr& failure) -> caf::error {
    try {
      std::rethrow_exception(failure);
    } catch (const std::exception& e) {
      return caf::make_error(caf::sec::runtime_error, std::string(e.what()));
    }
  });
}

/// Why an actor ended: the text of the exception, where there was one.
inline std::string describe(const caf::error& reason) {
  const bool text = !reason.context().empty() && reason.context().match_element<std::string>(0);
  return text ? reason.context().get_as<std::string>(0) : caf::to_string(reason);
}

}  // namespace troupe
