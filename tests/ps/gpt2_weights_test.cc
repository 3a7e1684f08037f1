#include <boost/test/unit_test.hpp>

#include <tests/support/memory_disk.h>
#include <tests/support/tensors.h>
#include <troupe/kernels/nn/make_model.h>
#include <troupe/ps/checkpoint/gpt2_weights.h>
#include <troupe/ps/checkpoint/safetensors.h>

using namespace troupe;
using namespace troupe::ps;
using troupe::test::MemoryDisk;

namespace {

nn::ModelSpec tiny(bool tied = true) {
  return {.kind = "gpt", .input = {5}, .classes = 7, .layers = 1, .heads = 2, .width = 4, .context = 6,
          .mlp = "gelu_tanh", .tied = tied};
}

// What Hugging Face's file of such a model holds, with longer positions than the model's.
std::vector<TensorEntry> tensors() {
  return {{"wte.weight", DType::f32, {7, 4}},
          {"wpe.weight", DType::f32, {9, 4}},
          {"h.0.ln_1.weight", DType::f32, {4}},
          {"h.0.ln_1.bias", DType::f32, {4}},
          {"h.0.attn.bias", DType::u8, {1, 1, 6, 6}},
          {"h.0.attn.c_attn.weight", DType::f32, {4, 12}},
          {"h.0.attn.c_attn.bias", DType::f32, {12}},
          {"h.0.attn.c_proj.weight", DType::f32, {4, 4}},
          {"h.0.attn.c_proj.bias", DType::f32, {4}},
          {"h.0.ln_2.weight", DType::f32, {4}},
          {"h.0.ln_2.bias", DType::f32, {4}},
          {"h.0.mlp.c_fc.weight", DType::f32, {4, 16}},
          {"h.0.mlp.c_fc.bias", DType::f32, {16}},
          {"h.0.mlp.c_proj.weight", DType::f32, {16, 4}},
          {"h.0.mlp.c_proj.bias", DType::f32, {4}},
          {"ln_f.weight", DType::f32, {4}},
          {"ln_f.bias", DType::f32, {4}}};
}

// Element j of tensor i is 1000 i + j.
struct Fixture {
  MemoryDisk disk;

  void write(const std::vector<TensorEntry>& entries) {
    auto writer = SafetensorsWriter::create(disk, "gpt2.safetensors", entries).value();
    for (size_t i = 0; i < entries.size(); ++i) {
      std::vector<std::byte> bytes(entries[i].bytes());
      for (size_t j = 0; entries[i].dtype == DType::f32 && j < bytes.size() / 4; ++j) {
        const auto value = static_cast<float>(1000 * i + j);
        std::memcpy(bytes.data() + 4 * j, &value, 4);
      }
      BOOST_REQUIRE(writer.append(bytes).has_value());
    }
    BOOST_REQUIRE(writer.finish().has_value());
  }

  Result<std::vector<Tensor>> read(const nn::ModelSpec& spec) {
    model = std::make_shared<nn::Model>(nn::make_model(spec).value());
    return read_gpt2_weights(disk, "gpt2.safetensors", model->layers());
  }

  // Of the layer's weights: element [row, column] of a [rows, columns] matrix at `offset`.
  double element(const std::vector<Tensor>& weights, const std::string& layer, int64_t index) const {
    for (size_t i = 0; i < weights.size(); ++i)
      if (model->layers()[i].name == layer) return test::at(weights[i], index);
    return -1;
  }

  void refused(const nn::ModelSpec& spec, const std::string& text) {
    const auto weights = read(spec);
    BOOST_REQUIRE_MESSAGE(!weights.has_value(), text);
    BOOST_TEST((weights.error().kind == ErrorKind::invalid));
    BOOST_TEST(weights.error().message.find(text) != std::string::npos, weights.error().message);
  }

  std::shared_ptr<nn::Model> model;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(gpt2_weights, Fixture)

BOOST_AUTO_TEST_CASE(EveryTensorGoesToItsPlaceAndLinearOnesAreTransposed) {
  write(tensors());
  const auto weights = read(tiny());
  BOOST_REQUIRE_MESSAGE(weights.has_value(), (weights ? "" : weights.error().message));
  BOOST_TEST(element(*weights, "embedding", 9) == 9);
  BOOST_TEST(element(*weights, "positions", 23) == 1023);  // the first 6 of 9
  BOOST_TEST(element(*weights, "block1_norm1", 1) == 2001);
  BOOST_TEST(element(*weights, "block1_norm1", 5) == 3001);
  BOOST_TEST(element(*weights, "block1_qkv", 2 * 4 + 3) == 5000 + 3 * 12 + 2);  // output 2, input 3
  BOOST_TEST(element(*weights, "block1_qkv", 48 + 7) == 6007);
  BOOST_TEST(element(*weights, "block1_projection", 1 * 4 + 2) == 7000 + 2 * 4 + 1);
  BOOST_TEST(element(*weights, "block1_mlp1", 15 * 4 + 1) == 11000 + 1 * 16 + 15);
  BOOST_TEST(element(*weights, "block1_mlp2", 3 * 16 + 14) == 13000 + 14 * 4 + 3);
  BOOST_TEST(element(*weights, "norm", 7) == 16003);
}

BOOST_AUTO_TEST_CASE(NamesMayBeginWithTransformer) {
  auto entries = tensors();
  for (TensorEntry& entry : entries) entry.name = "transformer." + entry.name;
  write(entries);
  BOOST_TEST(read(tiny()).has_value());
}

BOOST_AUTO_TEST_CASE(AHeadThatIsNotThereIsTheEmbedding) {
  write(tensors());
  const auto weights = read(tiny(false));
  BOOST_REQUIRE(weights.has_value());
  BOOST_TEST(element(*weights, "head", 27) == 27);
}

BOOST_AUTO_TEST_CASE(WhatIsMissingOrOfAnotherShapeIsNamed) {
  auto entries = tensors();
  entries.pop_back();
  write(entries);
  refused(tiny(), "has no tensor ln_f.bias");
  write(tensors());
  nn::ModelSpec spec = tiny();
  spec.classes = 8;
  refused(spec, "wte.weight has shape [7, 4], the model needs [8, 4]");
  spec = tiny();
  spec.layers = 2;
  refused(spec, "has no tensor h.1.ln_1.weight");
  spec = tiny();
  spec.mlp = "swiglu";
  refused(spec, "h.0.mlp.c_fc.weight has shape [4, 16]");
}

BOOST_AUTO_TEST_SUITE_END()
