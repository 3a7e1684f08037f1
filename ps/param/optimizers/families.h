#pragma once
#include <memory>

#include <troupe/ps/param/optimizer.h>

/// One function a family; `make_optimizer` checks the options first.
namespace troupe::ps {

std::shared_ptr<const Optimizer> make_sgd(const OptimizerOptions& options);
std::shared_ptr<const Optimizer> make_adam(const OptimizerOptions& options);  ///< adam and adamw
std::shared_ptr<const Optimizer> make_adagrad(const OptimizerOptions& options);
std::shared_ptr<const Optimizer> make_rmsprop(const OptimizerOptions& options);
std::shared_ptr<const Optimizer> make_lamb(const OptimizerOptions& options);

/// `Optimizer::check_rows` of one that, but for weight decay, does nothing (`exact`) where a gradient is zero, or that
/// does something.
Status check_lazy(const OptimizerOptions& options, bool exact);

}  // namespace troupe::ps
