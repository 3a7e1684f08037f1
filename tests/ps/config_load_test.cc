#include <boost/test/unit_test.hpp>

#include <troupe/ps/config/load.h>
#include <troupe/ps/config/resolved.h>
#include <troupe/ps/config/setting.h>

using namespace troupe;
using namespace troupe::ps;

namespace {

Result<LoadedConfig> load(const std::string& text, std::vector<std::string> overrides = {},
                          std::map<std::string, std::string> environment = {}) {
  return load_config({"x.toml", text, std::move(environment), std::move(overrides)});
}

/// The error's text, or a text that no test expects.
std::string error_of(const std::string& text, std::vector<std::string> overrides = {},
                     std::map<std::string, std::string> environment = {}) {
  const auto loaded = load(text, std::move(overrides), std::move(environment));
  return loaded ? "(no error)" : loaded.error().message;
}

RunConfig config_of(const std::string& text, std::vector<std::string> overrides = {},
                    std::map<std::string, std::string> environment = {}) {
  const auto loaded = load(text, std::move(overrides), std::move(environment));
  BOOST_REQUIRE_MESSAGE(loaded.has_value(), (loaded ? "" : loaded.error().message));
  return loaded->config;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(config_load)

BOOST_AUTO_TEST_CASE(AnIntegerThatNoDoubleHoldsIsRoundedInAListOfNumbers) {
  const RunConfig config = config_of("data.mean = [0.5, 9007199254740993]");
  BOOST_TEST(config.data.mean == (std::vector<double>{0.5, 9007199254740992}));
}

BOOST_AUTO_TEST_CASE(SharesThatWouldOverflowTheirSumAreRefused) {
  const std::string error = error_of("parallel.worker_batch = [9223372036854775807, 9223372036854775807]");
  BOOST_TEST(error.find("every entry must be") != std::string::npos, error);
}

BOOST_AUTO_TEST_CASE(AnEmptyFileGivesTheDefaults) {
  const RunConfig config = config_of("");
  BOOST_TEST(config.train.batch_size == RunConfig{}.train.batch_size);
  BOOST_TEST(config.update.size() == 1u);
}

BOOST_AUTO_TEST_CASE(AFileSetsValuesOfEveryType) {
  const RunConfig config = config_of(R"(
[run]
name = "try-1"
[model]
hidden = [32, 16]
layer_norm = true
[data]
mean = [0.5, 1]
std = 0.25
[train]
epochs = 3
on_nonfinite = "skip"
[optimizer]
learning_rate = 1
)");
  BOOST_TEST(config.run.name == "try-1");
  BOOST_TEST(config.model.hidden == (std::vector<int64_t>{32, 16}));
  BOOST_TEST(config.model.layer_norm);
  BOOST_TEST(config.data.mean == (std::vector<double>{0.5, 1}));
  BOOST_TEST(config.data.std == (std::vector<double>{0.25}));
  BOOST_TEST(config.train.epochs == 3);
  BOOST_TEST((config.train.on_nonfinite == NonFinite::skip));
  BOOST_TEST(config.optimizer.learning_rate == 1.0);
}

BOOST_AUTO_TEST_CASE(UpdateTablesKeepTheirOrder) {
  const RunConfig config = config_of(R"(
[[update]]
layers = "fc1"
mode = "ssp"
staleness = 2
[[update]]
mode = "all_reduce"
)");
  BOOST_REQUIRE(config.update.size() == 2u);
  BOOST_TEST(config.update[0].layers == "fc1");
  BOOST_TEST((config.update[0].policy == Policy{Mode::ssp, 2}));
  BOOST_TEST(config.update[1].layers == "*");
  BOOST_TEST((config.update[1].policy == Policy{Mode::all_reduce, 0}));
}

BOOST_AUTO_TEST_CASE(UpdateTablesSayFromWhichStepTheyDecide) {
  const RunConfig config = config_of(R"(
[[update]]
mode = "async"
from_step = 200
[[update]]
layers = "fc1"
mode = "sync"
[[update]]
mode = "all_reduce"
)");
  const auto changes = rules_by_step(config.update);
  BOOST_REQUIRE(changes.size() == 2u);
  BOOST_TEST(changes[0].step == 0);
  BOOST_REQUIRE(changes[0].rules.size() == 2u);
  BOOST_TEST((changes[0].rules[1].policy.mode == Mode::all_reduce));
  BOOST_TEST(changes[1].step == 200);
  BOOST_TEST((changes[1].rules[0].policy.mode == Mode::async));
  BOOST_TEST(resolved_toml(config).find("mode = \"async\"\nfrom_step = 200\n") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(TheRulesOfTheFirstStepAreNeeded) {
  BOOST_TEST(
      error_of("[[update]]\nfrom_step = 5\n") ==
      "no [[update]] table says how the run begins: the first one has from_step = 5: add tables without from_step");
  BOOST_TEST(error_of("[[update]]\nfrom_step = -1\n").find("must be 0 or more") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(AGeneralRuleHidesOnlyThoseOfItsStep) {
  config_of("[[update]]\n[[update]]\nlayers=\"fc1\"\nfrom_step = 5\n[[update]]\nfrom_step = 5\n");
  BOOST_TEST(error_of("[[update]]\n[[update]]\nfrom_step = 5\n[[update]]\nlayers=\"fc1\"\n")
                 .find("[[update]] table 3 (x.toml:5) never applies") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(ModeNamesFollowTheEnum) {
  const auto& choices = find_setting("update.mode")->choices;
  for (size_t i = 0; i < choices.size(); ++i)
    BOOST_TEST((config_of("", {std::string("update.mode=") + choices[i], "update.staleness=1"}).update[0].policy.mode ==
                static_cast<Mode>(i)),
               choices[i]);
}

BOOST_AUTO_TEST_CASE(TheEnvironmentOverridesTheFile) {
  const auto loaded = load("train.epochs = 3", {}, {{"TROUPE_TRAIN__EPOCHS", "4"}, {"HOME", "/"}});
  BOOST_REQUIRE(loaded.has_value());
  BOOST_TEST(loaded->config.train.epochs == 4);
  BOOST_TEST(loaded->sources.of("train.epochs") == "environment (TROUPE_TRAIN__EPOCHS)");
}

BOOST_AUTO_TEST_CASE(TheCommandLineOverridesTheEnvironment) {
  const auto loaded = load("train.epochs = 3", {"train.epochs=5"}, {{"TROUPE_TRAIN__EPOCHS", "4"}});
  BOOST_REQUIRE(loaded.has_value());
  BOOST_TEST(loaded->config.train.epochs == 5);
  BOOST_TEST(loaded->sources.of("train.epochs") == "command line");
}

BOOST_AUTO_TEST_CASE(AValueKnowsItsLine) {
  const auto loaded = load("\n[train]\nepochs = 3\n");
  BOOST_REQUIRE(loaded.has_value());
  BOOST_TEST(loaded->sources.of("train.epochs") == "x.toml:3");
  BOOST_TEST(loaded->sources.of("train.seed") == "default");
}

BOOST_AUTO_TEST_CASE(AListOnTheCommandLineNeedsNoBrackets) {
  BOOST_TEST(config_of("", {"model.hidden=32, 16"}).model.hidden == (std::vector<int64_t>{32, 16}));
  BOOST_TEST(config_of("", {"model.hidden=[7]"}).model.hidden == (std::vector<int64_t>{7}));
  BOOST_TEST(config_of("", {"model.hidden=[]"}).model.hidden.empty());
}

BOOST_AUTO_TEST_CASE(OneModeOnTheCommandLineReplacesAllRules) {
  const RunConfig config = config_of("[[update]]\nlayers=\"a\"\n[[update]]\nlayers=\"b\"\n", {"update=async"});
  BOOST_REQUIRE(config.update.size() == 1u);
  BOOST_TEST(config.update[0].layers == "*");
  BOOST_TEST((config.update[0].policy.mode == Mode::async));
}

BOOST_AUTO_TEST_CASE(RulesOnTheCommandLineNameLayers) {
  const RunConfig config = config_of("", {"update=fc[1,2]:ssp(3), *:sync"});
  BOOST_REQUIRE(config.update.size() == 2u);
  BOOST_TEST(config.update[0].layers == "fc[1,2]");
  BOOST_TEST((config.update[0].policy == Policy{Mode::ssp, 3}));
  BOOST_TEST((config.update[1].policy.mode == Mode::sync));
}

BOOST_AUTO_TEST_CASE(SharesOfWorkersSayHowManyThereAre) {
  const RunConfig config = config_of("parallel.worker_batch = [48, 16]");
  BOOST_TEST(config.parallel.workers == 2);
  BOOST_TEST(config.train.batch_size == 64);
}

BOOST_AUTO_TEST_CASE(EqualSharesAddUpToTheBatch) {
  BOOST_TEST(worker_batches(config_of("train.batch_size = 10\nparallel.workers = 4")) ==
             (std::vector<int64_t>{3, 3, 2, 2}));
}

BOOST_AUTO_TEST_CASE(TheResolvedConfigLoadsToItself) {
  const RunConfig config = config_of(R"(
data.path = "C:\\data \"here\""
optimizer = {learning_rate = 0.1, name = "adam", epsilon = 1e-12}
train.seed = 9007199254740993
[[update]]
layers = "fc1"
mode = "ssp"
staleness = 0
[[update]]
mode = "async"
)");
  const std::string text = resolved_toml(config);
  BOOST_TEST(resolved_toml(config_of(text)) == text);
  BOOST_TEST(config_of(text).train.seed == 9007199254740993);
  BOOST_TEST(load(text)->warnings.empty());  // it gives every key, also those without effect
}

BOOST_AUTO_TEST_CASE(ResolvedLinesSayWhereTheirValueComesFrom) {
  const auto loaded = load("[train]\nepochs = 3\n", {"train.seed=7"});
  BOOST_REQUIRE(loaded.has_value());
  const std::string text = resolved_toml(loaded->config, &loaded->sources);
  BOOST_TEST(text.find("epochs = 3                                  # x.toml:2\n") != std::string::npos);
  BOOST_TEST(text.find("seed = 7                                    # command line\n") != std::string::npos);
}

// ---- mistakes
// ----------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(AMisspelledKeyIsNamedWithItsNearest) {
  BOOST_TEST(error_of("[train]\nepoch = 3\n") == "x.toml:2:1: unknown key train.epoch; did you mean train.epochs?");
}

BOOST_AUTO_TEST_CASE(AKeyInTheWrongTableIsFound) {
  BOOST_TEST(error_of("epochs = 3\n") == "x.toml:1:1: unknown key epochs; did you mean train.epochs?");
}

BOOST_AUTO_TEST_CASE(AMisspelledTableIsNamedOnce) {
  BOOST_TEST(error_of("[trian]\nepochs = 3\nseed = 1\n") == "x.toml:1:2: unknown table [trian]; did you mean [train]?");
}

BOOST_AUTO_TEST_CASE(ATableIsNoSetting) {
  BOOST_TEST(error_of("train = 3") == "x.toml:1:1: train is a table of settings: set one of them, as in train.epochs");
}

BOOST_AUTO_TEST_CASE(ASingleUpdateTableIsExplained) {
  BOOST_TEST(error_of("[update]\nmode = \"sync\"\n") == "x.toml:1:2: [update] is a list of tables: write [[update]]");
}

BOOST_AUTO_TEST_CASE(AWrongTypeIsNamedWithItsPlace) {
  BOOST_TEST(error_of("[train]\nepochs = \"five\"\n") ==
             "x.toml:2:10: train.epochs = \"five\": takes an integer, not a text");
  BOOST_TEST(error_of("train.epochs = 1.5") == "x.toml:1:16: train.epochs = 1.5: takes an integer, not a number");
}

BOOST_AUTO_TEST_CASE(AValueOutOfRangeIsNamedWithItsRange) {
  BOOST_TEST(error_of("parallel.workers = 0") == "x.toml:1:20: parallel.workers = 0: must be from 1 to 65536");
  BOOST_TEST(error_of("optimizer.momentum = 1.0") ==
             "x.toml:1:22: optimizer.momentum = 1.0: must be at least 0 and below 1");
  BOOST_TEST(error_of("model.hidden = [8, 0]") ==
             "x.toml:1:16: model.hidden = [8, 0]: every entry must be 1 or more, 0 is not");
}

BOOST_AUTO_TEST_CASE(InfinityIsNoNumberToTrainWith) {
  BOOST_TEST(error_of("data.mean = inf") == "x.toml:1:13: data.mean = inf: every entry must be finite, inf is not");
  BOOST_TEST(error_of("optimizer.learning_rate = nan") ==
             "x.toml:1:27: optimizer.learning_rate = nan: must be 0 or more");
}

BOOST_AUTO_TEST_CASE(AnUnknownChoiceListsTheChoices) {
  BOOST_TEST(error_of("update = [{mode = \"bsp\"}]") ==
             "x.toml:1:19: update.mode = \"bsp\": must be one of all_reduce, sync, ssp, async");
}

BOOST_AUTO_TEST_CASE(ALetterBeyondAsciiOutsideOfAStringIsASyntaxErrorWithItsPlace) {
  BOOST_TEST(error_of("# caf\xC3\xA9\n[train]\nepochs = \xC6\x9A""3\n") ==
             "x.toml:3:10: not valid TOML: a letter beyond ASCII, which may only stand in strings and comments");
  BOOST_TEST(error_of("[run]\nname = \"caf\xC3\xA9\" # \xC3\xA9\n").find("ASCII") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(AValueOfTheCommandLineThatIsNotUtf8IsRefused) {
  for (const char* name : {"\xC6", "\xC0\x80", "\xED\xA0\x80", "\xF5\x80\x80\x80", "a\x80"})
    BOOST_TEST(error_of("", {std::string("run.name=") + name}) == "command line: run.name: is not UTF-8 text");
  BOOST_TEST(error_of("", {"run.name=caf\xC3\xA9"}).find("UTF-8") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(ATableWithoutANameIsASyntaxErrorWithItsPlace) {
  const std::string error = error_of("[\nepochs = 3]\n");
  BOOST_TEST(error.starts_with("x.toml:1:2: not valid TOML: "), error);
}

BOOST_AUTO_TEST_CASE(AKeySetTwiceIsASyntaxErrorWithItsPlace) {
  const std::string error = error_of("[train]\nepochs = 3\nepochs = 4\n");
  BOOST_TEST(error.starts_with("x.toml:3:"), error);
  BOOST_TEST(error.find("epochs") != std::string::npos, error);
}

BOOST_AUTO_TEST_CASE(ASyntaxErrorHasItsPlace) {
  const std::string error = error_of("[train]\nepochs = \n");
  BOOST_TEST(error.starts_with("x.toml:2:"), error);
  BOOST_TEST(error.find("not valid TOML") != std::string::npos, error);
}

BOOST_AUTO_TEST_CASE(AllProblemsAreReportedTogether) {
  BOOST_TEST(error_of("[train]\nepoch = 3\nseed = -1\n", {"run.nam=x"}) ==
             "x.toml:2:1: unknown key train.epoch; did you mean train.epochs?\n"
             "x.toml:3:8: train.seed = -1: must be 0 or more\n"
             "command line: unknown key run.nam; did you mean run.name?");
}

BOOST_AUTO_TEST_CASE(AnOverrideWithoutValueIsExplained) {
  BOOST_TEST(error_of("", {"train.epochs"}) ==
             "command line: --set train.epochs: expected KEY=VALUE, as in --set train.epochs=3");
}

BOOST_AUTO_TEST_CASE(AMisspelledVariableIsNamedWithItsNearest) {
  BOOST_TEST(error_of("", {}, {{"TROUPE_TRAIN__EPOCH", "3"}}) ==
             "environment (TROUPE_TRAIN__EPOCH): unknown key train.epoch; did you mean TROUPE_TRAIN__EPOCHS?");
  BOOST_TEST(error_of("", {}, {{"TROUPE_TRAIN_EPOCHS", "3"}}) ==
             "environment (TROUPE_TRAIN_EPOCHS): unknown; did you mean TROUPE_TRAIN__EPOCHS?");
}

BOOST_AUTO_TEST_CASE(OneFieldOfSeveralRulesCannotBeOverridden) {
  BOOST_TEST(error_of("[[update]]\nlayers=\"a\"\n[[update]]\nlayers=\"b\"\n", {"update.mode=async"}) ==
             "command line: update.mode: there are 2 [[update]] tables; set all of them, as in "
             "update=fc1:sync,*:ssp(2)");
}

BOOST_AUTO_TEST_CASE(SspOnTheCommandLineNeedsItsBound) {
  BOOST_TEST(error_of("", {"update=ssp"}) ==
             "command line: update = \"ssp\": ssp, and only ssp, takes a staleness: ssp(2)");
}

BOOST_AUTO_TEST_CASE(AMissingFileIsNamed) {
  const auto loaded = load_config_file("/nowhere/x.toml");
  BOOST_REQUIRE(!loaded.has_value());
  BOOST_TEST(loaded.error().message == "/nowhere/x.toml: cannot read the config file: No such file or directory");
}

BOOST_AUTO_TEST_CASE(AFolderIsNoConfig) {
  const auto loaded = load_config_file("/tmp");
  BOOST_REQUIRE(!loaded.has_value());
  BOOST_TEST(loaded.error().message == "/tmp: is a folder; name a TOML file");
}

BOOST_AUTO_TEST_CASE(ProcessesAgreeOnWhatIsTheRunsAndOnNothingElse) {
  const std::string same = config_hash(config_of(""));
  for (const char* own : {"metrics.listen=127.0.0.1:9464", "run.name=other", "metrics.every_steps=3",
                          "network.shared_memory=false", "network.queue_bytes=2000000",
                          "metrics.trace_folder=/tmp", "network.start_timeout_s=5",
                          "checkpoint.log_folder=/fast"})
    BOOST_TEST(config_hash(config_of("", {own})) == same, own);
  for (const char* other : {"train.epochs=7", "optimizer.momentum=0.5", "update=async", "elastic.on_loss=fail",
                            "checkpoint.durability=logged", "network.lease_ms=500", "debug.slow_ms=1"})
    BOOST_TEST(config_hash(config_of("", {other})) != same, other);
}

BOOST_AUTO_TEST_CASE(WhatAProcessHasForItselfItKeeps) {
  const RunConfig own = config_of("", {"network.shared_memory=false", "metrics.trace_folder=/fast \"disk\"",
                                       "metrics.listen=127.0.0.1:1", "train.epochs=9"});
  RunConfig run = config_of("", {"network.queue_bytes=2000000", "metrics.trace_folder=/slow", "train.epochs=2"});
  keep_own(run, own);
  BOOST_TEST(!run.network.shared_memory);
  BOOST_TEST(run.network.queue_bytes == 2000000);  // the run's, where it says nothing of its own
  BOOST_TEST(run.metrics.trace_folder == "/fast \"disk\"");
  BOOST_TEST(run.metrics.listen == "");
  BOOST_TEST(run.train.epochs == 2);
}

BOOST_AUTO_TEST_SUITE_END()
