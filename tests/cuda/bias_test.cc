#include <boost/test/unit_test.hpp>

#include <tests/support/cuda/on_device.h>
#include <troupe/kernels/ops/cuda/families.h>

using namespace troupe;
using namespace troupe::ops;
using namespace troupe::test;
using namespace troupe::test::cuda;

namespace {

const BiasOps op = ops::cuda::bias_ops();
// Rows and planes, one slab and several, fewer columns than a tile and more.
const Shape kShapes[] = {{0, 3},        {1, 1},     {131, 37},    {700, 5},     {3, 70},
                         {5, 7, 3, 11}, {2, 3, 19}, {0, 2, 3, 3}, {2, 4, 0, 3}, {3, 2, 57, 61}};

}  // namespace

BOOST_AUTO_TEST_SUITE(bias)

BOOST_AUTO_TEST_CASE(EveryChannelGetsItsBias) {
  Stream cpu;
  for (DType dtype : {DType::f32, DType::f64})
    for (const Shape& shape : kShapes)
      for (Epilogue epilogue : {Epilogue::none, Epilogue::relu, Epilogue::gelu, Epilogue::gelu_tanh})
        for (Place place : kPlaces) {
          EmulatedStream stream(7);
          const Tensor x = exact(1, shape, dtype), b = exact(2, {shape[1]}, dtype);
          Tensor expected = unwritten(shape, dtype), y = empty_on(stream, shape, dtype, place);
          Tensor in_place = on(stream, x, place);
          cpu_ops().bias_add(cpu, x, b, epilogue, expected);
          op.bias_add(stream, on(stream, x, place), on(stream, b), epilogue, y);
          op.bias_add(stream, in_place, on(stream, b), epilogue, in_place);
          const bool exactly = epilogue == Epilogue::none || epilogue == Epilogue::relu;
          BOOST_TEST((exactly ? same_bits(y, expected) : difference(y, expected, 1e-6) == ""), shape);
          BOOST_TEST(same_bits(in_place, y), shape);
        }
}

BOOST_AUTO_TEST_CASE(TheGradientIsTheSumOverAllButTheChannel) {
  Stream cpu;
  for (DType dtype : {DType::f32, DType::f64})
    for (const Shape& shape : kShapes)
      for (Write write : {Write::set, Write::add})
        for (uint64_t order : kOrders) {
          EmulatedStream stream(order);
          const Tensor dy = exact(1, shape, dtype);
          Tensor expected = exact(2, {shape[1]}, dtype);
          Tensor db = write == Write::add ? on(stream, expected) : empty_on(stream, {shape[1]}, dtype);
          cpu_ops().bias_gradient(cpu, dy, write, expected);
          op.bias_gradient(stream, on(stream, dy), write, db);
          BOOST_TEST(difference(db, expected, 1e-6) == "", shape);
        }
}

// Packs and single elements, one slab and several, columns that fill no tile.
BOOST_AUTO_TEST_CASE(TheGradientOfAGeluBringsThatOfTheBias) {
  Stream cpu;
  for (DType dtype : {DType::f32, DType::f64})
    for (const Shape& shape : {Shape{0, 4}, Shape{3, 0}, Shape{1, 1}, Shape{131, 37}, Shape{700, 8}, Shape{19, 140}})
      for (Epilogue gelu : {Epilogue::gelu, Epilogue::gelu_tanh})
        for (Write write : {Write::set, Write::add})
          for (Place place : kPlaces) {
            EmulatedStream stream(kOrders[shape[1] % 3]);
            const Tensor x = exact(1, shape, dtype), b = exact(2, {shape[1]}, dtype), dy = exact(3, shape, dtype);
            Tensor expected_dx = unwritten(shape, dtype), expected = exact(4, {shape[1]}, dtype);
            Tensor db = write == Write::add ? on(stream, expected) : empty_on(stream, {shape[1]}, dtype);
            Tensor dx = empty_on(stream, shape, dtype, place), in_place = on(stream, dy, place), again = on(stream, db);
            cpu_ops().bias_gelu_gradient(cpu, x, b, gelu, dy, write, expected_dx, expected);
            const Tensor device_x = on(stream, x, place), device_b = on(stream, b);
            op.bias_gelu_gradient(stream, device_x, device_b, gelu, on(stream, dy, place), write, dx, db);
            op.bias_gelu_gradient(stream, device_x, device_b, gelu, in_place, write, in_place, again);
            BOOST_TEST(difference(dx, expected_dx, 1e-6) == "", shape);
            BOOST_TEST(difference(db, expected, 1e-6) == "", shape);
            BOOST_TEST(same_bits(in_place, dx), shape);
            BOOST_TEST(same_bits(again, db), shape);
          }
}

BOOST_AUTO_TEST_CASE(TheOrderOfThreadsDoesNotChangeABit) {
  const Tensor dy = exact(1, {3, 2, 57, 61}, DType::f32);
  Tensor first;
  for (uint64_t order : kOrders) {
    EmulatedStream stream(order);
    Tensor db = empty_on(stream, {2}, DType::f32);
    op.bias_gradient(stream, on(stream, dy), Write::set, db);
    if (!first) first = db;
    BOOST_TEST(same_bits(db, first));
  }
}

BOOST_AUTO_TEST_SUITE_END()
