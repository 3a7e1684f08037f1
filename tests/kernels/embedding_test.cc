#include <boost/test/unit_test.hpp>

#include <tests/support/ops.h>

using namespace troupe;
using namespace troupe::ops;
using namespace troupe::test;

namespace {

const Ops& op = cpu_ops();

Tensor ids_of(std::vector<int32_t> ids) {
  return Tensor::from<int32_t>(ids, {static_cast<int64_t>(ids.size())});
}

}  // namespace

BOOST_AUTO_TEST_SUITE(embedding)

BOOST_AUTO_TEST_CASE(RowsAreLookedUpByNumber) {
  Stream stream;
  for (DType dtype : {DType::f32, DType::f64}) {
    const Tensor table = exact(1, {5, 7}, dtype), ids = ids_of({4, 0, 0, 2});
    Tensor y = unwritten({4, 7}, dtype);
    op.embedding(stream, table, ids.reshaped({2, 2}), y);
    for (int64_t i = 0; i < 4; ++i)
      BOOST_TEST(same_bits(y.view(i * 7, {7}), table.view(static_cast<int64_t>(at(ids, i)) * 7, {7})), i);
  }
}

BOOST_AUTO_TEST_CASE(TheGradientAgreesWithFiniteDifferencesThoughRowsRepeat) {
  Stream stream;
  Tensor table = normal(1, {5, 3}), dy = normal(2, {6, 3}), dtable = unwritten({5, 3}, DType::f64);
  const Tensor ids = ids_of({4, 0, 0, 2, 4, 4});
  const auto loss = [&] {
    Tensor y = Tensor::empty({6, 3}, DType::f64);
    op.embedding(stream, table, ids, y);
    return dot(y, dy);
  };
  op.embedding_gradient(stream, ids, dy, Write::set, dtable);
  BOOST_TEST(gradient_difference(dtable, finite_differences(table, loss)) == "");
}

BOOST_AUTO_TEST_CASE(WriteAddAddsInTheOrderOfIds) {
  Stream stream;
  Tensor dtable = Tensor::from<float>(std::vector<float>{1, 5}, {2, 1});
  const Tensor dy = Tensor::from<float>(std::vector<float>{1e8f, -1e8f, 3}, {3, 1});
  op.embedding_gradient(stream, ids_of({0, 0, 0}), dy, Write::add, dtable);
  BOOST_TEST(at(dtable, 0) == 3);  // ((1 + 1e8) - 1e8) + 3, where the 1 is lost
  BOOST_TEST(at(dtable, 1) == 5);
}

BOOST_AUTO_TEST_CASE(NoIdsAreLegal) {
  Stream stream;
  const Tensor none = Tensor::empty({0}, DType::i32);
  Tensor y = Tensor::empty({0, 3}), dtable = unwritten({2, 3}, DType::f32);
  op.embedding(stream, Tensor::zeros({2, 3}), none, y);
  op.embedding_gradient(stream, none, y, Write::set, dtable);
  BOOST_TEST(dot(dtable, dtable) == 0);
}

BOOST_AUTO_TEST_CASE(AnIdOutsideTheTableFailsWithItsValues) {
  Stream stream;
  Tensor y = Tensor::empty({1, 3}), table = Tensor::zeros({2, 3});
  for (int32_t id : {-1, 2}) {
    const std::string text = cat("id ", id, " in a table of 2 rows");
    BOOST_TEST(failure_without(text, [&] { op.embedding(stream, table, ids_of({id}), y); }) == "");
    BOOST_TEST(failure_without(
                   text, [&] { op.embedding_gradient(stream, ids_of({id}), y, Write::add, table); }) == "");
  }
  BOOST_TEST(failure_without("y is [1, 3], expected [2, 3]", [&] {
               op.embedding(stream, table, ids_of({0, 1}), y);
             }) == "");
}

BOOST_AUTO_TEST_SUITE_END()
