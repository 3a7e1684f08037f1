#include <boost/test/unit_test.hpp>
#include <filesystem>

#include <troupe/actors/experiment.h>

#include <tests/support/temp_folder.h>

using namespace troupe;
using troupe::test::TempFolder;

BOOST_AUTO_TEST_SUITE(experiment)

namespace {

ps::LoadedConfig config_of(const std::string& update) {
  const std::string text = R"(
data = {format = "synthetic", samples = 512, features = 8, classes = 3}
model.hidden = [8]
train = {epochs = 2, batch_size = 16}
parallel = {workers = 2, servers = 2}
)";
  return ps::load_config({"x.toml", text + update}).value();
}

}  // namespace

BOOST_AUTO_TEST_CASE(UpdateTablesOfALaterStepTakeOverThere) {
  const TempFolder folder;
  const auto config = config_of(R"(
[[update]]
mode = "sync"
[[update]]
layers = "fc1"
mode = "async"
from_step = 20
[[update]]
mode = "all_reduce"
from_step = 20
)");
  auto experiment = Experiment::prepare(config, {.run_dir = folder / "run"}).value();
  const ps::RunSummary summary = experiment->run().value();
  BOOST_TEST(summary.outcome == "finished");
  BOOST_TEST(summary.samples == 1024);
  BOOST_TEST(summary.layers.at(0).policy == "async");
  BOOST_TEST(summary.layers.at(1).policy == "all_reduce");
  const std::string log = folder.read("run/log.txt");
  BOOST_TEST(log.find("step 20: layer fc1 goes from sync to async") != std::string::npos);
  BOOST_TEST(log.find("step 20: layer fc2 goes from sync to all_reduce") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(ALaterStepThatLeavesALayerOutIsAnErrorBeforeARunFolderIsMade) {
  const TempFolder folder;
  const auto config = config_of("[[update]]\n[[update]]\nlayers = \"fc1\"\nfrom_step = 20\n");
  const auto experiment = Experiment::prepare(config, {.run_dir = folder / "run"});
  BOOST_TEST_REQUIRE(!experiment.has_value());
  BOOST_TEST(experiment.error().message.find("from step 20: no [[update]] table matches layer fc2") !=
             std::string::npos);
  BOOST_TEST(!std::filesystem::exists(folder / "run"));
}

BOOST_AUTO_TEST_SUITE_END()
