#include <type_traits>

#include <troupe/ps/config/setting.h>

namespace troupe::ps {
namespace {

#define FIELD(path)            \
  [](RunConfig & c) -> auto& { \
    return c.path;             \
  }

/// Names what the lambda's result makes of it: `FieldOf<int64_t>`, ...
template <class Lambda>
Field field(Lambda lambda) {
  using T = std::remove_reference_t<decltype(lambda(std::declval<RunConfig&>()))>;
  return static_cast<FieldOf<T>>(lambda);
}

#define AT(path) field(FIELD(path))
#define ENUM_AT(path)                                                                                 \
  EnumField {                                                                                         \
    [](const RunConfig& c) { return static_cast<size_t>(c.path); }, [](RunConfig& c, size_t choice) { \
      c.path = static_cast<std::remove_reference_t<decltype(c.path)>>(choice);                        \
    }                                                                                                 \
  }

std::vector<Setting> declare() {
  return {
      {"run.name", AT(run.name), "",
       "Begins the name of the run's folder, runs/NAME-<time>; name what you try."},

      {.key = "model.kind",
       .field = AT(model.kind),
       .unit = "",
       .why = "The family of the model: fully connected layers, a LeNet-style convolutional net, or residual "
              "blocks.",
       .choices = {"mlp", "cnn", "resnet"},
       .also = "architecture"},
      {.key = "model.hidden",
       .field = AT(model.hidden),
       .unit = "units",
       .why = "Widths of the fully connected layers between input (or convolutions) and logits; wider learns "
              "more and costs more.",
       .least = 1},
      {.key = "model.channels",
       .field = AT(model.channels),
       .unit = "channels",
       .why = "cnn: output channels of each convolution; resnet: channels of each group of blocks.",
       .least = 1},
      {.key = "model.blocks",
       .field = AT(model.blocks),
       .unit = "blocks",
       .why = "resnet: residual blocks in each group, one number for each entry of model.channels.",
       .least = 1},
      {.key = "model.kernel",
       .field = AT(model.kernel),
       .unit = "pixels",
       .why = "cnn: width and height of every convolution's kernel.",
       .least = 1},
      {.key = "model.activation",
       .field = AT(model.activation),
       .unit = "",
       .why = "The function between layers; gelu is smoother and slower than relu.",
       .choices = {"relu", "gelu"}},
      {.key = "model.dropout",
       .field = AT(model.dropout),
       .unit = "",
       .why = "Share of units dropped before every fully connected layer but the first; raise it against "
              "overfitting.",
       .least = 0,
       .most = 1,
       .below_most = true},
      {.key = "model.batch_norm",
       .field = AT(model.batch_norm),
       .unit = "",
       .why = "cnn: batch normalisation after every convolution; lets the learning rate be higher."},
      {.key = "model.layer_norm",
       .field = AT(model.layer_norm),
       .unit = "",
       .why = "mlp: layer normalisation after every hidden layer; steadier with small batches."},

      {.key = "data.format",
       .field = AT(data.format),
       .unit = "",
       .why = "What the files are: IDX (MNIST and its kin, also .gz), CIFAR's binary files, CSV, NPY; "
              "synthetic needs none.",
       .choices = {"idx", "cifar10", "cifar100", "csv", "npy", "synthetic"}},
      {.key = "data.path",
       .field = AT(data.path),
       .unit = "",
       .why = "The folder that holds the files.",
       .also = "data_dir"},
      {.key = "data.train_images",
       .field = AT(data.train_images),
       .unit = "",
       .why = "File with the training samples, relative to data.path; empty takes the format's usual name. "
              "csv: the whole table."},
      {.key = "data.train_labels",
       .field = AT(data.train_labels),
       .unit = "",
       .why = "File with the training labels, relative to data.path; empty takes the format's usual name."},
      {.key = "data.test_images",
       .field = AT(data.test_images),
       .unit = "",
       .why = "File with the test samples, relative to data.path; empty takes the format's usual name."},
      {.key = "data.test_labels",
       .field = AT(data.test_labels),
       .unit = "",
       .why = "File with the test labels, relative to data.path; empty takes the format's usual name."},
      {.key = "data.label_column",
       .field = AT(data.label_column),
       .unit = "",
       .why = "csv: the column that holds the label, by name or by number from 0; empty is the last one."},
      {.key = "data.mean",
       .field = AT(data.mean),
       .unit = "",
       .why = "Subtracted from every value (after scaling bytes to 0..1), one number or one a channel; "
              "centre the data with it."},
      {.key = "data.std",
       .field = AT(data.std),
       .unit = "",
       .why = "Every value is divided by this, one number or one a channel; scale the data with it.",
       .least = 1e-12},
      {.key = "data.train_limit",
       .field = AT(data.train_limit),
       .unit = "samples",
       .why = "Use only the first so many training samples, for a quick try; 0 uses all.",
       .least = 0},
      {.key = "data.test_limit",
       .field = AT(data.test_limit),
       .unit = "samples",
       .why = "Use only the first so many test samples; 0 uses all.",
       .least = 0},
      {.key = "data.shuffle",
       .field = AT(data.shuffle),
       .unit = "",
       .why =
           "Draw a new order of the training samples every epoch; turn it off for data whose order matters."},
      {.key = "data.samples",
       .field = AT(data.samples),
       .unit = "samples",
       .why = "synthetic: number of training samples.",
       .least = 1},
      {.key = "data.features",
       .field = AT(data.features),
       .unit = "",
       .why = "synthetic: numbers in each sample.",
       .least = 1},
      {.key = "data.classes",
       .field = AT(data.classes),
       .unit = "",
       .why = "synthetic: number of different labels.",
       .least = 2},

      {.key = "train.epochs",
       .field = AT(train.epochs),
       .unit = "epochs",
       .why = "Passes over the training data; 0 trains until train.max_steps.",
       .least = 0,
       .also = "num_epochs"},
      {.key = "train.batch_size",
       .field = AT(train.batch_size),
       .unit = "samples",
       .why = "Samples of one step over all workers together; larger steps are fewer, steadier, and want a "
              "higher learning rate.",
       .least = 1,
       .also = "bs"},
      {.key = "train.seed",
       .field = AT(train.seed),
       .unit = "",
       .why =
           "Decides first weights, sample order and dropout; change it to see how much of a result is luck.",
       .least = 0},
      {.key = "train.max_steps",
       .field = AT(train.max_steps),
       .unit = "steps",
       .why = "Ends the run after so many steps even if train.epochs says more; 0 sets no such end.",
       .least = 0,
       .also = "iterations"},
      {.key = "train.clip_norm",
       .field = AT(train.clip_norm),
       .unit = "",
       .why = "Scales a step's whole gradient down to this length where it is longer, against exploding "
              "gradients; 0 is off.",
       .least = 0,
       .also = "max_grad_norm"},
      {.key = "train.on_nonfinite",
       .field = ENUM_AT(train.on_nonfinite),
       .unit = "",
       .why = "When a gradient holds NaN or infinity: stop the run and name the layer, or skip the step and "
              "count it.",
       .choices = {"stop", "skip"}},
      {.key = "train.evaluate_every_epochs",
       .field = AT(train.evaluate_every_epochs),
       .unit = "epochs",
       .why = "Measure test accuracy after so many epochs; 0 only at the end.",
       .least = 0},

      {.key = "parallel.workers",
       .field = AT(parallel.workers),
       .unit = "",
       .why = "Actors that compute gradients, each on its share of the batch; as many as there are cores to "
              "give them.",
       .least = 1,
       .most = 65536,
       .also = "num_workers"},
      {.key = "parallel.servers",
       .field = AT(parallel.servers),
       .unit = "",
       .why = "Actors that hold the parameters; more share the load of pushes and pulls.",
       .least = 1,
       .most = 65536,
       .also = "num_servers"},
      {.key = "parallel.threads_per_worker",
       .field = AT(parallel.threads_per_worker),
       .unit = "threads",
       .why = "Threads of each worker's computation; workers x threads should not exceed the cores.",
       .least = 1,
       .most = 4096,
       .also = "num_threads"},
      {.key = "parallel.worker_batch",
       .field = AT(parallel.worker_batch),
       .unit = "samples",
       .why = "Samples of one step for each worker, where they are not equally fast; adds up to "
              "train.batch_size. Empty: equal shares.",
       .least = 1},

      {.key = "optimizer.name",
       .field = AT(optimizer.name),
       .unit = "",
       .why = "The rule that turns gradients into updates.",
       .choices = {"sgd", "adam", "adamw", "adagrad", "rmsprop", "lamb"}},
      {.key = "optimizer.learning_rate",
       .field = AT(optimizer.learning_rate),
       .unit = "",
       .why = "Length of a step; the first thing to tune. Lower it when the loss jumps, raise it when it "
              "crawls.",
       .least = 0,
       .also = "lr"},
      {.key = "optimizer.momentum",
       .field = AT(optimizer.momentum),
       .unit = "",
       .why = "sgd, rmsprop: share of the last update that is kept; 0.9 is common. Lower it under async, "
              "which brings momentum of its own.",
       .least = 0,
       .most = 1,
       .below_most = true},
      {.key = "optimizer.nesterov",
       .field = AT(optimizer.nesterov),
       .unit = "",
       .why = "sgd: look ahead along the momentum; often a little faster."},
      {.key = "optimizer.beta1",
       .field = AT(optimizer.beta1),
       .unit = "",
       .why = "adam, adamw, lamb: smoothing of the gradient's mean.",
       .least = 0,
       .most = 1,
       .below_most = true},
      {.key = "optimizer.beta2",
       .field = AT(optimizer.beta2),
       .unit = "",
       .why = "adam, adamw, lamb: smoothing of the gradient's square.",
       .least = 0,
       .most = 1,
       .below_most = true},
      {.key = "optimizer.epsilon",
       .field = AT(optimizer.epsilon),
       .unit = "",
       .why = "Added to divisors; raise it when the second moments are tiny.",
       .least = 0,
       .also = "eps"},
      {.key = "optimizer.alpha",
       .field = AT(optimizer.alpha),
       .unit = "",
       .why = "rmsprop: smoothing of the gradient's square.",
       .least = 0,
       .most = 1,
       .below_most = true},
      {.key = "optimizer.weight_decay",
       .field = AT(optimizer.weight_decay),
       .unit = "",
       .why = "Pulls weights (never biases or norms) towards zero; decoupled for adamw and lamb. Raise it "
              "against overfitting.",
       .least = 0,
       .also = "wd"},
      {.key = "optimizer.schedule",
       .field = AT(optimizer.schedule),
       .unit = "",
       .why = "How the learning rate changes over the run.",
       .choices = {"constant", "step", "cosine", "linear"},
       .also = "scheduler"},
      {.key = "optimizer.warmup_steps",
       .field = AT(optimizer.warmup_steps),
       .unit = "steps",
       .why = "The rate rises linearly over the first so many steps; helps large batches and adam.",
       .least = 0},
      {.key = "optimizer.total_steps",
       .field = AT(optimizer.total_steps),
       .unit = "steps",
       .why = "cosine, linear: the step at which the rate arrives at optimizer.min_rate; 0 is the run's last "
              "step.",
       .least = 0},
      {.key = "optimizer.step_size",
       .field = AT(optimizer.step_size),
       .unit = "steps",
       .why = "step: the rate is multiplied by optimizer.gamma every so many steps.",
       .least = 0},
      {.key = "optimizer.gamma",
       .field = AT(optimizer.gamma),
       .unit = "",
       .why = "step: what the rate is multiplied by.",
       .least = 0},
      {.key = "optimizer.min_rate",
       .field = AT(optimizer.min_rate),
       .unit = "",
       .why = "cosine, linear: the rate they end at.",
       .least = 0},

      {.key = "update.layers",
       .field = AT(update.back().layers),
       .unit = "",
       .why = "Layers that this [[update]] table is about, by name with * ? [abc]; the first table that "
              "matches a layer decides.",
       .also = "layer"},
      {.key = "update.mode",
       .field = ENUM_AT(update.back().policy.mode),
       .unit = "",
       .why = "How those layers are kept in step: exact but waiting (all_reduce, sync), bounded lag (ssp), "
              "never waiting (async).",
       .choices = {"all_reduce", "sync", "ssp", "async"},
       .also = "policy"},
      {.key = "update.staleness",
       .field = AT(update.back().policy.staleness),
       .unit = "steps",
       .why = "ssp: how many steps a read may be behind the slowest worker; more waits less and learns from "
              "older weights.",
       .least = 0},

      {.key = "servers.slice_bytes",
       .field = AT(servers.slice_bytes),
       .unit = "bytes",
       .why = "Layers larger than this are cut into slices spread over the servers; smaller balances better, "
              "each costs a message.",
       .least = 64},
      {.key = "servers.fuse_bytes",
       .field = AT(servers.fuse_bytes),
       .unit = "bytes",
       .why = "Slices smaller than this travel together, up to this size; 0 sends each by itself.",
       .least = 0},
      {.key = "servers.immediate_scale",
       .field = ENUM_AT(servers.immediate_scale),
       .unit = "",
       .why = "How an ssp or async push is weighed against a synchronous step: full rate, by its share of "
              "the batch, or less the staler it is.",
       .choices = {"none", "samples", "staleness"}},

      {.key = "checkpoint.every_steps",
       .field = AT(checkpoint.every_steps),
       .unit = "steps",
       .why = "Save the run after so many steps: what a crash can cost; 0 does not save on the way.",
       .least = 0},
      {.key = "checkpoint.keep",
       .field = AT(checkpoint.keep),
       .unit = "checkpoints",
       .why = "Older checkpoints than the newest so many are deleted; keep two or more, the newest may be "
              "damaged.",
       .least = 1},
      {.key = "checkpoint.at_end",
       .field = AT(checkpoint.at_end),
       .unit = "",
       .why = "Save the run when it ends or is interrupted."},
      {.key = "checkpoint.durability",
       .field = AT(checkpoint.durability),
       .unit = "",
       .why = "What an acknowledged push survives; with checkpoint, what came after the last one is lost "
              "when a server dies.",
       .choices = {"checkpoint"}},

      {.key = "elastic.max_restarts",
       .field = AT(elastic.max_restarts),
       .unit = "restarts",
       .why = "Workers and servers that fail are replaced so many times in all before the run gives up.",
       .least = 0},

      {.key = "metrics.every_steps",
       .field = AT(metrics.every_steps),
       .unit = "steps",
       .why = "A row of metrics.csv and metrics.jsonl after so many steps.",
       .least = 1,
       .also = "log_interval"},
      {.key = "metrics.csv",
       .field = AT(metrics.csv),
       .unit = "",
       .why = "Write metrics.csv into the run's folder."},
      {.key = "metrics.jsonl",
       .field = AT(metrics.jsonl),
       .unit = "",
       .why = "Write metrics.jsonl, one JSON object a line, into the run's folder."},

      {.key = "debug.record",
       .field = AT(debug.record),
       .unit = "",
       .why = "Log the order in which pushes are applied, so that `troupe train --replay RUN` repeats an "
              "asynchronous run bit for bit."},
      {.key = "debug.slow_worker",
       .field = AT(debug.slow_worker),
       .unit = "",
       .why = "Index of a worker that is slowed down, to see what each policy does about it; -1 is none.",
       .least = -1},
      {.key = "debug.slow_factor",
       .field = AT(debug.slow_factor),
       .unit = "times",
       .why = "The slow worker's step takes so many times as long.",
       .least = 1},
      {.key = "debug.slow_ms",
       .field = AT(debug.slow_ms),
       .unit = "ms",
       .why = "The slow worker sleeps so long in every step.",
       .least = 0},
      {.key = "debug.nan_at_step",
       .field = AT(debug.nan_at_step),
       .unit = "step",
       .why = "Put NaN into a gradient of this step, to see what train.on_nonfinite does; -1 is never.",
       .least = -1},
      {.key = "debug.nan_worker",
       .field = AT(debug.nan_worker),
       .unit = "",
       .why = "Index of the worker whose gradient debug.nan_at_step spoils.",
       .least = 0},
      {.key = "debug.nan_layer",
       .field = AT(debug.nan_layer),
       .unit = "",
       .why = "Name of the layer whose gradient debug.nan_at_step spoils; empty is the first."},
  };
}

}  // namespace

const std::vector<Setting>& all_settings() {
  static const std::vector<Setting> settings = declare();
  return settings;
}

const Setting* find_setting(std::string_view key) {
  for (const Setting& s : all_settings())
    if (key == s.key) return &s;
  return nullptr;
}

std::string_view Setting::table() const {
  const std::string_view k = key;
  return k.substr(0, k.find('.'));
}

std::string_view Setting::leaf() const {
  const std::string_view k = key;
  return k.substr(k.find('.') + 1);
}

}  // namespace troupe::ps
