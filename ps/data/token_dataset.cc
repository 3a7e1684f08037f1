#include <troupe/ps/data/token_dataset.h>

#include <algorithm>

namespace troupe::ps {

Result<std::shared_ptr<const TokenDataset>> TokenDataset::make(std::string name, Tensor tokens, int64_t context,
                                                               int64_t vocabulary) {
  TROUPE_CHECK(tokens && context > 0 && vocabulary > 0, "context ", context, ", vocabulary ", vocabulary);
  if (tokens.count() <= context)
    return fail(ErrorKind::invalid, cat(name, " has ", tokens.count(), " tokens; one sample takes model.context = ",
                                        context, " and the one that follows: use a longer text or a smaller context"));
  const auto values = tokens.span<int32_t>();
  const auto wrong = std::ranges::find_if(values, [&](int32_t token) { return token < 0 || token >= vocabulary; });
  if (wrong != values.end())
    return fail(ErrorKind::invalid,
                cat(name, ": token ", wrong - values.begin(), " is ", *wrong, ", but the model knows ", vocabulary,
                    " tokens, 0 .. ", vocabulary - 1, ": the file was made with another tokenizer, or "
                    "model.vocabulary is too small"));
  return std::shared_ptr<const TokenDataset>(new TokenDataset(std::move(tokens), context, vocabulary));
}

void TokenDataset::gather(std::span<const uint32_t> samples, Tensor& inputs, Tensor& labels) const {
  const int64_t count = static_cast<int64_t>(samples.size()) * context_;
  TROUPE_CHECK(inputs.count() == count && labels.count() == count, inputs.shape(), " and ", labels.shape(), " for ",
               samples.size(), " samples of ", context_, " tokens");
  int32_t *in = inputs.data<int32_t>(), *out = labels.data<int32_t>();
  for (const uint32_t sample : samples) {
    TROUPE_CHECK(sample < size(), "sample ", sample, " of ", size());
    const int32_t* const begin = tokens_.data<int32_t>() + sample * context_;
    in = std::copy_n(begin, context_, in);
    out = std::copy_n(begin + 1, context_, out);
  }
}

}  // namespace troupe::ps
