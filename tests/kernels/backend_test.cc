#include <boost/test/unit_test.hpp>

#include <fstream>

#include <tests/support/temp_folder.h>
#include <troupe/kernels/backend/internal/module.h>

using namespace troupe;

namespace {

std::string failure(const std::vector<std::string>& paths) {
  const auto loaded = load_module(paths);
  return loaded ? "it was loaded" : loaded.error().message;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_SUITE(backend)

BOOST_AUTO_TEST_CASE(TheCpuIsAlwaysThereAndAlwaysTheSame) {
  const auto backend = load_backend(DeviceKind::cpu);
  BOOST_TEST_REQUIRE(backend.has_value());
  BOOST_TEST((*backend == load_backend(DeviceKind::cpu).value()));
  BOOST_TEST((*backend)->devices().size() == 1);
  BOOST_TEST(&(*backend)->ops() == &ops::cpu_ops());
  const auto stream = (*backend)->make_stream({.device = 0, .threads = 3});
  BOOST_TEST_REQUIRE(stream.has_value());
  BOOST_TEST((*stream)->threads() == 3);
}

BOOST_AUTO_TEST_CASE(TheCpuHasNoSecondDevice) {
  Backend& cpu = *load_backend(DeviceKind::cpu).value();
  const auto stream = cpu.make_stream({.device = 1});
  BOOST_TEST_REQUIRE(!stream.has_value());
  BOOST_TEST(has(stream.error().message, "there is only 0"));
  const std::vector<int> devices{0, 2};
  BOOST_TEST((cpu.make_group(devices).error().kind == ErrorKind::invalid));
  BOOST_TEST((cpu.make_group({}).error().kind == ErrorKind::invalid));
}

BOOST_AUTO_TEST_CASE(AModuleThatIsNotThereIsToldWithAllPlacesLookedAt) {
  const std::string text = failure({"/nowhere/libtroupe_none.so", "libtroupe_none.so"});
  BOOST_TEST(has(text, "/nowhere/libtroupe_none.so, libtroupe_none.so"), text);
  BOOST_TEST(has(text, "cannot open shared object file"), text);
}

BOOST_AUTO_TEST_CASE(AFileThatIsNoLibraryIsNotPassedOver) {
  const test::TempFolder folder;
  const std::string path = folder.path() + "/libtroupe_cuda.so";
  std::ofstream(path) << "not a library";
  const std::string text = failure({path, "libm.so.6"});
  BOOST_TEST(has(text, path), text);
  BOOST_TEST(!has(text, "troupe_make_backend"), text);
}

BOOST_AUTO_TEST_CASE(ALibraryThatIsNoBackendIsRefused) {
  const std::string text = failure({"libm.so.6"});
  BOOST_TEST(has(text, "libm.so.6 is no backend of Troupe"), text);
}

BOOST_AUTO_TEST_CASE(CudaLoadsOrSaysWhatIsMissing) {
  const auto cuda = load_backend(DeviceKind::cuda);
  if (cuda) {
    BOOST_TEST((*cuda)->devices().size() >= 1);
    BOOST_TEST(!(*cuda)->devices()[0].name.empty());
    return;
  }
  const std::string& text = cuda.error().message;
  BOOST_TEST((cuda.error().kind == ErrorKind::missing));
  BOOST_TEST(has(text, "no CUDA device can be used"), text);
  BOOST_TEST((has(text, "libtroupe_cuda.so") || has(text, "driver") || has(text, "nvidia-smi")), text);
}

#ifdef TROUPE_CUDA_MODULE
BOOST_AUTO_TEST_CASE(TheModuleThatWasBuiltLoadsWithAllItsLibraries) {
  const auto cuda = load_module({TROUPE_CUDA_MODULE});
  if (cuda) return;
  // Only a driver or a device may be missing: those the module itself told about.
  BOOST_TEST(!has(cuda.error().message, "could not be loaded"), cuda.error().message);
  BOOST_TEST(has(cuda.error().message, "runtime"), cuda.error().message);
}
#endif

BOOST_AUTO_TEST_SUITE_END()
