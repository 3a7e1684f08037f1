#include <boost/test/unit_test.hpp>

#include <troupe/ps/data/cifar.h>

#include <tests/support/temp_folder.h>

using namespace troupe;
using namespace troupe::ps;
using troupe::test::TempFolder;

namespace {

std::string record(const std::string& labels, char first_pixel) {
  return labels + first_pixel + std::string(3071, '\7');
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cifar)

BOOST_AUTO_TEST_CASE(FilesAreReadOneAfterTheOther) {
  const TempFolder folder;
  const auto first = folder.write("1", record("\3", 'a') + record("\4", 'b')),
             second = folder.write("2", record("\5", 'c'));
  const auto samples = read_cifar(Cifar::ten, {first, second});
  BOOST_REQUIRE(samples.has_value());
  BOOST_TEST((samples->values.shape() == Shape{3, 3, 32, 32}));
  BOOST_TEST(samples->labels.span<int32_t>() == (std::vector<int32_t>{3, 4, 5}),
             boost::test_tools::per_element());
  BOOST_TEST(samples->values.data<uint8_t>()[2 * 3072] == 'c');
}

BOOST_AUTO_TEST_CASE(Cifar100TakesTheFineLabel) {
  const TempFolder folder;
  const auto samples = read_cifar(Cifar::hundred, {folder.write("train.bin", record("\1\42", 'a'))});
  BOOST_REQUIRE(samples.has_value());
  BOOST_TEST(samples->labels.data<int32_t>()[0] == 34);
  BOOST_TEST(samples->values.data<uint8_t>()[0] == 'a');
}

BOOST_AUTO_TEST_CASE(AFileThatIsNoWholeNumberOfRecordsIsAnError) {
  const TempFolder folder;
  for (const auto& [name, text] : {std::pair<std::string, std::string>{"short", record("\1", 'a').substr(1)},
                                   {"long", record("\1", 'a') + "x"},
                                   {"empty", ""}}) {
    const auto samples = read_cifar(Cifar::ten, {folder.write(name, text)});
    BOOST_REQUIRE(!samples.has_value());
    const std::string& error = samples.error().message;
    BOOST_TEST(error.find(name) != std::string::npos, error);
    BOOST_TEST(error.find(cat(text.size(), " bytes")) != std::string::npos, error);
  }
}

BOOST_AUTO_TEST_SUITE_END()
