#pragma once
#include <boost/test/unit_test.hpp>

#include <tests/support/ops.h>

/// What tests of batch norm and layer norm share.
namespace troupe::test {

constexpr double kEpsilon = 1e-5;

struct NormGradients {
  /// Not written yet.
  NormGradients(const Tensor& x, const Tensor& gamma)
      : dx(unwritten(x.shape(), x.dtype())),
        dgamma(unwritten(gamma.shape(), x.dtype())),
        dbeta(unwritten(gamma.shape(), x.dtype())) {}
  Tensor dx, dgamma, dbeta;
};

/// `normed(x, gamma, beta).y` and `gradients(x, gamma, beta, dy)` in double precision; `width` parameters of each kind.
template <class Normed, class Gradients>
void check_finite_differences(const Shape& shape, int64_t width, Normed normed, Gradients gradients) {
  Tensor x = normal(1, shape), gamma = normal(2, {width}), beta = normal(3, {width}), dy = normal(4, shape);
  const auto loss = [&] { return dot(normed(x, gamma, beta).y, dy); };
  const NormGradients g = gradients(x, gamma, beta, dy);
  BOOST_TEST(gradient_difference(g.dx, finite_differences(x, loss)) == "", shape);
  BOOST_TEST(gradient_difference(g.dgamma, finite_differences(gamma, loss)) == "", shape);
  BOOST_TEST(gradient_difference(g.dbeta, finite_differences(beta, loss)) == "", shape);
}

template <class Gradients>
void check_float_against_double(const Shape& shape, int64_t width, Gradients gradients) {
  const Tensor x = exact(1, shape), gamma = exact(2, {width}), beta = exact(3, {width}), dy = exact(4, shape);
  const auto single = [](const Tensor& t) { return as(DType::f32, t); };
  const NormGradients d = gradients(x, gamma, beta, dy),
                      f = gradients(single(x), single(gamma), single(beta), single(dy));
  BOOST_TEST(difference(f.dx, d.dx, 2e-6) == "", shape);
  BOOST_TEST(difference(f.dgamma, d.dgamma, 2e-6) == "", shape);
  BOOST_TEST(difference(f.dbeta, d.dbeta, 2e-6) == "", shape);
}

/// After `add` has added the gradients of `once` to themselves.
template <class Add>
void check_added(const NormGradients& once, Add add) {
  Stream stream;
  Tensor dgamma = once.dgamma.clone(), dbeta = once.dbeta.clone();
  add(dgamma, dbeta);
  ops::cpu_ops().scale(stream, 0.5, dgamma);
  ops::cpu_ops().scale(stream, 0.5, dbeta);
  BOOST_TEST(difference(dgamma, once.dgamma, 1e-6) == "");
  BOOST_TEST(difference(dbeta, once.dbeta, 1e-6) == "");
}

}  // namespace troupe::test
