#pragma once
#include <cstdint>
#include <map>
#include <optional>

#include <troupe/ps/messages.h>

namespace troupe::ps {

/// Routes made ready to be asked: which node an endpoint lives on, and where that is. A value.
class RouteTable {
 public:
  RouteTable() = default;
  explicit RouteTable(const Routes& routes);

  uint64_t version() const { return version_; }
  /// The node endpoints themselves need no place: theirs is the node of their index.
  std::optional<uint32_t> node_of(const Endpoint& endpoint) const;
  const std::map<uint32_t, NodeAddress>& nodes() const { return nodes_; }

 private:
  uint64_t version_ = 0;
  std::map<Endpoint, uint32_t> places_;
  std::map<uint32_t, NodeAddress> nodes_;
};

}  // namespace troupe::ps
