#include <tests/ps/checkpoint_fixture.h>

#include <cmath>
#include <limits>

#include <troupe/ps/checkpoint/assemble.h>

#include <tests/support/temp_folder.h>

using namespace troupe;
using namespace troupe::ps;
using namespace troupe::test;

namespace {

std::vector<std::string> bytes_of(const CheckpointFixture& f, const std::string& folder) {
  std::vector<std::string> out;
  for (const std::string& name : kCheckpointFiles) out.push_back(f.disk->bytes(join_path(folder, name)));
  return out;
}

Status verified(const CheckpointFixture& f, const std::string& folder) {
  const auto checkpoint = Checkpoint::open_verified(f.disk, folder);
  if (!checkpoint) return tl::unexpected(checkpoint.error());
  return {};
}

/// A manifest with one thing changed and a checksum that fits the change.
std::string resealed(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from), seal = text.find(",\n \"checksum\"");
  BOOST_REQUIRE((at < seal && seal != std::string::npos));
  text = text.substr(0, seal).replace(at, from.size(), to);
  Digest digest;
  digest.update(std::as_bytes(std::span(text)));
  digest.update(std::as_bytes(std::span("\n}", 2)));
  return text + ",\n \"checksum\": \"" + digest.hex() + "\"\n}\n";
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(checkpoint, CheckpointFixture)

BOOST_AUTO_TEST_CASE(ACheckpointOfNServersLoadsOnMServers) {
  for (const uint32_t n : {1, 2, 3, 4, 8})
    for (const int64_t cut : {16, 32, 48, 7}) {
      const Layout from = layout(n, cut);
      const auto states = slices(from, 5);
      const auto saved = store(1).save({from, states, 5, {.train_samples = 9}, "adam", state_names, {}});
      BOOST_REQUIRE(saved.has_value());
      const auto search = newest();
      for (const uint32_t m : {1, 2, 3, 4, 8})
        for (const int64_t other : {16, 32, 48, 5}) BOOST_TEST(holds(*search.newest, layout(m, other), 5));
    }
}

BOOST_AUTO_TEST_CASE(FilesDoNotDependOnPlacementOrOnTheOrderOfSlices) {
  const auto one = bytes_of(*this, save(7, 3, 1).folder);
  CheckpointFixture other;
  const Layout l = layout(4, 32);
  auto states = slices(l, 7);
  std::reverse(states.begin(), states.end());
  std::swap(states[0], states[2]);
  const auto saved = other.store().save(
      {l, states, 7, {.train_samples = 100, .begin = 7, .step = 7}, "adam", state_names, {{"loss", 0.1}}});
  BOOST_REQUIRE(saved.has_value());
  BOOST_TEST((bytes_of(other, saved->folder) == one));
}

BOOST_AUTO_TEST_CASE(TheManifestComesBackAsItWas) {
  const Layout l = layout(2, 16);
  auto states = slices(l, 3);
  states[1].updates = 9;  // fc1 [16, 32)
  const DealerState dealer{100, 2, 40, 77, {{1, 90, 10}, {2, 0, 8}}};
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto saved =
      store().save({l, states, 77, dealer, "adam", state_names, {{"loss", 0.123456789012345}, {"bad", nan}}});
  BOOST_REQUIRE(saved.has_value());
  const auto search = newest();
  const Manifest& m = search.newest->manifest();
  BOOST_TEST(m.step == 77);
  BOOST_TEST((m.dealer == dealer));
  BOOST_TEST((m.metrics == std::map<std::string, double>{{"loss", 0.123456789012345}}));
  BOOST_TEST((m.updates[0] == std::vector<UpdateRun>{{16, 3}, {32, 9}, {48, 3}}));
  BOOST_TEST(check_fits(m, layers(), "adam", state_names).has_value());
  BOOST_TEST(search.newest->slice({0, 0, 0, 16, 0})->updates == 3);
  BOOST_TEST(search.newest->slice({0, 0, 0, 48, 0})->updates == 9);
}

BOOST_AUTO_TEST_CASE(AnOptimizerWithoutStateIsSavedToo) {
  state_names.clear();
  save(4);
  BOOST_TEST(newest_step() == 4);
}

BOOST_AUTO_TEST_CASE(PiecesOfARangeAreTheSlicesItTouches) {
  const Layout l = layout(2, 16);
  BOOST_TEST((pieces_of(l, 0, 10, 40) == std::vector<Piece>{{0, 10, 6}, {1, 0, 16}, {2, 0, 8}}));
  BOOST_TEST(pieces_of(l, 0, 16, 16).empty());
}

BOOST_AUTO_TEST_CASE(ASliceMissingDoubledOrOfAnotherSizeIsAnErrorThatNamesIt) {
  const Layout l = layout(2, 16);
  const auto error = [&](std::vector<SliceState> states) {
    const auto saved = store().save({l, states, 1, {}, "adam", state_names, {}});
    return saved ? "no error" : saved.error().message;
  };
  auto missing = slices(l, 1), doubled = missing, small = missing, stateless = missing;
  missing.pop_back();
  doubled.push_back(doubled[1]);
  small[1].values = small[4].values;
  stateless[1].state.pop_back();
  BOOST_TEST(error(missing).find("slice 7 (a_last [32, 33), server 1) is missing") != std::string::npos,
             error(missing));
  BOOST_TEST(error(doubled).find("slice 1 (fc1 [16, 32), server 1) was given twice") != std::string::npos);
  BOOST_TEST(error(small).find("8 values") != std::string::npos);
  BOOST_TEST(error(stateless).find("1 state vectors") != std::string::npos);
  BOOST_TEST(!rubbish());
}

// Ten thousand bits at random, of all three files. No bit is without meaning: even the blanks of the JSON count.
BOOST_AUTO_TEST_CASE(EveryFlippedBitIsFound) {
  const std::string at = save(11).folder;
  Random random(3);
  for (int i = 0; i < 10'000; ++i) {
    std::string& bytes = disk->bytes(join_path(at, kCheckpointFiles[random.below(3)]));
    const size_t byte = random.below(bytes.size());
    const auto mask = static_cast<char>(1 << random.below(8));
    bytes[byte] ^= mask;
    BOOST_TEST(!verified(*this, at).has_value(), "byte " << byte << ", mask " << int{mask});
    bytes[byte] ^= mask;
  }
  BOOST_TEST(verified(*this, at).has_value());
}

BOOST_AUTO_TEST_CASE(AFileCutShortLengthenedOrMissingIsFound) {
  const std::string at = save(11).folder;
  for (const std::string& name : kCheckpointFiles) {
    std::string& bytes = disk->bytes(join_path(at, name));
    const std::string whole = bytes;
    for (size_t length = 0; length < whole.size(); ++length) {
      bytes = whole.substr(0, length);
      BOOST_TEST(!verified(*this, at).has_value(), name << " of " << length);
    }
    bytes = whole + '\0';
    BOOST_TEST(!verified(*this, at).has_value(), name << " lengthened");
    bytes = whole;
    BOOST_TEST(verified(*this, at).has_value());
  }
  for (const std::string& name : kCheckpointFiles) {
    const std::string other = save(11).folder;
    BOOST_TEST(disk->remove_file(join_path(other, name)).has_value());
    BOOST_TEST(verified(*this, other).error().message.find(name) != std::string::npos);
  }
}

// What disks really do: blocks of zeros, bytes of another file, an end that grew.
BOOST_AUTO_TEST_CASE(ARunOfBytesThatChangedOrWasAddedIsFound) {
  const std::string at = save(11).folder;
  Random random(4);
  for (int i = 0; i < 10'000; ++i) {
    std::string& bytes = disk->bytes(join_path(at, kCheckpointFiles[random.below(3)]));
    const std::string whole = bytes;
    const size_t begin = random.below(whole.size() + 1), count = 1 + random.below(64);
    std::string run(count, '\0');
    if (random.chance(0.5))
      for (char& byte : run) byte = static_cast<char>(random.below(256));
    if (random.chance(0.5))
      bytes.insert(begin, run);
    else
      bytes.replace(begin, count, run);
    BOOST_TEST((bytes == whole || !verified(*this, at)), count << " bytes at " << begin);
    bytes = whole;
  }
  BOOST_TEST(verified(*this, at).has_value());
}

BOOST_AUTO_TEST_CASE(TheErrorOfADamagedFileNamesIt) {
  const std::string at = save(11).folder;
  disk->bytes(join_path(at, "parameters.safetensors")).back() ^= 1;
  const std::string error = verified(*this, at).error().message;
  BOOST_TEST(error.find("step-00000011/parameters.safetensors has checksum") != std::string::npos, error);
}

BOOST_AUTO_TEST_CASE(ACheckpointOfAnotherModelOrOptimizerDoesNotFit) {
  save(1);
  const auto search = newest();
  const Manifest& m = search.newest->manifest();
  const auto error = [&](const std::vector<LayerSpec>& l, const std::string& optimizer) {
    const auto fits = check_fits(m, l, optimizer, state_names);
    return fits ? "no error" : fits.error().message;
  };
  auto fewer = layers(), renamed = layers(), reshaped = layers();
  fewer.pop_back();
  renamed[1].name = "bn";
  reshaped[0].params[0].shape = {5, 8};
  BOOST_TEST(error(fewer, "adam").find("3 layers, the model 2") != std::string::npos);
  BOOST_TEST(error(renamed, "adam").find("norm") != std::string::npos);
  BOOST_TEST(error(reshaped, "adam").find("fc1.weight [8, 5]") != std::string::npos, error(reshaped, "adam"));
  BOOST_TEST(error(layers(), "sgd").find("trained with adam") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(AManifestThatWasEditedIsRefused) {
  const std::string text = *to_json(Manifest{});
  BOOST_TEST(parse_manifest(text, "x").has_value());
  for (const std::string& edited : {text + ' ', ' ' + text, resealed(text, "\"step\": 0", "\"step\":  0")})
    BOOST_TEST(parse_manifest(edited, "x").error().message.find("checksum") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(AManifestNestedWithoutEndIsRefused) {
  const std::string deep = "{\"step\": " + std::string(1000000, '[') + std::string(1000000, ']') + "}";
  BOOST_TEST((parse_manifest(deep, "x").error().kind == ErrorKind::corrupt));
}

BOOST_AUTO_TEST_CASE(AManifestOfALaterFormatIsRefusedByItsNumber) {
  const auto m = parse_manifest(resealed(*to_json(Manifest{}), "\"format\": 1", "\"format\": 2"), "x");
  BOOST_REQUIRE(!m.has_value());
  BOOST_TEST(m.error().message.find("format 2") != std::string::npos, m.error().message);
}

BOOST_AUTO_TEST_CASE(ASealedManifestThatMakesNoSenseIsRefused) {
  Manifest m;
  m.layers = layers();
  m.updates = {{{48, 1}}, {{24, 1}}, {{33, 1}}};
  const std::string text = *to_json(m);
  BOOST_TEST(parse_manifest(text, "x").has_value());
  std::string seven_dimensions = "[";
  for (int i = 0; i < 5; ++i) seven_dimensions += "\n      1,";
  seven_dimensions += "\n      8,";
  for (const auto& [from, to] :
       std::vector<std::pair<std::string, std::string>>{{"\"offset\": 40", "\"offset\": 41"},
                                                        {"\"count\": 48", "\"count\": 49"},
                                                        {"[\n      8,", "[\n      -8,"},
                                                        {"[\n      8,", seven_dimensions},
                                                        {"\"bias\"", "\"odd\""},
                                                        {"\"step\": 0", "\"step\": \"0\""},
                                                        {"\"step\": 0", "\"step\": 1e+300"},
                                                        {"\"step\": 0", "\"step\": true"},
                                                        {"\"count\": 48", "\"count\": 18446744073709551615"},
                                                        {"\"optimizer\"", "\"optimiser\""}}) {
    const auto parsed = parse_manifest(resealed(text, from, to), "x");
    BOOST_REQUIRE_MESSAGE(!parsed.has_value(), to);
    BOOST_TEST(parsed.error().message.find("is not a checkpoint's manifest") != std::string::npos,
               parsed.error().message);
  }
}

BOOST_AUTO_TEST_CASE(ASealedManifestThatSpeaksTwiceOfATensorIsRefused) {
  const std::string at = save(11).folder;
  std::string& text = disk->bytes(join_path(at, "manifest.json"));
  text = resealed(text, "\"norm.scale\"", "\"fc1.bias\"");
  const auto checkpoint = verified(*this, at);
  BOOST_REQUIRE(!checkpoint.has_value());
  BOOST_TEST(checkpoint.error().message.find("speaks twice of fc1.bias") != std::string::npos,
             checkpoint.error().message);
}

BOOST_AUTO_TEST_CASE(RealFilesHoldWhatWasSaved) {
  const TempFolder temp;
  const auto files = make_posix_files();
  const Layout l = layout(2, 16);
  const auto states = slices(l, 8);
  CheckpointStore real(files, {temp / "run/checkpoints", 1});
  for (int i = 0; i < 3; ++i) {
    const auto saved = real.save({l, states, 8, {.train_samples = 9}, "adam", state_names, {}});
    BOOST_REQUIRE_MESSAGE(saved.has_value(), (saved ? "" : saved.error().message));
    BOOST_TEST(saved->warning == "");
  }
  BOOST_TEST(files->list(temp / "run/checkpoints")->size() == 1u);
  const auto search = real.newest_valid();
  BOOST_REQUIRE((search && search->newest));
  BOOST_TEST(holds(*search->newest, layout(3, 32), 8));
}

BOOST_AUTO_TEST_CASE(RealFullDisksAndMissingFilesHaveTheirKinds) {
  const auto files = make_posix_files();
  const auto full = files->create("/dev/full");
  BOOST_REQUIRE(full.has_value());
  const std::byte byte{};
  const auto written = (*full)->write({&byte, 1});
  BOOST_REQUIRE(!written.has_value());
  BOOST_TEST((written.error().kind == ErrorKind::exhausted));
  const TempFolder temp;
  BOOST_TEST((files->open(temp / "nothing").error().kind == ErrorKind::missing));
  BOOST_TEST((files->list(temp / "nothing").error().kind == ErrorKind::missing));
  BOOST_TEST((files->open(temp.path()).error().kind == ErrorKind::invalid));
}

BOOST_AUTO_TEST_SUITE_END()
