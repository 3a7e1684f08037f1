#include <boost/test/unit_test.hpp>

#include <tests/support/cuda/on_device.h>
#include <troupe/kernels/ops/cuda/families.h>

using namespace troupe;
using namespace troupe::ops;
using namespace troupe::test;
using namespace troupe::test::cuda;

namespace {

const EmbeddingOps op = ops::cuda::embedding_ops();

struct Case {
  int64_t rows, width, ids;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.ids << " of " << c.rows << " rows of " << c.width;
}

// One, two and three passes of sorting; one tile and several; whole packs and not; many ids of few rows.
const Case kCases[] = {{1, 1, 1}, {7, 12, 0}, {7, 5, 300}, {300, 8, 2100}, {70000, 3, 1030}, {3, 300, 40}};

Tensor ids_for(const Case& c, uint64_t seed) {
  Random random(seed);
  Tensor ids = Tensor::empty({c.ids}, DType::i32);
  for (int32_t& id : ids.span<int32_t>()) id = static_cast<int32_t>(random.below(static_cast<uint64_t>(c.rows)));
  return ids;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(embedding)

BOOST_AUTO_TEST_CASE(RowsAreTheTables) {
  Stream cpu;
  for (const Case& c : kCases)
    for (DType dtype : {DType::f32, DType::f64})
      for (Place place : kPlaces) {
        EmulatedStream stream(1);
        const Tensor table = exact(1, {c.rows, c.width}, dtype), ids = ids_for(c, 2);
        Tensor expected = unwritten({c.ids, c.width}, dtype), y = empty_on(stream, {c.ids, c.width}, dtype, place);
        cpu_ops().embedding(cpu, table, ids, expected);
        op.embedding(stream, on(stream, table, place), on(stream, ids), y);
        BOOST_TEST(same_bits(y, expected), c);
      }
}

BOOST_AUTO_TEST_CASE(GradientsAreAddedInTheOrderOfTheIds) {
  Stream cpu;
  for (const Case& c : kCases)
    for (DType dtype : {DType::f32, DType::f64})
      for (Write write : {Write::set, Write::add})
        for (Place place : kPlaces) {
          EmulatedStream stream(c.rows + c.ids);
          const Tensor ids = ids_for(c, 3), dy = exact(1, {c.ids, c.width}, dtype);
          Tensor expected = exact(2, {c.rows, c.width}, dtype);
          Tensor dtable =
              write == Write::add ? on(stream, expected, place) : empty_on(stream, {c.rows, c.width}, dtype, place);
          cpu_ops().embedding_gradient(cpu, ids, dy, write, expected);
          op.embedding_gradient(stream, on(stream, ids), on(stream, dy, place), write, dtable);
          BOOST_TEST(same_bits(dtable, expected), c);
        }
}

BOOST_AUTO_TEST_CASE(AnIdOutOfRangeStopsTheKernel) {
  for (int32_t id : {-1, 7}) {
    EmulatedStream stream(1);
    Tensor table = on(stream, exact(1, {7, 4}, DType::f32)), y = empty_on(stream, {1, 4}, DType::f32);
    const Tensor ids = on(stream, Tensor::from<int32_t>(std::vector<int32_t>{id}, {1}));
    BOOST_CHECK_THROW(op.embedding(stream, table, ids, y), KernelFault);
    BOOST_CHECK_THROW(op.embedding_gradient(stream, ids, y, Write::set, table), KernelFault);
  }
}

BOOST_AUTO_TEST_SUITE_END()
