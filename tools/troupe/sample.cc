#include <algorithm>
#include <filesystem>
#include <iostream>

#include <troupe/kernels/nn/make_model.h>
#include <troupe/ps/checkpoint/checkpoint_folder.h>
#include <troupe/ps/config/load.h>
#include <troupe/ps/data/load_text.h>

#include "commands.h"
#include "sampling.h"

using namespace troupe;

namespace {

namespace fs = std::filesystem;

/// The config of the run that a folder belongs to: its own, or that of the run around a checkpoint.
Result<ps::RunConfig> config_of(const std::string& path) {
  std::error_code ignored;
  fs::path folder = fs::absolute(path, ignored).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  for (int level = 0; level < 3; ++level, folder = folder.parent_path()) {
    const fs::path file = folder / "config.resolved.toml";
    if (!fs::exists(file, ignored)) continue;
    auto loaded = ps::load_config_file(file.string());
    if (!loaded) return tl::unexpected<Error>(loaded.error());
    return std::move(loaded->config);
  }
  return fail(ErrorKind::missing, cat(path, ": neither this folder nor the two around it are a run's, with a "
                                      "config.resolved.toml"));
}

Result<std::vector<Tensor>> weights_of(const ps::Checkpoint& checkpoint, const nn::Model& model) {
  std::vector<Tensor> weights;
  for (const LayerSpec& layer : model.layers()) {
    Tensor flat = Tensor::empty({layer.count});
    for (const ParamSpec& param : layer.params) {
      const auto* entry = checkpoint.parameters().find(param.name);
      const std::span<const int64_t> shape = param.shape.span();
      if (!entry || !std::ranges::equal(entry->shape, shape))
        return fail(ErrorKind::invalid, cat(checkpoint.folder(), " has no tensor ", param.name, " of shape ",
                                            param.shape, ", which the run's config and text ask for"));
      Tensor into = flat.view(param.offset, param.shape);
      TROUPE_TRY(checkpoint.parameters().read(param.name, 0, into.span<float>()));
    }
    weights.push_back(std::move(flat));
  }
  return weights;
}

/// The samples are as long as the context, and the vocabulary is the tokenizer's where the config leaves it open.
Result<nn::Model> model_of(const ps::RunConfig& config, const ps::Tokenizer& tokenizer) {
  const int64_t vocabulary = config.model.vocabulary > 0 ? config.model.vocabulary : tokenizer.vocabulary();
  return nn::make_model(ps::model_spec(config, {config.model.context}, vocabulary));
}

int sample(const SampleRequest& request) {
  if (const auto written = write_sample(request, std::cout); !written) return report(written.error());
  return kOk;
}

}  // namespace

Status write_sample(const SampleRequest& request, std::ostream& out) {
  const auto config = config_of(request.path);
  if (!config) return tl::unexpected<Error>(config.error());
  if (config->model.kind != "gpt")
    return fail(ErrorKind::invalid, cat(request.path, ": model.kind = \"", config->model.kind,
                                        "\" writes no text; only \"gpt\" does"));
  const auto tokenizer = ps::load_tokenizer(ps::data_options(*config));
  if (!tokenizer) return tl::unexpected<Error>(tokenizer.error());
  const auto model = model_of(*config, **tokenizer);
  if (!model) return tl::unexpected<Error>(model.error());
  const auto found = ps::find_checkpoint(ps::make_posix_files(), request.path);
  if (!found) return tl::unexpected<Error>(found.error());
  const auto weights = weights_of(*found->newest, *model);
  if (!weights) return tl::unexpected<Error>(weights.error());
  const auto prompt = (*tokenizer)->encode(request.prompt);
  if (!prompt) return fail("the prompt", prompt.error());
  if (prompt->empty()) return fail(ErrorKind::invalid, "the prompt is empty: give the model something to go on from");
  out << request.prompt;
  Random random(derive_seed(request.seed, "sample"));
  nn::generate(*model, *weights, *prompt, request.options, (*tokenizer)->vocabulary(), random, [&](int32_t token) {
    out << (*tokenizer)->decode({&token, 1}) << std::flush;
    return out.good();
  });
  out << std::endl;
  return {};
}

void add_sample(CLI::App& app, int& exit_code) {
  const auto request = std::make_shared<SampleRequest>();
  CLI::App* command = app.add_subcommand("sample", "Let a trained transformer continue a text");
  command->footer(R"(
Examples:
  troupe sample runs/gpt-tiny-20261130-112906 --prompt "No Person shall"
  troupe sample runs/gpt-tiny-20261130-112906/checkpoints/step-00000400 --tokens 500 --temperature 0.5)");
  command
      ->add_option("DIR", request->path,
                   "A run's folder, or one of its checkpoints; of a run the newest valid one is taken")
      ->required();
  command->add_option("--prompt", request->prompt, "Text to go on from. Default: a new line")->type_name("TEXT");
  command->add_option("--tokens", request->options.tokens, "How many tokens to write")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 30))
      ->capture_default_str();
  command
      ->add_option("--temperature", request->options.temperature,
                   "Below 1 keeps to what is likely, 0 takes the likeliest token always")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  command->add_option("--top-k", request->options.top_k, "Draw from so many of the likeliest tokens; 0: from all")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 30))
      ->capture_default_str();
  command->add_option("--seed", request->seed, "The same seed writes the same text")->capture_default_str();
  command->callback([request, &exit_code] { exit_code = sample(*request); });
}
