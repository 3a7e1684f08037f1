#include <fstream>
#include <iostream>
#include <optional>

#include <troupe/kernels/base/text.h>
#include <troupe/kernels/nn/make_model.h>
#include <troupe/ps/data/load_dataset.h>
#include <troupe/ps/pipeline/configured.h>
#include <troupe/ps/pipeline/draw_schedule.h>
#include <troupe/ps/pipeline/plan_text.h>
#include <troupe/ps/pipeline/search_plans.h>

#include "commands.h"

using namespace troupe;

namespace {

struct PlanArguments {
  ConfigArguments config;
  std::string hardware, profile, svg;
  bool draw = false, search = false;
  uint32_t tensor = 1, zero = 0;
  bool sequence_parallel = false;
  std::string recompute;  ///< empty: as the config says
  uint64_t top = 10;
};

Status draw(const PlanArguments& a, const ps::Schedule& schedule) {
  const ps::Timing timing = ps::simulate(schedule, ps::ChunkTimes{}, {.keep_spans = true});
  if (a.draw)
    std::cout << schedule.name << ", " << schedule.stages << " stages, " << schedule.micro_batches
              << " micro-batches, with equal times for F (forward), I (input gradient) and W (weight gradient):\n\n"
              << ps::draw_text(schedule, timing) << '\n';
  if (a.svg.empty()) return {};
  std::ofstream file(a.svg);
  file << ps::draw_svg(schedule, timing);
  file.close();
  if (!file) return fail(ErrorKind::invalid, a.svg + ": cannot write the picture; name a file in a folder that exists");
  std::cout << a.svg << " written\n";
  return {};
}

/// Shape and classes of the samples; synthetic ones need not be made for that.
Result<std::pair<Shape, int64_t>> samples_of(const ps::DataOptions& options) {
  if (options.format == "synthetic") {
    const auto shape = ps::synthetic_shape(options);
    if (!shape) return tl::unexpected(shape.error());
    return std::pair(*shape, options.classes);
  }
  const auto data = ps::load_dataset(options);
  if (!data) return tl::unexpected(data.error());
  return std::pair(data->train->sample_shape(), data->train->classes());
}

/// A transformer whose vocabulary is given needs no data to be there.
Result<ps::ModelLoad> load_of(const ps::RunConfig& config, double bytes_a_value) {
  const ps::ModelSection& m = config.model;
  ps::TransformerShape shape{m.layers, m.width, m.heads, m.context, m.vocabulary, m.tied, m.positions == "learned"};
  const bool gpt = m.kind == "gpt";
  if (!gpt || m.vocabulary == 0) {
    const auto samples = samples_of(ps::data_options(config));
    if (!samples) return tl::unexpected(samples.error());
    shape.vocabulary = samples->second;
    if (!gpt) {
      const auto model = nn::make_model(ps::model_spec(config, samples->first, samples->second));
      if (!model) return tl::unexpected(model.error());
      return ps::model_load(*model, m.kind, bytes_a_value);
    }
  }
  return ps::transformer_load(shape, bytes_a_value);
}

Result<ps::PlanTask> task_of(const PlanArguments& a, const ps::RunConfig& config) {
  ps::PlanTask task;
  task.gradients_first = true;
  task.counts = config.parallel.cuts;
  auto hardware = ps::read_hardware(a.hardware);
  if (!hardware) return tl::unexpected(hardware.error());
  task.hardware = std::move(*hardware);
  const std::string& file = a.profile.empty() ? config.parallel.profile : a.profile;
  if (!file.empty()) {
    auto profile = ps::read_profile_csv(file);
    if (!profile) return tl::unexpected(profile.error());
    task.model = ps::profile_load(*profile, cat(config.model.kind, ", as measured in ", file));
    task.measured = std::move(*profile);
    return task;
  }
  const auto bytes = static_cast<double>(task.hardware.bytes_a_value);
  const bool halves = config.precision.activations != ps::ActivationType::f32;
  auto load = load_of(config, halves ? 2 : bytes);
  if (!load) return tl::unexpected(load.error());
  load->bytes_a_value = bytes;  // activations alone are halved
  task.model = std::move(*load);
  return task;
}

/// every_n keeps less than full, and remakes as much.
ps::Recompute recompute_of(const std::string& word) {
  if (word == "none") return ps::Recompute::none;
  return word == "selective" ? ps::Recompute::selective : ps::Recompute::full;
}

/// One replica is parallel.workers / parallel.stages; a step's batch is dealt out to all, in micro-batches.
ps::Composition composition_of(const PlanArguments& a, const ps::RunConfig& config, const ps::Schedule& schedule) {
  ps::Composition c;
  c.replicas = static_cast<uint32_t>(config.parallel.replicas());
  c.stages = schedule.stages;
  c.chunks = schedule.chunks / schedule.stages;
  c.schedule = schedule.name;
  c.micro_batches = schedule.micro_batches;
  // An asynchronous schedule is planned over several batches: it never drains between them.
  const int64_t parts = config.parallel.replicas() *
                        (config.parallel.asynchronous() ? config.parallel.micro_batches : schedule.micro_batches);
  c.micro_batch = (config.train.batch_size + parts - 1) / parts;
  c.tensor = a.tensor, c.zero = a.zero, c.sequence_parallel = a.sequence_parallel;
  c.recompute = recompute_of(a.recompute.empty() ? config.model.recompute : a.recompute);
  return c;
}

Status search(const ps::PlanTask& task, const ps::RunConfig& config, size_t top) {
  ps::PlanTask free = task;
  free.counts.clear(), free.schedule.reset();
  const auto plans = ps::search_plans(free, config.train.batch_size, top);
  if (!plans) return tl::unexpected(plans.error());
  std::cout << "The best of what fits on all " << task.hardware.devices << " devices, " << config.train.batch_size
            << " samples a step:\n\n"
            << ps::plan_table(*plans) << '\n'
            << ps::plan_report(free, plans->front());
  return {};
}

Status plan(const PlanArguments& a) {
  const auto loaded = load(a.config);
  if (!loaded) return tl::unexpected(loaded.error());
  const ps::RunConfig& config = loaded->config;
  if (a.hardware.empty() && !a.draw && a.svg.empty())
    return fail(ErrorKind::invalid,
                "what to plan for? --hardware FILE (configs/hardware has some); or --draw the schedule");
  // A single stage has no schedule to choose: its micro-batches follow each other.
  ps::ParallelSection parallel = config.parallel;
  if (parallel.stages == 1)
    parallel.schedule = "1f1b", parallel.schedule_file.clear(), parallel.chunks = parallel.micro_batches = 1;
  auto schedule = ps::configured_schedule(parallel);
  if (!schedule) return tl::unexpected(schedule.error());
  TROUPE_TRY(draw(a, *schedule));
  if (a.hardware.empty()) return {};
  auto task = task_of(a, config);
  if (!task) return tl::unexpected(task.error());
  if (a.search) return search(*task, config, a.top);
  task->schedule = *schedule;
  const auto planned = ps::plan(*task, composition_of(a, config, *schedule));
  if (!planned) return tl::unexpected(planned.error());
  std::cout << ps::plan_report(*task, *planned);
  return {};
}

void add_options(CLI::App& command, PlanArguments& a) {
  add_config_arguments(command, a.config);
  command.add_option("--hardware", a.hardware, "TOML file that describes the machines; see configs/hardware");
  command.add_option("--profile", a.profile,
                     "Times and sizes of the layers as troupe profile measured them [parallel.profile]");
  command.add_flag("--draw", a.draw, "Print the schedule as a table");
  command.add_option("--svg", a.svg, "Write the schedule as a picture");
  command.add_flag("--search", a.search, "Compare all ways to spread the model over all devices");
  command.add_option("--top", a.top, "How many of them to print")->capture_default_str()->check(CLI::Range(1, 1000));
  command.add_option("--tensor", a.tensor, "Devices that share every matrix product of a transformer")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  command.add_option("--zero", a.zero, "Sharded among replicas: 1 optimizer state, 2 gradients too, 3 parameters too")
      ->capture_default_str()
      ->check(CLI::Range(0, 3));
  command.add_flag("--sequence-parallel", a.sequence_parallel, "With --tensor: share what the group would all hold");
  command
      .add_option("--recompute", a.recompute,
                  "Activations made again in the backward pass, if other than model.recompute")
      ->check(CLI::IsMember({"none", "selective", "full"}));
}

}  // namespace

void add_plan(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "plan", "Say before a run whether it fits, how long a step takes, what limits it; draw its schedule");
  command->footer(R"(
Needs none of the devices. A schedule of your own (parallel.schedule_file) is a CSV with a line a stage and a cell an
action, CHUNK LETTER MICRO-BATCH: F forward, I gradient of the input, W of the weights, B both; the chunk may be left
out where it is the stage. 1F1B on two stages:
  F0,F1,B0,F2,B1,B2
  F0,B0,F1,B1,F2,B2

Examples:
  troupe plan configs/pipeline.toml --draw
  troupe plan configs/pipeline.toml --hardware configs/hardware/laptop.toml
  troupe profile configs/pipeline.toml --out layers.csv
  troupe plan configs/pipeline.toml --hardware configs/hardware/laptop.toml --profile layers.csv --search)");
  auto arguments = std::make_shared<PlanArguments>();
  add_options(*command, *arguments);
  command->callback([arguments, &exit_code] {
    const auto done = plan(*arguments);
    exit_code = done ? kOk : report(done.error());
  });
}
