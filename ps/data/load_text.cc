#include <troupe/ps/data/load_text.h>

#include <algorithm>
#include <filesystem>

#include <troupe/kernels/base/text.h>
#include <troupe/ps/data/text_file.h>
#include <troupe/ps/data/token_dataset.h>
#include <troupe/ps/data/token_file.h>

namespace troupe::ps {
namespace {

std::string file(const DataOptions& o, const std::string& name) {
  return (std::filesystem::path(o.path) / name).string();
}

Result<std::shared_ptr<const Tokenizer>> tokenizer_for(const DataOptions& o, std::string_view train_text) {
  if (o.tokenizer == "gpt2") return read_gpt2_tokenizer(file(o, o.vocab_file), file(o, o.merges_file));
  if (o.tokenizer != "characters")
    return fail(ErrorKind::invalid,
                cat("data.tokenizer = \"", o.tokenizer, "\" is not known; there are characters and gpt2"));
  auto made = make_character_tokenizer(train_text);
  if (!made) return fail(file(o, o.train_text), made.error());
  return made;
}

Result<Tensor> encode(const Tokenizer& tokenizer, const std::string& path, std::string_view text) {
  const auto tokens = tokenizer.encode(text);
  if (!tokens) return fail(path, tokens.error());
  return Tensor::from(std::span<const int32_t>(*tokens), {static_cast<int64_t>(tokens->size())});
}

struct Tokens {
  std::string train_name, test_name;
  Tensor train, test;
};

Tokens split(std::string name, const Tensor& all, double test_share) {
  const auto test = static_cast<int64_t>(static_cast<double>(all.count()) * test_share);
  const int64_t train = all.count() - test;
  return {name + ", all but its end", name + ", its end", all.view(0, {train}), all.view(train, {test})};
}

Result<Tokens> read_all(const DataOptions& o, const Tokenizer* tokenizer, std::string_view train_text) {
  const std::string train_path = file(o, o.train_text), test_path = file(o, o.test_text);
  auto train = tokenizer ? encode(*tokenizer, train_path, train_text) : read_tokens(train_path);
  if (!train) return tl::unexpected(train.error());
  if (o.test_text.empty()) return split(train_path, *train, o.test_share);
  if (!tokenizer) {
    auto test = read_tokens(test_path);
    if (!test) return tl::unexpected(test.error());
    return Tokens{train_path, test_path, std::move(*train), std::move(*test)};
  }
  const auto test_text = read_text_file(test_path);
  if (!test_text) return tl::unexpected(test_text.error());
  auto test = encode(*tokenizer, test_path, *test_text);
  if (!test) return tl::unexpected(test.error());
  return Tokens{train_path, test_path, std::move(*train), std::move(*test)};
}

Result<int64_t> vocabulary_of(const DataOptions& o, const Tokenizer* tokenizer, const Tensor& train) {
  if (tokenizer && o.vocabulary > 0 && o.vocabulary < tokenizer->vocabulary())
    return fail(ErrorKind::invalid, cat("model.vocabulary = ", o.vocabulary, " is less than the ",
                                        tokenizer->vocabulary(), " tokens of data.tokenizer = \"", o.tokenizer,
                                        "\": make it at least as many, or leave it out"));
  if (o.vocabulary > 0) return o.vocabulary;
  if (tokenizer) return tokenizer->vocabulary();
  const auto tokens = train.span<int32_t>();
  return tokens.empty() ? 1 : int64_t{*std::ranges::max_element(tokens)} + 1;
}

Result<std::shared_ptr<const TokenDataset>> make_set(const DataOptions& o, const std::string& name, Tensor tokens,
                                                     int64_t vocabulary, int64_t limit) {
  if (limit > 0 && limit * o.context + 1 < tokens.count()) tokens = tokens.view(0, {limit * o.context + 1});
  return TokenDataset::make(name, std::move(tokens), o.context, vocabulary);
}

}  // namespace

Result<std::shared_ptr<const Tokenizer>> load_tokenizer(const DataOptions& o) {
  if (o.tokenizer == "gpt2") return tokenizer_for(o, {});
  if (o.format == "tokens")
    return fail(ErrorKind::invalid, cat("data.tokenizer = \"", o.tokenizer, "\" cannot say what the tokens of ",
                                        file(o, o.train_text), " are in text; only gpt2, with its files, can"));
  const auto text = read_text_file(file(o, o.train_text));
  if (!text) return tl::unexpected(text.error());
  return tokenizer_for(o, *text);
}

Result<DataSets> load_text(const DataOptions& o) {
  if (o.context < 1 || o.context > int64_t{1} << 20)
    return fail(ErrorKind::invalid, cat("model.context = ", o.context, ": it must be from 1 to ", 1 << 20));
  DataSets sets;
  std::string train_text;
  if (o.format == "text") {
    auto text = read_text_file(file(o, o.train_text));
    if (!text) return tl::unexpected(text.error());
    train_text = std::move(*text);
    auto tokenizer = tokenizer_for(o, train_text);
    if (!tokenizer) return tl::unexpected(tokenizer.error());
    sets.tokenizer = std::move(*tokenizer);
  }
  auto tokens = read_all(o, sets.tokenizer.get(), train_text);
  if (!tokens) return tl::unexpected(tokens.error());
  const auto vocabulary = vocabulary_of(o, sets.tokenizer.get(), tokens->train);
  if (!vocabulary) return tl::unexpected(vocabulary.error());
  auto train = make_set(o, tokens->train_name, std::move(tokens->train), *vocabulary, o.train_limit);
  if (!train) return tl::unexpected(train.error());
  auto test = make_set(o, tokens->test_name, std::move(tokens->test), *vocabulary, o.test_limit);
  if (!test) return tl::unexpected(test.error());
  sets.train = std::move(*train);
  sets.test = std::move(*test);
  return sets;
}

}  // namespace troupe::ps
