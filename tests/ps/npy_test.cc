#include <boost/test/unit_test.hpp>

#include <troupe/ps/data/npy.h>

#include <tests/support/temp_folder.h>

using namespace troupe;
using namespace troupe::ps;
using troupe::test::TempFolder;

namespace {

template <class T>
std::string raw(std::initializer_list<T> values) {
  return {reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(T)};
}

std::string npy(int version, const std::string& dict, const std::string& data) {
  std::string header = dict;
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::string out = "\x93NUMPY";
  out += static_cast<char>(version);
  out += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) out += static_cast<char>(header.size() >> 8 * i & 255);
  return out + header + data;
}

std::string dict(const std::string& type, const std::string& shape, bool fortran = false) {
  return "{'descr': '" + type + "', 'fortran_order': " + (fortran ? "True" : "False") +
         ", 'shape': " + shape + ", }";
}

struct Fixture {
  TempFolder folder;

  Tensor values(const std::string& bytes) {
    const auto t = read_npy_values(folder.write("x.npy", bytes));
    BOOST_REQUIRE_MESSAGE(t.has_value(), (t ? "" : t.error().message));
    return *t;
  }
  std::string error(const std::string& bytes) {
    const auto t = read_npy_values(folder.write("x.npy", bytes));
    BOOST_TEST(!t.has_value());
    return t ? "no error" : t.error().message;
  }
  bool says(const std::string& bytes, const char* words) {
    const std::string text = error(bytes);
    BOOST_TEST_MESSAGE(text);
    return text.find(words) != std::string::npos && text.find("x.npy") != std::string::npos;
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(npy_files, Fixture)

BOOST_AUTO_TEST_CASE(VersionsOneToThreeAreRead) {
  for (const int version : {1, 2, 3}) {
    const Tensor t = values(npy(version, dict("<f4", "(2, 3)"), raw<float>({1, 2, 3, 4, 5, 6})));
    BOOST_TEST((t.shape() == Shape{2, 3}));
    BOOST_TEST(t.data<float>()[5] == 6);
  }
}

BOOST_AUTO_TEST_CASE(EveryElementTypeBecomesBytesOrFloats) {
  BOOST_TEST((values(npy(1, dict("|u1", "(2,)"), raw<uint8_t>({7, 255}))).dtype() == DType::u8));
  for (const Tensor& t : {values(npy(1, dict("<f8", "(2,)"), raw<double>({7, -1.5}))),
                          values(npy(1, dict("<i4", "(2,)"), raw<int32_t>({7, -1}))),
                          values(npy(1, dict("<i8", "(2,)"), raw<int64_t>({7, -1})))})
    BOOST_TEST(t.data<float>()[0] == 7);
}

BOOST_AUTO_TEST_CASE(KeysMayComeInAnyOrder) {
  const Tensor t =
      values(npy(1, "{\"shape\": (1, 2), 'fortran_order': False, 'descr': '<f4'}", raw<float>({1, 2})));
  BOOST_TEST((t.shape() == Shape{1, 2}));
}

BOOST_AUTO_TEST_CASE(FortranOrderIsRefusedWithAHint) {
  BOOST_TEST(says(npy(1, dict("<f4", "(1, 2)", true), raw<float>({1, 2})), "ascontiguousarray"));
}

BOOST_AUTO_TEST_CASE(OtherElementTypesAreRefusedWithAHint) {
  for (const char* type : {">f4", "<f2", "<c8", "|O", "<U3"})
    BOOST_TEST(says(npy(1, dict(type, "(1, 2)"), raw<float>({1, 2})), "astype"));
}

BOOST_AUTO_TEST_CASE(AFileCutShortAnywhereIsAnError) {
  const std::string whole = npy(1, dict("<f4", "(2,)"), raw<float>({1, 2}));
  for (size_t length = 0; length < whole.size(); ++length)
    BOOST_TEST(error(whole.substr(0, length)) != "no error");
}

BOOST_AUTO_TEST_CASE(AShapeThatDoesNotFitTheFileIsAnErrorThatNamesBoth) {
  BOOST_TEST(says(npy(1, dict("<f4", "(3,)"), raw<float>({1, 2})), "12 bytes, but 8 bytes follow"));
  BOOST_TEST(says(npy(1, dict("<f4", "(1,)"), raw<float>({1, 2})), "4 bytes, but 8 bytes follow"));
  BOOST_TEST(
      says(npy(1, dict("<f4", "(4611686018427387904, 8)"), raw<float>({1, 2})), "damaged or cut short"));
  BOOST_TEST(says(npy(1, dict("|u1", "(4611686018427387904, 3, 0)"), ""), "damaged or cut short"));
}

BOOST_AUTO_TEST_CASE(AHeaderLongerThanTheFileIsAnError) {
  std::string bytes = npy(2, dict("<f4", "(2,)"), raw<float>({1, 2}));
  bytes[11] = 127;
  BOOST_TEST(says(bytes, "announces a header"));
}

BOOST_AUTO_TEST_CASE(AHeaderThatIsNoDictionaryIsAnError) {
  for (const char* text :
       {"", "{", "{}", "{'descr': '<f4'}", "{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'more': 1}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} x"})
    BOOST_TEST(says(npy(1, text, raw<float>({1, 2})), "cannot be read"));
}

BOOST_AUTO_TEST_CASE(LabelsMayBeAColumn) {
  const auto labels =
      read_npy_labels(folder.write("x.npy", npy(1, dict("<i8", "(3, 1)"), raw<int64_t>({4, 0, 2}))));
  BOOST_REQUIRE(labels.has_value());
  BOOST_TEST(labels->span<int32_t>() == (std::vector<int32_t>{4, 0, 2}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(ALabelBeyond32BitsIsAnError) {
  const auto labels =
      read_npy_labels(folder.write("x.npy", npy(1, dict("<i8", "(1,)"), raw<int64_t>({1ll << 40}))));
  BOOST_TEST(labels.error().message.find("1099511627776") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
