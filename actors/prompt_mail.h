#pragma once
#include <troupe/actors/mail.h>
#include <troupe/ps/transport/prompt_sink.h>

namespace troupe {

/// Puts the message into the actor's mailbox. Where the actor waits, and the message is of a step's traffic (pushes,
/// pulls and their answers), it is run on the calling thread; else the scheduler runs it.
void deliver_here(const caf::actor& to, ps::EnvelopePtr envelope);

/// Tells a worker what its compute thread has done, and lets it run on this thread where it waits: what it does is put
/// messages and tasks into queues, and to wake another thread for that would take longer, from this one's time or,
/// where all cores compute, instead of it. For a thread that holds no lock.
void report_here(const caf::actor& to, TaskDonePtr done);

/// Of the largest message that a thread of the transport should bring to an actor of `system` in this way. Work on
/// large ones takes so long that the thread should go on receiving, and another wake. Where the scheduler has but one
/// thread it has no other to wake that would work beside others: then of any message, which also is in the cache here.
size_t most_bytes_here(caf::actor_system& system);

/// Puts any message into the mailbox, and runs the actor on the calling thread where it waits.
void send_here(const caf::actor& to, ps::EnvelopePtr envelope);

/// As `attach`, for an actor that decides much and works little: a message puts other messages and tasks into queues.
/// Inside one process, where a message comes on its sender's thread, the sender runs such an actor where it waits,
/// since that takes less of its time than to wake another thread. Others' messages are left to the scheduler.
template <class Handle>
void attach_light(const Handle& actor, const ps::Endpoint& endpoint, ps::Transport& transport) {
  if (!transport.reliable()) return attach(actor, endpoint, transport);
  transport.attach(endpoint, [to = caf::actor_cast<caf::actor>(actor)](ps::EnvelopePtr envelope) {
    send_here(to, std::move(envelope));
  });
}

/// As `attach`, for actors that may run on the transport's threads: their handlers are short.
template <class Handle>
void attach_prompt(const Handle& actor, const ps::Endpoint& endpoint, ps::Transport& transport) {
  const auto to = caf::actor_cast<caf::actor>(actor);
  transport.attach(endpoint,
                   ps::PromptSink([to](ps::EnvelopePtr envelope) { caf::anon_send(to, std::move(envelope)); },
                                  [to](ps::EnvelopePtr envelope) { deliver_here(to, std::move(envelope)); },
                                  most_bytes_here(to.home_system())));
}

}  // namespace troupe
