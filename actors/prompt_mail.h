#pragma once
#include <troupe/actors/mail.h>
#include <troupe/ps/transport/prompt_sink.h>

namespace troupe {

/// Puts the message into the actor's mailbox. Where the actor waits, and the message is of a step's traffic (pushes,
/// pulls and their answers), it is run on the calling thread; else the scheduler runs it.
void deliver_here(const caf::actor& to, ps::EnvelopePtr envelope);

/// As `attach`, for actors that may run on the transport's threads: their handlers are short.
template <class Handle>
void attach_prompt(const Handle& actor, const ps::Endpoint& endpoint, ps::Transport& transport) {
  const auto to = caf::actor_cast<caf::actor>(actor);
  transport.attach(endpoint,
                   ps::PromptSink([to](ps::EnvelopePtr envelope) { caf::anon_send(to, std::move(envelope)); },
                                  [to](ps::EnvelopePtr envelope) { deliver_here(to, std::move(envelope)); }));
}

}  // namespace troupe
