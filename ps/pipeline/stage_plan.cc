#include <troupe/ps/pipeline/stage_plan.h>

#include <algorithm>

#include <troupe/ps/pipeline/partition.h>
#include <troupe/ps/pipeline/pieces.h>

namespace troupe::ps {
namespace {

std::string layer_list(const nn::Model& model, const std::vector<size_t>& layers) {
  std::string text;
  for (const size_t layer : layers) text += cat(text.empty() ? "" : ", ", layer, " (", model.layers()[layer].name, ")");
  return text.empty() ? "none at all" : text;
}

// Ends of the chunks that are cut by the numbers given.
Result<std::vector<size_t>> ends_of(const nn::Model& model, const std::vector<int64_t>& counts, size_t chunks) {
  const std::vector<size_t> cuts = model.cuts();
  const size_t layers = model.layers().size();
  if (counts.size() != chunks)
    return fail(ErrorKind::invalid,
                cat("parallel.cuts has ", counts.size(), " entries for ", chunks, " parts of the model"));
  std::vector<size_t> ends;
  size_t end = 0;
  for (const int64_t count : counts) {
    end += static_cast<size_t>(std::max<int64_t>(count, 0));
    if (count < 1 || end > layers)
      return fail(ErrorKind::invalid, cat("parallel.cuts gives part ", ends.size(), " ", count, " layers, ", end,
                                          " up to there; the model has ", layers, " and every part needs one"));
    if (end < layers && !std::ranges::binary_search(cuts, end))
      return fail(ErrorKind::invalid,
                  cat("parallel.cuts cuts the model before layer ", end, " (", model.layers()[end].name,
                      "), where more than one tensor crosses, as inside a residual block; it can be cut "
                      "before layers ",
                      layer_list(model, cuts)));
    ends.push_back(end);
  }
  if (end != layers)
    return fail(ErrorKind::invalid, cat("parallel.cuts gives out ", end, " of the model's ", layers, " layers"));
  return ends;
}

// Ends of `chunks` ranges of pieces, so that the most expensive one costs least.
Result<std::vector<size_t>> balanced_ends(const nn::Model& model, size_t chunks, std::span<const LayerCost> costs) {
  if (chunks > costs.size())
    return fail(ErrorKind::invalid, cat("parallel.stages x parallel.chunks = ", chunks, " parts are more than the ",
                                        costs.size(), " that the model can be cut into (before layers ",
                                        layer_list(model, model.cuts()), "): use fewer stages or chunks"));
  const auto best = partition(costs, {.devices = static_cast<uint32_t>(chunks), .count_transfers = false});
  if (!best) return tl::unexpected<Error>(best.error());
  std::vector<size_t> ends;
  size_t end = 0;
  for (const int64_t count : layer_counts(costs, *best)) ends.push_back(end += static_cast<size_t>(count));
  return ends;
}

}  // namespace

std::vector<int64_t> StagePlan::counts() const {
  std::vector<int64_t> counts;
  for (const LayerRange& chunk : chunks) counts.push_back(chunk.last - chunk.first);
  return counts;
}

std::vector<uint32_t> StagePlan::stage_of() const {
  std::vector<uint32_t> stages(chunks.back().last);
  for (size_t chunk = 0; chunk < chunks.size(); ++chunk)
    for (LayerId layer = chunks[chunk].first; layer < chunks[chunk].last; ++layer)
      stages[layer] = schedule->stage_of[chunk];
  return stages;
}

Result<StagePlan> plan_stages(const nn::Model& model, std::shared_ptr<const Schedule> schedule,
                              const std::vector<int64_t>& counts) {
  return plan_stages(model, std::move(schedule), counts, estimated_costs(model));
}

Result<StagePlan> plan_stages(const nn::Model& model, std::shared_ptr<const Schedule> schedule,
                              const std::vector<int64_t>& counts, std::span<const LayerCost> costs) {
  const auto ends = counts.empty() ? balanced_ends(model, schedule->chunks, costs)
                                   : ends_of(model, counts, schedule->chunks);
  if (!ends) return tl::unexpected<Error>(ends.error());
  StagePlan plan;
  plan.schedule = std::move(schedule);
  LayerId first = 0;
  for (const size_t end : *ends) {
    plan.chunks.push_back({first, static_cast<LayerId>(end)});
    plan.inputs.push_back(first > 0 ? model.shape_at(first) : model.input_shape());
    first = static_cast<LayerId>(end);
  }
  const auto chunk_of = [&](size_t layer) {
    return static_cast<uint32_t>(std::ranges::upper_bound(*ends, layer) - ends->begin());
  };
  for (const auto& [layer, user] : model.tied())
    if (chunk_of(layer) != chunk_of(user)) plan.tied.push_back({static_cast<LayerId>(layer), chunk_of(user)});
  return plan;
}

}  // namespace troupe::ps
