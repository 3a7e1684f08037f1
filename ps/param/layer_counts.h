#pragma once
#include <map>
#include <optional>
#include <vector>

#include <troupe/ps/messages.h>

namespace troupe::ps {

/// A shard's counters, a layer. A layer that is cut counts every parcel that holds a part of it.
class LayerCounts {
 public:
  static constexpr size_t kBins = 64;  ///< of the histograms

  LayerCounts() = default;
  /// Goes on from another's `all`.
  explicit LayerCounts(const std::vector<LayerCounters>& before);

  /// `delay`: of an immediate push whose read is known.
  void pushed(const Layout& layout, const Push& push, std::optional<int64_t> delay);
  void updated(const Layout& layout, ParcelId parcel);
  void pulled(const Layout& layout, const Pull& pull, const PullReply& reply);
  /// The first answer to a read; a repeated one moves bytes but is no other read.
  void read(const Layout& layout, ParcelId parcel, int64_t lag);

  /// Ascending layer; layers that were never touched are left out.
  std::vector<LayerCounters> all() const;

 private:
  LayerCounters& at(LayerId layer);
  template <class Count>
  void for_each_layer(const Layout& layout, ParcelId parcel, const Count& count);

  std::map<LayerId, LayerCounters> layers_;
};

}  // namespace troupe::ps
