#include <troupe/ps/transport/internal/route_table.h>

namespace troupe::ps {

RouteTable::RouteTable(const Routes& routes) : version_(routes.version) {
  for (const NodeAddress& node : routes.nodes) nodes_.emplace(node.node, node);
  for (const Routes::Place& place : routes.places) places_.emplace(place.who, place.node);
}

std::optional<uint32_t> RouteTable::node_of(const Endpoint& endpoint) const {
  if (const auto place = places_.find(endpoint); place != places_.end()) return place->second;
  if (endpoint.role == Role::node && nodes_.contains(endpoint.index)) return endpoint.index;
  return std::nullopt;
}

}  // namespace troupe::ps
