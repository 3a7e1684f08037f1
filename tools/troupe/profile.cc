#include <algorithm>
#include <chrono>
#include <fstream>
#include <iostream>

#include <troupe/kernels/base/text.h>
#include <troupe/kernels/nn/make_model.h>
#include <troupe/ps/data/load_dataset.h>
#include <troupe/ps/metrics/human.h>
#include <troupe/ps/pipeline/measure_layers.h>
#include <troupe/ps/pipeline/partition.h>

#include "commands.h"

using namespace troupe;

namespace {

struct ProfileArguments {
  ConfigArguments config;
  std::string out;
  double seconds = 2;
};

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

Result<ps::LayerProfile> measure(const ps::RunConfig& config, double seconds) {
  const auto data = ps::load_dataset(ps::data_options(config));
  if (!data) return tl::unexpected(data.error());
  auto made = nn::make_model(ps::model_spec(config, data->train->sample_shape(), data->train->classes()));
  if (!made) return tl::unexpected(made.error());
  const int64_t parts = config.parallel.replicas() * (config.parallel.stages > 1 ? config.parallel.micro_batches : 1);
  const ps::MeasureOptions options{.micro_batch = std::max<int64_t>(1, (config.train.batch_size + parts - 1) / parts),
                                   .threads = static_cast<int>(config.parallel.threads_per_worker),
                                   .seed = static_cast<uint64_t>(config.train.seed),
                                   .storage = ps::storage_type(config.precision),
                                   .seconds = seconds};
  auto profile = ps::measure_layers(std::make_shared<const nn::Model>(std::move(*made)), data->train, options, now_s);
  profile.device = cat("CPU, ", options.threads, options.threads == 1 ? " thread" : " threads");
  return profile;
}

std::string table(const ps::LayerProfile& profile) {
  const auto ms = [](double seconds) { return ps::fixed(1000 * seconds, 3); };
  const auto bytes = [](double value) { return ps::human_bytes(static_cast<int64_t>(value)); };
  std::vector<std::vector<std::string>> rows = {
      {"layers", "forward ms", "input gradient ms", "weight gradient ms", "output", "kept", "parameters"}};
  for (const ps::LayerCost& layer : profile.layers)
    rows.push_back({layer.name, ms(layer.forward), ms(layer.backward_input), ms(layer.backward_weight),
                    bytes(layer.output_bytes), bytes(layer.kept_bytes), bytes(layer.parameter_bytes)});
  return ps::text_table(rows);
}

/// The best cut for the config's number of chunks; nothing where there is one.
std::string cut_text(const ps::LayerProfile& profile, int64_t chunks) {
  if (chunks < 2) return "";
  const auto cut = ps::partition(profile.layers, {.devices = static_cast<uint32_t>(chunks), .count_transfers = false});
  if (!cut) return cut.error().message + '\n';
  std::string counts;
  for (const int64_t count : ps::layer_counts(profile.layers, *cut)) counts += cat(counts.empty() ? "" : ",", count);
  return cat("The best cut into ", chunks, ": --set parallel.cuts=", counts, ", ", ps::fixed(1000 * cut->time, 3),
             " ms a micro-batch on the slowest.\n");
}

Status profile(const ProfileArguments& a) {
  const auto loaded = load(a.config);
  if (!loaded) return tl::unexpected(loaded.error());
  const ps::RunConfig& config = loaded->config;
  const auto measured = measure(config, a.seconds);
  if (!measured) return tl::unexpected(measured.error());
  std::cout << "One micro-batch of " << measured->micro_batch << " samples, " << measured->device << ":\n\n"
            << table(*measured) << '\n'
            << cut_text(*measured, config.parallel.stages * config.parallel.chunks);
  if (a.out.empty()) return {};
  std::ofstream file(a.out);
  file << ps::profile_csv(*measured);
  file.close();
  if (!file) return fail(ErrorKind::invalid, a.out + ": cannot write the profile; name a file in a folder that exists");
  std::cout << a.out << " written\n";
  return {};
}

}  // namespace

void add_profile(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "profile", "Measure each layer's forward and backward times and sizes on this machine, for troupe plan");
  command->footer(R"(
A row is a layer, or the few that cannot be cut apart (a residual block). The micro-batch is the config's.

Example:
  troupe profile configs/pipeline.toml --out layers.csv)");
  auto arguments = std::make_shared<ProfileArguments>();
  add_config_arguments(*command, arguments->config);
  command->add_option("--out", arguments->out, "CSV file for troupe plan --profile");
  command->add_option("--seconds", arguments->seconds, "Time to spend measuring")
      ->capture_default_str()
      ->check(CLI::Range(0.01, 3600.0));
  command->callback([arguments, &exit_code] {
    const auto done = profile(*arguments);
    exit_code = done ? kOk : report(done.error());
  });
}
