#pragma once
#include <memory>
#include <string>
#include <vector>

#include <troupe/kernels/base/check.h>
#include <troupe/ps/transport/network_transport.h>

namespace troupe::test {

using TransportPtr = std::shared_ptr<ps::NetworkTransport>;

inline TransportPtr open(ps::NetworkOptions options = {}) {
  auto opened = ps::NetworkTransport::open(std::move(options));
  TROUPE_CHECK(opened, opened.error().message);
  return *opened;
}

/// Node i of the routes has these endpoints.
struct Member {
  ps::NodeAddress address;
  std::vector<ps::Endpoint> endpoints;
};

inline ps::Routes routes_of(const std::vector<Member>& members, uint64_t version = 1) {
  ps::Routes routes{version, {}, {}};
  for (uint32_t node = 0; node < members.size(); ++node) {
    routes.nodes.push_back(members[node].address);
    routes.nodes.back().node = node;
    for (const ps::Endpoint& endpoint : members[node].endpoints) routes.places.push_back({endpoint, node});
  }
  return routes;
}

/// As routes_of, told to all of them: transport i is node i.
inline void connect(const std::vector<std::pair<TransportPtr, std::vector<ps::Endpoint>>>& members,
                    uint64_t version = 1) {
  std::vector<Member> all;
  for (const auto& [transport, endpoints] : members) all.push_back({transport->address(), endpoints});
  const ps::Routes routes = routes_of(all, version);
  for (uint32_t node = 0; node < members.size(); ++node) {
    members[node].first->set_self(node);
    members[node].first->set_routes(routes);
  }
}

inline const ps::Endpoint kCoordinator{ps::Role::coordinator, 0, 1};
inline const ps::Endpoint kServer{ps::Role::server, 0, 1};
inline const ps::Endpoint kWorker{ps::Role::worker, 1, 2};

/// kWorker's, to kServer.
inline ps::Envelope push(const Tensor& gradient, ps::Sequence sequence = 1, ps::ParcelId parcel = 0) {
  ps::Push body;
  body.sequence = sequence;
  body.parcel = parcel;
  body.samples = 3;
  body.gradients = {gradient};
  return {kWorker, kServer, 1, body};
}

/// f32 numbers 0, 1, 2, ...
inline Tensor ramp(int64_t count, float first = 0) {
  Tensor t = Tensor::empty({count});
  for (int64_t i = 0; i < count; ++i) t.data<float>()[i] = first + static_cast<float>(i);
  return t;
}

}  // namespace troupe::test
