#pragma once
#include <variant>
#include <vector>

#include <troupe/ps/messages.h>

namespace troupe::ps::test {

/// Takes the messages of one kind out of `sent`; the others stay.
template <class M>
std::vector<M> take_said(Outbox& sent) {
  std::vector<M> messages;
  std::erase_if(sent, [&](const Envelope& e) {
    const auto* m = std::get_if<M>(&e.body);
    if (m) messages.push_back(*m);
    return m != nullptr;
  });
  return messages;
}

}  // namespace troupe::ps::test
