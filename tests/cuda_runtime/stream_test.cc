#include <tests/cuda_runtime/rules.h>
#include <tests/support/gpu.h>
#include <troupe/kernels/tensor/cuda/cuda_stream.h>

#include <future>

// kernels/tensor/cuda as it is, on a simulated runtime (tests/support/simulated_cuda).

using namespace troupe;
using namespace troupe::test;

namespace {

/// Tests of other files, which do not know of rules, keep them too.
struct RulesOfAll {
  void setup() {}
  void teardown() { check_rules(); }
};

}  // namespace

BOOST_TEST_GLOBAL_FIXTURE(RulesOfAll);
BOOST_FIXTURE_TEST_SUITE(cuda_stream, Rules)

namespace {

std::unique_ptr<Stream> new_stream(int device = 0) { return cuda_backend()->make_stream({.device = device}).value(); }

Tensor counted(int64_t count, float first = 0) {
  Tensor t = Tensor::empty({count});
  for (int64_t i = 0; i < count; ++i) t.data<float>()[i] = first + static_cast<float>(i % 1000);
  return t;
}

/// The stream comes no further until the gate opens.
struct Gate {
  explicit Gate(Stream& stream) {
    simulated_cuda::launch(cuda::cuda_stream(stream).handle(), [gate = opened.get_future().share()] {
      gate.wait_for(std::chrono::seconds(20));
      return cudaSuccess;
    });
  }
  ~Gate() { open(); }
  void open() {
    if (!std::exchange(is_open, true)) opened.set_value();
  }
  std::promise<void> opened;
  bool is_open = false;
};

/// Nobody asks at once how it went.
void fail_in(Stream& stream, const char* op) {
  auto& cuda = cuda::cuda_stream(stream);
  cuda.begin_op(op);
  simulated_cuda::launch(cuda.handle(), [] { return cudaErrorIllegalAddress; });
}

void run_op(Stream& stream, const char* op) {
  auto& cuda = cuda::cuda_stream(stream);
  cuda.begin_op(op);
  simulated_cuda::launch(cuda.handle(), [] { return cudaSuccess; });
  cuda.launched(op);
}

}  // namespace

// CUDA keeps "not ready" as the thread's last error, which is what a launch asks for.
BOOST_AUTO_TEST_CASE(AnOpAfterACopyThatIsUnderWayIsNoFailure) {
  const auto stream = new_stream();
  Tensor device = stream->empty({1000});
  const Tensor pinned = empty_on_host(*cuda_backend(), {1000});
  {
    Gate gate(*stream);
    stream->copy(pinned, device);
    stream->copy(pinned, device);  // looks whether the first has passed
    BOOST_CHECK_NO_THROW(run_op(*stream, "relu"));
    gate.open();
  }
  BOOST_TEST(stream->wait().has_value());
}

// More than a staging block, from memory that goes at once, and to memory that nobody but the copy holds.
BOOST_AUTO_TEST_CASE(CopiesOfPageableMemoryGoThroughPinnedBlocks) {
  const auto stream = new_stream();
  constexpr int64_t kCount = (int64_t{9} << 20) / 4 + 7;
  Tensor device = stream->empty({kCount});
  {
    Tensor host = counted(kCount);
    stream->copy(host, device);
    for (float& x : host.span<float>()) x = -1;
  }
  const Tensor back = to_host(*stream, device);
  const Tensor expected = counted(kCount);
  BOOST_TEST(std::memcmp(back.raw(), expected.raw(), back.bytes()) == 0);
}

BOOST_AUTO_TEST_CASE(WhatACopyUsesIsKeptUntilItHasRun) {
  const auto stream = new_stream();
  Tensor device = stream->empty({1000});
  {
    Gate gate(*stream);
    Tensor pinned = empty_on_host(*cuda_backend(), {1000});
    std::ranges::fill(pinned.span<float>(), 5.0f);
    stream->copy(pinned, device);
    pinned = {};
    Tensor next = empty_on_host(*cuda_backend(), {1000});  // of the same size: the cache's next
    std::ranges::fill(next.span<float>(), 6.0f);
    gate.open();
  }
  BOOST_TEST(to_host(*stream, device).data<float>()[999] == 5.0f);
}

BOOST_AUTO_TEST_CASE(OneStreamWaitsForAnotherAndNoThreadDoes) {
  const auto first = new_stream(), second = new_stream();
  Tensor values = first->empty({100}), sum = second->empty({1}, DType::f64);
  const ops::Ops& ops = cuda_backend()->ops();
  {
    Gate gate(*first);
    ops.fill(*first, 3, values);
    cuda_backend()->order(*first, *second);
    ops.sum(*second, values, sum);
    gate.open();
  }
  BOOST_TEST(to_host(*second, sum).data<double>()[0] == 300);
}

BOOST_AUTO_TEST_CASE(AFailureIsToldWithTheOpAtFault) {
  const auto stream = new_stream();
  run_op(*stream, "gemm");
  BOOST_TEST_REQUIRE(stream->wait().has_value());  // gemm has run
  fail_in(*stream, "embedding");
  const Status status = stream->wait();
  BOOST_TEST_REQUIRE(!status.has_value());
  BOOST_TEST(status.error().message ==
             "CUDA device 0 failed with cudaErrorIllegalAddress (700): an illegal memory access was encountered; "
             "the op at fault is embedding");
}

// What a callback has heard the end of is not at fault; what was submitted after it is not told by it.
BOOST_AUTO_TEST_CASE(CallbacksNarrowDownWhoIsAtFault) {
  const auto compute = new_stream(), copies = new_stream();
  std::promise<Status> well, failed;
  run_op(*compute, "gemm");
  cuda_backend()->order(*compute, *copies);
  copies->then([&](Status status) { well.set_value(std::move(status)); });
  BOOST_TEST(well.get_future().get().has_value());
  run_op(*compute, "bias_gradient");
  {
    Gate gate(*compute);
    fail_in(*compute, "softmax");
    cuda_backend()->order(*compute, *copies);
    copies->then([&](Status status) { failed.set_value(std::move(status)); });
    gate.open();
  }
  const Status status = failed.get_future().get();
  BOOST_TEST_REQUIRE(!status.has_value());
  BOOST_TEST(status.error().message.find("at fault is an op that was under way: bias_gradient or softmax (") !=
                 std::string::npos,
             status.error().message);
}

BOOST_AUTO_TEST_CASE(AFailureThatALaunchMeetsIsThrownWithIt) {
  const auto stream = new_stream();
  fail_in(*stream, "gather");
  static_cast<void>(stream->wait());
  BOOST_CHECK_EXCEPTION(run_op(*stream, "relu"), std::runtime_error, [](const std::runtime_error& e) {
    const std::string text = e.what();
    return text.find("cudaErrorIllegalAddress") != std::string::npos && text.find("gather") != std::string::npos;
  });
}

BOOST_AUTO_TEST_CASE(MissingMemoryIsToldWithWhatWasAskedForAndWhatIsFree) {
  const auto stream = new_stream();
  simulated_cuda::set_memory(size_t{64} << 20);
  BOOST_CHECK_EXCEPTION(stream->empty({int64_t{32} << 20}), std::bad_alloc, [](const std::bad_alloc& e) {
    return std::string(e.what()) ==
           "134217728 bytes (128 MiB) are asked for, and 64 MiB of 64 MiB are free on CUDA device 0, 0 MiB are held by "
           "this stream; smaller batches need less";
  });
  BOOST_CHECK_NO_THROW(run_op(*stream, "relu"));  // which is forgotten
  BOOST_CHECK_NO_THROW(stream->empty({1000}));
}

BOOST_AUTO_TEST_CASE(ADeviceThatHasFailedIsNotSaidToLackMemory) {
  const auto stream = new_stream();
  fail_in(*stream, "conv");
  static_cast<void>(stream->wait());
  BOOST_CHECK_EXCEPTION(stream->empty({1000}), std::runtime_error, [](const std::runtime_error& e) {
    return std::string(e.what()).find("the op at fault is conv") != std::string::npos;
  });
}

BOOST_AUTO_TEST_CASE(FreedMemoryIsGivenBackBeforeAnythingIsSaidToLack) {
  const auto stream = new_stream();
  simulated_cuda::set_memory(size_t{64} << 20);
  stream->empty({int64_t{12} << 20});  // 48 MiB, which the cache keeps
  BOOST_CHECK_NO_THROW(stream->empty({int64_t{10} << 20}));
}

BOOST_AUTO_TEST_CASE(ACaptureIsReplayedAndItsRefusalIsNoFailureOfWhatFollows) {
  const auto backend = cuda_backend();
  const auto stream = new_stream();
  Tensor values = stream->empty({10});
  const ops::Ops& ops = backend->ops();
  ops.fill(*stream, 1, values);
  std::shared_ptr<BlockCache> memory;
  BOOST_TEST_REQUIRE(backend->begin_capture(*stream, memory).has_value());
  ops.scale(*stream, 2, values);
  BOOST_CHECK_EXCEPTION(stream->copy(Tensor::zeros({10}), values), std::runtime_error, [](const std::exception& e) {
    return std::string(e.what()).find("cannot be captured") != std::string::npos;
  });
  const auto graph = backend->end_capture(*stream);
  BOOST_TEST_REQUIRE(graph.has_value());
  for (int round = 0; round < 3; ++round) BOOST_TEST(backend->replay(**graph, *stream).has_value());
  BOOST_TEST(to_host(*stream, values).data<float>()[9] == 8);

  simulated_cuda::refuse_graphs(true);
  BOOST_TEST_REQUIRE(backend->begin_capture(*stream, memory).has_value());
  ops.scale(*stream, 2, values);
  BOOST_TEST(!backend->end_capture(*stream).has_value());
  BOOST_CHECK_NO_THROW(ops.scale(*stream, 3, values));
  BOOST_TEST(to_host(*stream, values).data<float>()[9] == 24);
}

BOOST_AUTO_TEST_CASE(ADeviceThatIsNotThereIsRefused) {
  const auto made = cuda_backend()->make_stream({.device = 3});
  BOOST_TEST_REQUIRE(!made.has_value());
  BOOST_TEST(made.error().message == "CUDA device 3 is asked for; there are 3 (0 to 2)");
}

BOOST_AUTO_TEST_CASE(StreamsOfSeveralDevicesAreUsedFromOneThread) {
  const auto first = new_stream(0), second = new_stream(2);
  run_op(*first, "relu");
  run_op(*second, "relu");
  run_op(*first, "relu");
  BOOST_TEST((first->wait() && second->wait()));
}

BOOST_AUTO_TEST_SUITE_END()
