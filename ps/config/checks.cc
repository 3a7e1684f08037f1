#include <troupe/ps/config/checks.h>

#include <algorithm>
#include <cctype>

#include <troupe/ps/config/setting.h>

namespace troupe::ps {
namespace {

bool one_of(const std::string& value, std::initializer_list<const char*> choices) {
  return std::find(choices.begin(), choices.end(), value) != choices.end();
}

struct Checker {
  const RunConfig& c;
  const Sources& sources;
  std::vector<std::string>& problems;
  std::vector<std::string>& warnings;

  /// "train.batch_size = 128 (configs/x.toml:4)".
  std::string term(const char* key) const {
    return cat(key, " = ", value_text(*find_setting(key), c), " (", sources.of(key), ")");
  }
  std::string rule(size_t i) const {
    return cat("[[update]] table ", i + 1, " (", sources.of(cat("update[", i, "].layers")), ")");
  }
  template <class... Args>
  void problem(const Args&... args) {
    problems.push_back(cat(args...));
  }
  /// `key` was changed and `useful` is false: it does nothing, because of `other`.
  void idle_unless(bool useful, const char* key, const char* other) {
    if (!useful && changed(key)) warnings.push_back(cat(term(key), " has no effect with ", term(other)));
  }
  /// A resolved config gives every key, also those that nobody touched.
  bool changed(const char* key) const {
    const Setting& setting = *find_setting(key);
    return sources.given(key) && value_text(setting, c) != value_text(setting, RunConfig{});
  }

  void name() {
    const bool plain = std::all_of(c.run.name.begin(), c.run.name.end(),
                                   [](unsigned char x) { return std::isalnum(x) || x == '-' || x == '_' || x == '.'; });
    if (!plain || c.run.name.empty() || c.run.name[0] == '.' || c.run.name.size() > 100)
      problem(term("run.name"), ": names a folder: use up to 100 letters, digits, '-', '_' and '.', not '.' first");
  }

  void batch() {
    const auto& shares = c.parallel.worker_batch;
    if (!shares.empty()) {
      int64_t sum = 0;
      for (const int64_t share : shares) sum += share;
      if (static_cast<int64_t>(shares.size()) != c.parallel.replicas())
        problem(term("parallel.worker_batch"), " has ", shares.size(), " entries, but ", term("parallel.workers"),
                c.parallel.stages > 1 ? cat(" and ", term("parallel.stages"), ": give one entry a replica")
                                      : ": give one entry a worker");
      if (sum != c.train.batch_size)
        problem(term("parallel.worker_batch"), " adds up to ", sum, ", but ", term("train.batch_size"),
                ": change one of them, or leave train.batch_size out");
    } else if (c.train.batch_size < c.parallel.replicas()) {
      problem(term("train.batch_size"), " leaves some of the workers without a sample, ", term("parallel.workers"),
              ": use a batch of at least ", c.parallel.replicas(), " or fewer workers");
    }
  }

  void stages() {
    const ParallelSection& p = c.parallel;
    if (p.workers % p.stages != 0)
      problem(term("parallel.workers"), " is not a multiple of ", term("parallel.stages"),
              ": every replica of the model needs all its stages");
    for (const char* key : {"parallel.schedule", "parallel.schedule_file", "parallel.micro_batches", "parallel.chunks",
                            "parallel.cuts", "parallel.profile", "parallel.strict_schedule", "parallel.stall_s"})
      idle_unless(p.stages > 1, key, "parallel.stages");
    if (p.stages == 1) return;
    for (const char* key : {"parallel.schedule", "parallel.micro_batches", "parallel.chunks"})
      idle_unless(p.schedule_file.empty(), key, "parallel.schedule_file");
    if (!p.cuts.empty() && p.schedule_file.empty() && static_cast<int64_t>(p.cuts.size()) != p.stages * p.chunks)
      problem(term("parallel.cuts"), " has ", p.cuts.size(), " entries, but ", term("parallel.stages"), " and ",
              term("parallel.chunks"), " make ", p.stages * p.chunks, " parts: give one number of layers a part");
    if (c.parallel.device == DeviceChoice::cuda)
      problem(term("parallel.device"), " and ", term("parallel.stages"),
              ": stages compute on the CPU in this version; leave one of them out");
    if (c.debug.nan_at_step >= 0)
      problem(term("debug.nan_at_step"), " and ", term("parallel.stages"),
              ": the NaN is put into the gradient of a worker that computes the whole model; leave one of them out");
    if (c.elastic.on_loss == OnLoss::shrink)
      problem(term("elastic.on_loss"), ": a replica cannot go on without one of its stages, and ",
              term("parallel.stages"), ": use restart or fail");
    const bool immediate =
        std::ranges::any_of(c.update, [](const UpdateRule& rule) { return rule.policy.immediate(); });
    if (immediate && c.train.clip_norm > 0)
      problem(term("train.clip_norm"), " clips by the norm of the whole gradient, which no stage knows when it pushes ",
              "an ssp or async layer at once, and ", term("parallel.stages"),
              ": use sync or all_reduce layers, or no clipping");
    if (immediate && c.train.on_nonfinite == NonFinite::skip)
      problem(term("train.on_nonfinite"),
              " is a decision of all stages, which ssp and async layers do not wait for, and ", term("parallel.stages"),
              ": use sync or all_reduce layers, or stop");
    if (p.asynchronous()) asynchronous_stages();
  }

  // Each stage updates its layers when it has their gradient, and knows nothing of the others'.
  void asynchronous_stages() {
    const auto refuse = [&](const std::string& what, const char* instead) {
      problem(what, " and ", term("parallel.schedule"), ": ", instead);
    };
    const char* const stale = "its layers are pulled by version (which of them a micro-batch reads is the schedule's "
                              "decision, docs/pipelines.md): use mode = \"sync\", or another schedule";
    for (size_t i = 0; i < c.update.size(); ++i)
      if (c.update[i].policy.mode != Mode::sync)
        refuse(cat(rule(i), " makes ", c.update[i].layers, " ", describe(c.update[i].policy)), stale);
    if (c.train.clip_norm > 0)
      refuse(cat(term("train.clip_norm"), " clips by the norm of the gradients of all stages"),
             "a stage does not wait for those of the others: leave clipping out, or use another schedule");
    if (c.train.on_nonfinite == NonFinite::skip)
      refuse(cat(term("train.on_nonfinite"), " is a decision of all stages"),
             "a stage does not wait for the others: use stop, or another schedule");
    if (c.precision.loss_scale == "dynamic")
      refuse(cat(term("precision.loss_scale"), " is a decision of all stages on each step"),
             "a stage does not wait for the others: use a number, or another schedule");
    if (c.parallel.strict_schedule)
      refuse(term("parallel.strict_schedule"),
             "that order has no end to keep to: leave it out, or use another schedule");
    for (const int64_t samples : worker_batches(c))
      if (samples % c.parallel.steps_per_batch() != 0)
        return refuse(cat("a replica's batch of ", samples, " samples (", term("train.batch_size"), ", ",
                          term("parallel.workers"), ") is no multiple of ", term("parallel.micro_batches")),
                      "each micro-batch is an update of its own, and all of them weigh the same: change one of them");
  }
  void device() {
    for (const char* key : {"precision.matmul", "parallel.launch_graphs"})
      idle_unless(c.parallel.device != DeviceChoice::cpu, key, "parallel.device");
  }

  void precision() {
    const PrecisionSection& p = c.precision;
    const bool dynamic = p.loss_scale == "dynamic";
    for (const char* key : {"precision.init_scale", "precision.growth_factor", "precision.growth_interval",
                            "precision.backoff_factor", "precision.min_scale"})
      idle_unless(dynamic, key, "precision.loss_scale");
    if (!dynamic) return;
    if (p.init_scale < p.min_scale)
      problem(term("precision.init_scale"), " is below ", term("precision.min_scale"), ": begin at it or above");
    for (size_t i = 0; i < c.update.size(); ++i)
      if (c.update[i].policy.immediate())
        problem(term("precision.loss_scale"), " is a decision of all workers on each step, and ", rule(i), " has mode ",
                describe(c.update[i].policy), ", whose pushes wait for none: use sync or all_reduce, or a fixed scale");
  }

  void length() {
    if (c.train.epochs == 0 && c.train.max_steps == 0)
      problem(term("train.epochs"), " and ", term("train.max_steps"), " leave nothing to do: set one of them");
  }

  void model() {
    const bool mlp = c.model.kind == "mlp", cnn = c.model.kind == "cnn", resnet = c.model.kind == "resnet";
    const bool gpt = c.model.kind == "gpt";
    if (cnn && c.model.channels.empty())
      problem(term("model.kind"), " needs model.channels, as in channels = [32, 64]; ", term("model.channels"));
    if (resnet && (c.model.channels.empty() || c.model.channels.size() != c.model.blocks.size()))
      problem(term("model.kind"), " needs one number of blocks for each group of channels; ", term("model.channels"),
              ", ", term("model.blocks"));
    if (cnn && c.model.kernel % 2 == 0)
      problem(term("model.kernel"), ": must be odd, so that the output can be as large as the input");
    if (gpt && c.model.width % c.model.heads != 0)
      problem(term("model.width"), " cannot be shared evenly by ", term("model.heads"), ": make it a multiple");
    else if (gpt && c.model.positions == "rotary" && c.model.width / c.model.heads % 2 != 0)
      problem(term("model.width"), " and ", term("model.heads"), " make heads of ", c.model.width / c.model.heads,
              " numbers, an odd count, but ", term("model.positions"), " turns them in pairs: use fewer heads");
    idle_unless(cnn || resnet, "model.channels", "model.kind");
    for (const char* key : {"model.blocks", "model.block", "model.stem"}) idle_unless(resnet, key, "model.kind");
    idle_unless(cnn, "model.kernel", "model.kind");
    idle_unless(mlp || cnn, "model.hidden", "model.kind");
    idle_unless(cnn, "model.batch_norm", "model.kind");
    idle_unless(mlp, "model.layer_norm", "model.kind");
    idle_unless(!gpt, "model.activation", "model.kind");
    for (const char* key : {"model.layers", "model.heads", "model.width", "model.context", "model.vocabulary",
                            "model.positions", "model.mlp", "model.tied", "model.sparse_embedding", "model.weights"})
      idle_unless(gpt, key, "model.kind");
    idle_unless(gpt || resnet, "model.recompute", "model.kind");
    idle_unless(c.model.recompute == "every_n", "model.recompute_every", "model.recompute");
  }

  // Which rows of the embedding a step touches is known to workers alone.
  void rows() {
    idle_unless(c.model.sparse_embedding, "optimizer.lazy_rows", "model.sparse_embedding");
    if (!c.model.sparse_embedding || c.model.kind != "gpt") return;
    const char* const sparse = "model.sparse_embedding";
    if (c.model.tied)
      problem(term(sparse), " and ", term("model.tied"),
              ": the head reads every row of a tied embedding: set model.tied = false");
    if (c.parallel.stages > 1)
      problem(term(sparse), " and ", term("parallel.stages"), ": stages push whole layers: use one stage");
    for (size_t i = 0; i < c.update.size(); ++i)
      if (c.update[i].policy.mode == Mode::all_reduce && decides(i, "embedding"))
        problem(term(sparse), " and ", rule(i),
                ", which all-reduces the embedding: workers touch different rows: make it sync, ssp or async");
    const auto optimizer = make_optimizer(c.optimizer);
    if (!optimizer) return;  // told elsewhere
    if (const Status possible = (*optimizer)->check_rows(); !possible)
      problem(term(sparse), ": ", possible.error().message);
  }
  /// The i-th table is the first of those that begin with it to match the layer.
  bool decides(size_t i, const char* layer) const {
    if (!glob_matches(c.update[i].layers, layer)) return false;
    for (size_t k = 0; k < i; ++k)
      if (c.update[k].from_step == c.update[i].from_step && glob_matches(c.update[k].layers, layer)) return false;
    return true;
  }

  void data() {
    const bool synthetic = c.data.format == "synthetic";
    if (!synthetic && c.data.path.empty())
      problem(term("data.path"), ": name the folder of the data files, which ", term("data.format"), " needs");
    const bool text = c.data.format == "text", tokens = c.data.format == "tokens", gpt = c.model.kind == "gpt";
    if ((text || tokens) != gpt)
      problem(term("model.kind"), " and ", term("data.format"),
              " do not fit: gpt is for text and tokens, and they are for gpt alone");
    if ((text || tokens) && c.data.train_text.empty())
      problem(term("data.train_text"), ": name the file to train on, which ", term("data.format"), " needs");
    const int64_t available = synthetic ? c.data.samples : c.data.train_limit;
    const char* limit = synthetic ? "data.samples" : "data.train_limit";
    if (available > 0 && c.train.batch_size > available)
      problem(term("train.batch_size"), " is more than there are samples, ", term(limit));
    for (const char* key : {"data.samples", "data.features", "data.shape", "data.classes", "data.noise"})
      idle_unless(synthetic, key, "data.format");
    idle_unless(c.data.shape.empty(), "data.features", "data.shape");
    idle_unless(c.data.format == "csv", "data.label_column", "data.format");
    for (const char* key : {"data.train_text", "data.test_text", "data.test_share"})
      idle_unless(text || tokens, key, "data.format");
    idle_unless(text || tokens, "data.tokenizer", "data.format");
    for (const char* key : {"data.vocab_file", "data.merges_file"})
      idle_unless(c.data.tokenizer == "gpt2", key, "data.tokenizer");
    idle_unless(gpt, "metrics.sample_tokens", "model.kind");
    for (const char* key : {"data.train_images", "data.train_labels", "data.test_images", "data.test_labels",
                            "data.mean", "data.std"})
      idle_unless(!text && !tokens, key, "data.format");
  }

  void optimizer() {
    const OptimizerOptions& o = c.optimizer;
    const bool adam_like = one_of(o.name, {"adam", "adamw", "lamb"});
    idle_unless(one_of(o.name, {"sgd", "rmsprop"}), "optimizer.momentum", "optimizer.name");
    idle_unless(o.name == "sgd", "optimizer.nesterov", "optimizer.name");
    for (const char* key : {"optimizer.beta1", "optimizer.beta2"}) idle_unless(adam_like, key, "optimizer.name");
    idle_unless(o.name == "rmsprop", "optimizer.alpha", "optimizer.name");
    idle_unless(o.name != "sgd", "optimizer.epsilon", "optimizer.name");
    if (o.name == "sgd" && o.nesterov && o.momentum == 0)
      problem(term("optimizer.nesterov"), " looks ahead along a momentum, but ", term("optimizer.momentum"));
  }

  void schedule() {
    const OptimizerOptions& o = c.optimizer;
    const bool ends = one_of(o.schedule, {"cosine", "linear"});
    if (o.schedule == "step" && o.step_size == 0)
      problem(term("optimizer.schedule"), " needs optimizer.step_size, the steps between two changes; ",
              term("optimizer.step_size"));
    if (ends && o.min_rate > o.learning_rate)
      problem(term("optimizer.min_rate"), " is above ", term("optimizer.learning_rate"),
              ": the rate would rise, not fall");
    if (o.total_steps > 0 && o.warmup_steps >= o.total_steps)
      problem(term("optimizer.warmup_steps"), " is not below ", term("optimizer.total_steps"));
    idle_unless(o.schedule == "step", "optimizer.step_size", "optimizer.schedule");
    idle_unless(o.schedule == "step", "optimizer.gamma", "optimizer.schedule");
    idle_unless(ends, "optimizer.min_rate", "optimizer.schedule");
    idle_unless(ends, "optimizer.total_steps", "optimizer.schedule");
  }

  void update() {
    for (size_t i = 0; i < c.update.size(); ++i) {
      const std::string staleness = cat("update[", i, "].staleness");
      const bool ssp = c.update[i].policy.mode == Mode::ssp;
      if (c.update[i].layers.empty()) problem(rule(i), ": layers is empty: name layers, or * for all");
      if (ssp && !sources.given(staleness))
        problem(rule(i), ": mode ssp needs staleness, the steps by which a read may lag, as in staleness = 2");
      if (!ssp && sources.given(staleness) && c.update[i].policy.staleness != 0)
        warnings.push_back(
            cat(rule(i), ": staleness = ", c.update[i].policy.staleness, " has no effect: only mode ssp has a bound"));
      for (size_t k = i + 1; k < c.update.size() && c.update[i].layers == "*"; ++k) {
        if (c.update[k].from_step != c.update[i].from_step) continue;
        problem(rule(i), ": layers = \"*\" matches every layer, so that ", rule(k),
                " never applies: put the general table last");
        break;
      }
    }
    if (const PolicyChange first = rules_by_step(c.update).front(); first.step > 0)
      problem("no [[update]] table says how the run begins: the first one has from_step = ", first.step,
              ": add tables without from_step");
  }

  void reduction() {
    const bool reduced = std::ranges::any_of(c.update, [](const auto& r) { return r.policy.mode == Mode::all_reduce; });
    for (const char* key : {"parallel.bucket_bytes", "parallel.reduce_threads"})
      if (!reduced && changed(key)) warnings.push_back(cat(term(key), " has no effect: no layer is all-reduced"));
  }

  void trace() {
    for (const char* key : {"metrics.trace_first_step", "metrics.trace_last_step", "metrics.trace_folder"})
      idle_unless(c.metrics.trace, key, "metrics.trace");
    if (c.metrics.trace_last_step < c.metrics.trace_first_step)
      problem(term("metrics.trace_last_step"), " comes before ", term("metrics.trace_first_step"),
              ": the trace would be empty");
  }

  void debug() {
    if (c.debug.slow_worker >= c.parallel.workers)
      problem(term("debug.slow_worker"), " is not one of the workers, which count from 0; ", term("parallel.workers"));
    if (c.debug.nan_at_step >= 0 && c.debug.nan_worker >= c.parallel.workers)
      problem(term("debug.nan_worker"), " is not one of the workers, which count from 0; ", term("parallel.workers"));
    for (const char* key : {"debug.slow_factor", "debug.slow_ms"})
      idle_unless(c.debug.slow_worker >= 0, key, "debug.slow_worker");
    for (const char* key : {"debug.nan_worker", "debug.nan_layer"})
      idle_unless(c.debug.nan_at_step >= 0, key, "debug.nan_at_step");
    if (c.debug.slow_worker >= 0 && c.debug.slow_factor == 1 && c.debug.slow_ms == 0)
      problem(term("debug.slow_worker"), " is not slowed by ", term("debug.slow_factor"), " and ",
              term("debug.slow_ms"), ": set one of them");
  }
};

}  // namespace

void check_config(const RunConfig& config, const Sources& sources, std::vector<std::string>& problems,
                  std::vector<std::string>& warnings) {
  Checker checker{config, sources, problems, warnings};
  checker.name();
  checker.length();
  checker.batch();
  checker.stages();
  checker.device();
  checker.precision();
  checker.model();
  checker.rows();
  checker.data();
  checker.optimizer();
  checker.schedule();
  checker.update();
  checker.reduction();
  checker.trace();
  checker.debug();
}

Status check_against_data(const RunConfig& config, const Sources& sources, int64_t train_samples) {
  std::vector<std::string> ignored;
  const Checker checker{config, sources, ignored, ignored};
  const std::string have = cat("there are ", train_samples, " training samples in ", config.data.path,
                               config.data.train_limit > 0 ? ", " + checker.term("data.train_limit") : "");
  if (config.parallel.replicas() > train_samples)
    return fail(ErrorKind::invalid,
                cat(checker.term("parallel.workers"), " is more than samples: ", have, "; use fewer workers"));
  if (config.train.batch_size > train_samples)
    return fail(ErrorKind::invalid,
                cat(checker.term("train.batch_size"), " is more than an epoch: ", have, "; use a smaller batch"));
  return {};
}

Status check_against_model(const RunConfig& config, const Sources& sources, const std::vector<std::string>& layers) {
  std::vector<std::string> ignored;
  const Checker checker{config, sources, ignored, ignored};
  std::string names;
  for (const std::string& layer : layers) names += (names.empty() ? "" : ", ") + layer;
  for (size_t i = 0; i < config.update.size(); ++i) {
    const std::string& glob = config.update[i].layers;
    if (std::none_of(layers.begin(), layers.end(), [&](const auto& layer) { return glob_matches(glob, layer); }))
      return fail(ErrorKind::invalid, cat(checker.rule(i), ": layers = \"", glob, "\" matches no layer of the model, ",
                                          names, ": correct the pattern or remove the table"));
  }
  const std::string& spoilt = config.debug.nan_layer;
  if (!spoilt.empty() && std::find(layers.begin(), layers.end(), spoilt) == layers.end())
    return fail(ErrorKind::invalid,
                cat(checker.term("debug.nan_layer"), " is no layer of the model, which has ", names));
  return {};
}

}  // namespace troupe::ps
