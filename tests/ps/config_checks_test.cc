#include <boost/test/unit_test.hpp>

#include <troupe/kernels/nn/make_model.h>
#include <troupe/ps/config/checks.h>

using namespace troupe;
using namespace troupe::ps;

namespace {

std::string error_of(const std::string& text) {
  const auto loaded = load_config({"x.toml", text, {}, {}});
  return loaded ? "(no error)" : loaded.error().message;
}

std::string warning_of(const std::string& text) {
  const auto loaded = load_config({"x.toml", text, {}, {}});
  if (!loaded) return loaded.error().message;
  return loaded->warnings.empty() ? "(no warning)" : loaded->warnings[0];
}

}  // namespace

BOOST_AUTO_TEST_SUITE(config_checks)

BOOST_AUTO_TEST_CASE(ARunsNameStaysInsideItsFolder) {
  BOOST_TEST(error_of("run.name = \"../x\"") ==
             "run.name = \"../x\" (x.toml:1): names a folder: use up to 100 letters, digits, '-', '_' and '.', not "
             "'.' first");
}

BOOST_AUTO_TEST_CASE(SharesMustAddUpToTheBatch) {
  BOOST_TEST(error_of("train.batch_size = 64\nparallel.worker_batch = [32, 16]") ==
             "parallel.worker_batch = [32, 16] (x.toml:2) adds up to 48, but train.batch_size = 64 (x.toml:1): "
             "change one of them, or leave train.batch_size out");
}

BOOST_AUTO_TEST_CASE(ThereIsOneShareAWorker) {
  BOOST_TEST(error_of("parallel.workers = 3\nparallel.worker_batch = [32, 16]") ==
             "parallel.worker_batch = [32, 16] (x.toml:2) has 2 entries, but parallel.workers = 3 "
             "(x.toml:1): give one "
             "entry a worker");
}

BOOST_AUTO_TEST_CASE(EveryWorkerGetsASample) {
  BOOST_TEST(error_of("train.batch_size = 2\nparallel.workers = 3") ==
             "train.batch_size = 2 (x.toml:1) leaves some of the workers without a sample, parallel.workers = 3 "
             "(x.toml:2): use a batch of at least 3 or fewer workers");
}

BOOST_AUTO_TEST_CASE(ARunHasAnEnd) {
  BOOST_TEST(error_of("train.epochs = 0") ==
             "train.epochs = 0 (x.toml:1) and train.max_steps = 0 (default) leave nothing to do: set one of them");
}

BOOST_AUTO_TEST_CASE(BucketsWithoutAnAllReducedLayerHaveNoEffect) {
  BOOST_TEST(warning_of("parallel.bucket_bytes = 4096") ==
             "parallel.bucket_bytes = 4096 (x.toml:1) has no effect: no layer is all-reduced");
  BOOST_TEST(warning_of("parallel.bucket_bytes = 4096\n[[update]]\nmode = \"all_reduce\"") == "(no warning)");
}

BOOST_AUTO_TEST_CASE(ATraceDoesNotEndBeforeItBegins) {
  BOOST_TEST(error_of("metrics.trace = true\nmetrics.trace_first_step = 20\nmetrics.trace_last_step = 10") ==
             "metrics.trace_last_step = 10 (x.toml:3) comes before metrics.trace_first_step = 20 (x.toml:2): the trace "
             "would be empty");
}

BOOST_AUTO_TEST_CASE(MomentumWithAdamHasNoEffect) {
  BOOST_TEST(warning_of("optimizer.name = \"adam\"\noptimizer.momentum = 0.9") ==
             "optimizer.momentum = 0.9 (x.toml:2) has no effect with optimizer.name = \"adam\" (x.toml:1)");
}

BOOST_AUTO_TEST_CASE(NesterovNeedsMomentum) {
  BOOST_TEST(error_of("optimizer.nesterov = true") ==
             "optimizer.nesterov = true (x.toml:1) looks ahead along a momentum, but optimizer.momentum = 0.0 "
             "(default)");
}

BOOST_AUTO_TEST_CASE(AStepScheduleNeedsItsSteps) {
  BOOST_TEST(error_of("optimizer.schedule = \"step\"") ==
             "optimizer.schedule = \"step\" (x.toml:1) needs optimizer.step_size, the steps between two changes; "
             "optimizer.step_size = 0 (default)");
}

BOOST_AUTO_TEST_CASE(CosineTakesItsLengthFromTheRun) {
  const auto loaded = load_config({"x.toml", "optimizer.schedule = \"cosine\"", {}, {}});
  BOOST_REQUIRE(loaded.has_value());
  BOOST_TEST(optimizer_options(loaded->config, 700).total_steps == 700);
}

BOOST_AUTO_TEST_CASE(SspNeedsItsBound) {
  BOOST_TEST(error_of("[[update]]\nlayers = \"fc1\"\nmode = \"ssp\"") ==
             "[[update]] table 1 (x.toml:2): mode ssp needs staleness, the steps by which a read may lag, as in "
             "staleness = 2");
}

BOOST_AUTO_TEST_CASE(AnUnreachableRuleIsRefused) {
  BOOST_TEST(error_of("[[update]]\nlayers = \"*\"\n[[update]]\nlayers = \"fc1\"") ==
             "[[update]] table 1 (x.toml:2): layers = \"*\" matches every layer, so that [[update]] table 2 "
             "(x.toml:4) never applies: put the general table last");
}

BOOST_AUTO_TEST_CASE(ABoundOutsideSspHasNoEffect) {
  BOOST_TEST(warning_of("[[update]]\nlayers = \"*\"\nmode = \"async\"\nstaleness = 3") ==
             "[[update]] table 1 (x.toml:2): staleness = 3 has no effect: only mode ssp has a bound");
}

BOOST_AUTO_TEST_CASE(TheSlowWorkerIsOneOfThem) {
  BOOST_TEST(error_of("debug.slow_worker = 2\nparallel.workers = 2\ndebug.slow_ms = 5") ==
             "debug.slow_worker = 2 (x.toml:1) is not one of the workers, which count from 0; parallel.workers = 2 "
             "(x.toml:2)");
}

BOOST_AUTO_TEST_CASE(AConvolutionalNetNeedsChannels) {
  BOOST_TEST(error_of("model.kind = \"cnn\"") ==
             "model.kind = \"cnn\" (x.toml:1) needs model.channels, as in channels = [32, 64]; model.channels = [] "
             "(default)");
}

BOOST_AUTO_TEST_CASE(ATransformerAndTextNeedEachOther) {
  BOOST_TEST(error_of("model.kind = \"gpt\"") ==
             "model.kind = \"gpt\" (x.toml:1) and data.format = \"idx\" (default) do not fit: gpt is for text and "
             "tokens, and they are for gpt alone");
  BOOST_TEST(error_of("model.kind = \"gpt\"\ndata.format = \"text\"") ==
             "data.train_text = \"\" (default): name the file to train on, which data.format = \"text\" (x.toml:2) "
             "needs");
}

BOOST_AUTO_TEST_CASE(HeadsShareTheWidthEvenlyAndTurnInPairs) {
  const std::string text = "data = {format = \"text\", train_text = \"t\"}\nmodel = {kind = \"gpt\", ";
  const std::string uneven = error_of(text + "heads = 3}");
  BOOST_TEST(uneven.find("model.width = 128 (default) cannot be shared evenly by model.heads = 3") == 0u, uneven);
  BOOST_TEST(error_of(text + "width = 12, heads = 4, positions = \"rotary\"}").find("heads of 3 numbers") !=
             std::string::npos);
  BOOST_TEST(error_of(text + "width = 12, heads = 4}") == "(no error)");
}

BOOST_AUTO_TEST_CASE(SettingsOfATransformerHaveNoEffectElsewhere) {
  BOOST_TEST(warning_of("model.heads = 2") ==
             "model.heads = 2 (x.toml:1) has no effect with model.kind = \"mlp\" (default)");
}

BOOST_AUTO_TEST_CASE(EveryKindOfModelIsBuiltWithTheDefaultsOfTheOthersSettings) {
  for (const char* kind : {"mlp", "cnn", "resnet"}) {
    const std::string text = cat("model = {kind = \"", kind, "\", channels = [4], blocks = [1]}");
    const auto loaded = load_config({"x.toml", text, {}, {}});
    BOOST_REQUIRE_MESSAGE(loaded.has_value(), (loaded ? "" : loaded.error().message));
    const auto model = nn::make_model(model_spec(loaded->config, {1, 8, 8}, 10));
    BOOST_TEST(model.has_value(), kind << ": " << (model ? "" : model.error().message));
  }
  const std::string gpt = "model.kind = \"gpt\"\ndata = {format = \"text\", train_text = \"t\"}";
  const auto loaded = load_config({"x.toml", gpt, {}, {}});
  BOOST_REQUIRE(loaded.has_value());
  BOOST_TEST(nn::make_model(model_spec(loaded->config, {128}, 70)).has_value());
}

BOOST_AUTO_TEST_CASE(DropoutOfAResidualNetHasAnEffect) {
  BOOST_TEST(warning_of("model = {kind = \"resnet\", channels = [4], blocks = [1], dropout = 0.5}") == "(no warning)");
}

BOOST_AUTO_TEST_CASE(MoreWorkersThanSamplesAreRefused) {
  const auto loaded = load_config({"x.toml", "parallel.workers = 30", {}, {}});
  BOOST_REQUIRE(loaded.has_value());
  const Status status = check_against_data(loaded->config, loaded->sources, 20);
  BOOST_REQUIRE(!status.has_value());
  BOOST_TEST(status.error().message ==
             "parallel.workers = 30 (x.toml:1) is more than samples: there are 20 training samples in "
             "/usr/share/datasets/fashion-mnist; use fewer workers");
  BOOST_TEST(check_against_data(loaded->config, loaded->sources, 128).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
