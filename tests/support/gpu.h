#pragma once
#include <boost/test/unit_test.hpp>

#include <troupe/kernels/backend/backend.h>

namespace troupe::test {

/// For tests of real devices, which are skipped where there are too few, with the reason. Use TROUPE_GPU_TEST.
struct NeedsGpus {
  explicit NeedsGpus(size_t count) : count(count) {}
  boost::test_tools::assertion_result operator()(boost::unit_test::test_unit_id) const {
    const auto backend = load_backend(DeviceKind::cuda);
    const size_t found = backend ? (*backend)->devices().size() : 0;
    boost::test_tools::assertion_result result(found >= count);
    result.message() << (backend ? cat("there are ", found, " GPUs instead of ", count) : backend.error().message);
    return result;
  }
  size_t count;
};

/// On a machine that passed NeedsGpus.
inline Backend& gpus() {
  static const std::shared_ptr<Backend> backend = load_backend(DeviceKind::cuda).value();
  return *backend;
}

inline Tensor to_device(Stream& stream, const Tensor& host) {
  if (!host) return {};
  Tensor device = stream.empty(host.shape(), host.dtype());
  stream.copy(host, device);
  return device;
}

/// What `device` holds once the stream has run; a failure of the device fails the test.
inline Tensor to_host(Stream& stream, const Tensor& device) {
  Tensor host = Tensor::empty(device.shape(), device.dtype());
  stream.copy(device, host);
  const Status status = stream.wait();
  BOOST_TEST_REQUIRE(status.has_value(), status.error().message);
  return host;
}

}  // namespace troupe::test

/// The decorators of a test that needs `count` devices.
#define TROUPE_GPU_TEST(count) \
  *boost::unit_test::label("gpu") * boost::unit_test::precondition(troupe::test::NeedsGpus(count))
