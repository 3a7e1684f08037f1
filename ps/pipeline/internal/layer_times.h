#pragma once
#include <cstddef>

#include <troupe/ps/pipeline/planner.h>

/// What one layer's passes take on one device: the planner's model of a machine.
namespace troupe::ps {

/// Seconds of one pass over some layers.
struct PassTime {
  double arithmetic = 0, traffic = 0, exchange = 0;
  double sum() const { return arithmetic + traffic + exchange; }
  PassTime& operator+=(const PassTime& o) {
    arithmetic += o.arithmetic, traffic += o.traffic, exchange += o.exchange;
    return *this;
  }
};

/// The three passes of one micro-batch.
struct LayerTimes {
  PassTime forward, backward_input, backward_weight;
  LayerTimes& operator+=(const LayerTimes& o) {
    forward += o.forward, backward_input += o.backward_input, backward_weight += o.backward_weight;
    return *this;
  }
  PassTime all() const {
    PassTime sum = forward;
    return (sum += backward_input) += backward_weight;
  }
};

/// Of row `row` of the task's model, or of its profile. What recomputation makes again is in backward_input.
LayerTimes layer_times(const PlanTask& task, const Composition& composition, size_t row);

}  // namespace troupe::ps
