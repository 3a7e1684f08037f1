#pragma once
#include <boost/test/unit_test.hpp>

#include <tests/support/simulated_cuda/simulated_cuda.h>
#include <troupe/kernels/backend/backend.h>

namespace troupe::test {

inline void check_rules() {
  for (const std::string& rule : simulated_cuda::broken_rules()) BOOST_TEST(rule == "");
}

/// Around each test: devices that are well, no rule of CUDA broken, and nothing left behind.
struct Rules {
  Rules() {
    simulated_cuda::repair();
    check_rules();  // by tests before this one
  }
  ~Rules() {
    simulated_cuda::repair();
    check_rules();
    simulated_cuda::Alive now = simulated_cuda::alive();
    // Pinned memory is the backend's, which lives on.
    now.pinned_blocks = before.pinned_blocks;
    BOOST_TEST((now == before), now.streams << " streams, " << now.events << " events, " << now.graphs << " graphs, "
                                            << now.device_blocks << " blocks, " << now.communicators
                                            << " communicators were left behind");
  }
  simulated_cuda::Alive before = simulated_cuda::alive();
};

inline std::shared_ptr<Backend> cuda_backend() { return load_backend(DeviceKind::cuda).value(); }

}  // namespace troupe::test
