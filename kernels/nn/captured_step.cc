#include <troupe/kernels/nn/captured_step.h>

#include <stdexcept>

namespace troupe::nn {
namespace {

void require(const Status& status) {
  if (!status) throw std::runtime_error(status.error().message);
}

}  // namespace

void CapturedStep::begin() {
  require(backend_->begin_capture(stream_, memory_));
  open_ = true;
}

void CapturedStep::end(size_t layer, Tensor output) {
  open_ = false;
  auto graph = backend_->end_capture(stream_);
  if (!graph) throw std::runtime_error(graph.error().message);
  sections_.push_back({std::move(*graph), layer, std::move(output)});
  replay(sections_.size() - 1);
}

void CapturedStep::abandon() {
  if (std::exchange(open_, false)) static_cast<void>(backend_->end_capture(stream_));
}

bool CapturedStep::replay_first() {
  const Status status = backend_->replay(*sections_.front().graph, stream_);
  if (!status && status.error().kind == ErrorKind::cancelled) return false;
  require(status);
  return true;
}

void CapturedStep::replay(size_t section) { require(backend_->replay(*sections_[section].graph, stream_)); }

}  // namespace troupe::nn
