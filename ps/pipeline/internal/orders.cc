#include <troupe/ps/pipeline/internal/orders.h>

#include <algorithm>
#include <map>

namespace troupe::ps::orders {
namespace {

void add(Order& order, ActionKind kind, uint32_t micro_batch, uint32_t chunk) {
  order.push_back({kind, micro_batch, chunk});
}

void add_backward(Order& order, uint32_t micro_batch, uint32_t chunk) {
  add(order, ActionKind::backward_input, micro_batch, chunk);
  add(order, ActionKind::backward_weight, micro_batch, chunk);
}

}  // namespace

Order sequential(const Schedule& shape, uint32_t stage) {
  Order order;
  for (uint32_t j = 0; j < shape.micro_batches; ++j)
    add(order, ActionKind::forward, j, stage), add_backward(order, j, stage);
  return order;
}

Order gpipe(const Schedule& shape, uint32_t stage) {
  Order order;
  for (uint32_t j = 0; j < shape.micro_batches; ++j) add(order, ActionKind::forward, j, stage);
  for (uint32_t j = 0; j < shape.micro_batches; ++j) add_backward(order, j, stage);
  return order;
}

Order one_forward_one_backward(const Schedule& shape, uint32_t stage) {
  const uint32_t m = shape.micro_batches, warm_up = std::min(m, shape.stages - stage - 1);
  Order order;
  for (uint32_t j = 0; j < warm_up; ++j) add(order, ActionKind::forward, j, stage);
  for (uint32_t j = 0; j < m; ++j) {
    if (warm_up + j < m) add(order, ActionKind::forward, warm_up + j, stage);
    add_backward(order, j, stage);
  }
  return order;
}

Order interleaved(const Schedule& shape, uint32_t stage) {
  const uint64_t p = shape.stages, v = shape.chunks / p, total = shape.micro_batches * v;
  const uint64_t warm_up = std::min(total, 2 * (p - stage - 1) + (v - 1) * p);
  const auto micro_batch = [&](uint64_t k) { return static_cast<uint32_t>(k / (p * v) * p + k % p); };
  const auto turn = [&](uint64_t k) { return k % (p * v) / p; };  // which of the stage's chunks
  const auto chunk = [&](uint64_t turn) { return static_cast<uint32_t>(turn * p + stage); };
  Order order;
  const auto forward = [&](uint64_t k) { add(order, ActionKind::forward, micro_batch(k), chunk(turn(k))); };
  for (uint64_t k = 0; k < warm_up; ++k) forward(k);
  for (uint64_t k = 0; k < total; ++k) {
    if (warm_up + k < total) forward(warm_up + k);
    add_backward(order, micro_batch(k), chunk(v - 1 - turn(k)));
  }
  return order;
}

Order zero_bubble(const Schedule& shape, uint32_t stage, uint32_t warm_up, uint32_t delayed_weights) {
  const uint32_t m = shape.micro_batches;
  warm_up = std::min(m, warm_up), delayed_weights = std::min(m, delayed_weights);
  Order order;
  for (uint32_t j = 0; j < warm_up; ++j) add(order, ActionKind::forward, j, stage);
  for (uint32_t j = 0; j < m; ++j) {
    if (warm_up + j < m) add(order, ActionKind::forward, warm_up + j, stage);
    add(order, ActionKind::backward_input, j, stage);
    if (j >= delayed_weights) add(order, ActionKind::backward_weight, j - delayed_weights, stage);
  }
  for (uint32_t j = m - delayed_weights; j < m; ++j) add(order, ActionKind::backward_weight, j, stage);
  return order;
}

Order zero_bubble_v(const Schedule& shape, uint32_t stage) {
  // With fewer than 2p-1 micro-batches the order is that of 2p-1 without those that are not there.
  const uint32_t p = shape.stages, m = std::max(shape.micro_batches, 2 * p - 1);
  const uint32_t down = stage, up = 2 * p - 1 - stage;
  uint32_t forward_down = 0, forward_up = 0, backward_down = 0, backward_up = 0;
  Order order;
  const auto both = [&](uint32_t& count, uint32_t chunk) { add_backward(order, count++, chunk); };
  const auto one = [&](ActionKind kind, uint32_t& count, uint32_t chunk) { add(order, kind, count++, chunk); };

  for (uint32_t k = 0; k < 2 * (p - stage) - 1; ++k) one(ActionKind::forward, forward_down, down);
  for (uint32_t k = 0; k < stage; ++k) {
    one(ActionKind::forward, forward_up, up);
    one(ActionKind::forward, forward_down, down);
  }
  for (uint32_t k = 0; k < p - stage; ++k) {
    one(ActionKind::forward, forward_up, up);
    both(backward_up, up);
  }
  while (forward_up < forward_down || forward_down < m) {
    if (forward_down < m) one(ActionKind::forward, forward_down, down);
    both(backward_down, down);
    one(ActionKind::forward, forward_up, up);
    both(backward_up, up);
  }
  uint32_t weight_down = backward_down, weight_up = backward_up;
  for (uint32_t k = 0; k < stage; ++k) {
    one(ActionKind::backward_input, backward_down, down);
    one(ActionKind::backward_input, backward_up, up);
  }
  for (uint32_t k = 0; k < p - stage; ++k) {
    one(ActionKind::backward_input, backward_down, down);
    one(ActionKind::backward_weight, weight_down, down);
  }
  while (weight_up < backward_up) one(ActionKind::backward_weight, weight_up, up);
  while (weight_down < backward_down) one(ActionKind::backward_weight, weight_down, down);
  std::erase_if(order, [&](const Action& action) { return action.micro_batch >= shape.micro_batches; });
  return order;
}

Order with_steps(const Order& order, uint32_t interval) {
  std::map<uint32_t, uint32_t> summed;  // by chunk
  for (const Action& action : order) summed[action.chunk] = 0;
  Order whole, steps;
  for (const Action& action : order) {
    whole.push_back(action);
    if (action.kind != ActionKind::backward_weight || ++summed[action.chunk] % interval != 0) continue;
    const uint32_t last = summed[action.chunk] - 1;
    add(whole, ActionKind::all_reduce, last, action.chunk);
    add(steps, ActionKind::step, last, action.chunk);
    if (steps.size() < summed.size()) continue;
    whole.insert(whole.end(), steps.begin(), steps.end());
    steps.clear();
  }
  return whole;
}

}  // namespace troupe::ps::orders
