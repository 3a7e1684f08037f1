#include <type_traits>

#include <troupe/ps/config/setting.h>

namespace troupe::ps {
namespace {

#define FIELD(path) \
  [](RunConfig & c) -> auto& { return c.path; }

/// Names what the lambda's result makes of it: `FieldOf<int64_t>`, ...
template <class Lambda>
Field field(Lambda lambda) {
  using T = std::remove_reference_t<decltype(lambda(std::declval<RunConfig&>()))>;
  return static_cast<FieldOf<T>>(lambda);
}

#define AT(path) field(FIELD(path))
#define ENUM_AT(path)                                                                                                \
  EnumField {                                                                                                        \
    [](const RunConfig& c) { return static_cast<size_t>(c.path); },                                                  \
        [](RunConfig& c, size_t choice) { c.path = static_cast<std::remove_reference_t<decltype(c.path)>>(choice); } \
  }

std::vector<Setting> run_settings() {
  return {
      {.key = "run.name",
       .field = AT(run.name),
       .unit = "",
       .why = "Begins the name of the run's folder, runs/NAME-<time>; name what you try.",
       .scope = Scope::coordinator},
  };
}

std::vector<Setting> model_settings() {
  return {
      {.key = "model.kind",
       .field = AT(model.kind),
       .unit = "",
       .why = "The family of the model: fully connected layers, a LeNet-style convolutional net, residual "
              "blocks, or a transformer that continues text.",
       .choices = {"mlp", "cnn", "resnet", "gpt"},
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
      {.key = "model.block",
       .field = AT(model.block),
       .unit = "",
       .why = "resnet: two 3x3 convolutions (ResNet-18 and 34), or 1x1, 3x3 and 1x1 with four times as many channels "
              "at the end (ResNet-50 and deeper).",
       .choices = {"basic", "bottleneck"}},
      {.key = "model.stem",
       .field = AT(model.stem),
       .unit = "",
       .why = "resnet: how an image enters: a 3x3 convolution for small images, or a 7x7 convolution and a pool, which "
              "halve large ones (224x224) twice.",
       .choices = {"small", "large"}},
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
       .why = "Share of units dropped before every fully connected layer but the first (resnet: before its only one; "
              "gpt: after the embedding and of what every branch adds); raise it against overfitting.",
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
      {.key = "model.layers",
       .field = AT(model.layers),
       .unit = "blocks",
       .why = "gpt: blocks of attention and MLP; more learn more, at a cost that grows with their number.",
       .least = 1,
       .most = 10000,
       .also = "n_layer"},
      {.key = "model.heads",
       .field = AT(model.heads),
       .unit = "heads",
       .why = "gpt: attention heads of a block, which share model.width evenly; heads of 32 to 128 numbers are usual.",
       .least = 1,
       .also = "n_head"},
      {.key = "model.width",
       .field = AT(model.width),
       .unit = "",
       .why = "gpt: numbers that stand for one position between blocks; cost grows with its square.",
       .least = 1,
       .also = "n_embd"},
      {.key = "model.context",
       .field = AT(model.context),
       .unit = "tokens",
       .why = "gpt: length of a sample, and how far back the model sees.",
       .least = 1,
       .also = "block_size"},
      {.key = "model.vocabulary",
       .field = AT(model.vocabulary),
       .unit = "tokens",
       .why = "gpt: different tokens that the model knows; 0 takes those of the data. Set it for token files, or to "
              "pad the head.",
       .least = 0,
       .also = "vocab_size"},
      {.key = "model.positions",
       .field = AT(model.positions),
       .unit = "",
       .why = "gpt: a learned vector for each position, or rotated queries and keys, which need no parameters.",
       .choices = {"learned", "rotary"}},
      {.key = "model.mlp",
       .field = AT(model.mlp),
       .unit = "",
       .why = "gpt: the function inside the MLPs; gelu_tanh is what GPT-2's weights expect, swiglu often learns a "
              "little more from as many parameters.",
       .choices = {"gelu", "gelu_tanh", "swiglu"}},
      {.key = "model.tied",
       .field = AT(model.tied),
       .unit = "",
       .why = "gpt: the head uses the embedding's weight, as GPT-2 does; fewer parameters, one layer less to keep in "
              "step."},
      {.key = "model.sparse_embedding",
       .field = AT(model.sparse_embedding),
       .unit = "",
       .why = "gpt with tied = false: workers pull and push the rows of the embedding that their batch names, not "
              "all of it; for vocabularies much larger than a batch."},
      {.key = "model.recompute",
       .field = AT(model.recompute),
       .unit = "",
       .why = "Activations that are made again in the backward pass instead of kept: none, those within each block "
              "(full), or within every few blocks (every_n). Less memory, a third more work, the same gradients.",
       .choices = {"none", "full", "every_n"}},
      {.key = "model.recompute_every",
       .field = AT(model.recompute_every),
       .unit = "blocks",
       .why = "recompute = every_n: only the input of every so many blocks is kept.",
       .least = 1},
      {.key = "model.weights",
       .field = AT(model.weights),
       .unit = "",
       .why = "gpt: a safetensors file with GPT-2's tensor names to begin from (model.safetensors of Hugging Face); "
              "empty begins from random weights."},
  };
}

std::vector<Setting> data_settings() {
  return {
      {.key = "data.format",
       .field = AT(data.format),
       .unit = "",
       .why = "What the files are: IDX (MNIST and its kin, also .gz), CIFAR's binary files, CSV, NPY, UTF-8 text, "
              "files of tokens (llm.c's, or plain 16-bit numbers); synthetic needs none.",
       .choices = {"idx", "cifar10", "cifar100", "csv", "npy", "text", "tokens", "synthetic"}},
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
      {.key = "data.train_text",
       .field = AT(data.train_text),
       .unit = "",
       .why = "text, tokens: file to train on, relative to data.path; also .gz."},
      {.key = "data.test_text",
       .field = AT(data.test_text),
       .unit = "",
       .why = "text, tokens: file to test on, relative to data.path; empty takes the end of data.train_text."},
      {.key = "data.test_share",
       .field = AT(data.test_share),
       .unit = "",
       .why = "text, tokens: without data.test_text, the last such part of data.train_text is kept for testing.",
       .least = 0,
       .most = 1,
       .below_most = true},
      {.key = "data.tokenizer",
       .field = AT(data.tokenizer),
       .unit = "",
       .why = "text: what a token is: each character that the training text holds, or GPT-2's byte pairs, which need "
              "its two files.",
       .choices = {"characters", "gpt2"}},
      {.key = "data.vocab_file",
       .field = AT(data.vocab_file),
       .unit = "",
       .why = "gpt2: GPT-2's vocab.json, relative to data.path."},
      {.key = "data.merges_file",
       .field = AT(data.merges_file),
       .unit = "",
       .why = "gpt2: GPT-2's merges.txt, relative to data.path."},
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
       .why = "Draw a new order of the training samples every epoch; turn it off for data whose order matters."},
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
      {.key = "data.shape",
       .field = AT(data.shape),
       .unit = "",
       .why = "synthetic: dimensions of a sample instead of data.features, as in [3, 32, 32] for images [channels, "
              "height, width].",
       .least = 1},
      {.key = "data.classes",
       .field = AT(data.classes),
       .unit = "",
       .why = "synthetic: number of different labels.",
       .least = 2},
      {.key = "data.noise",
       .field = AT(data.noise),
       .unit = "",
       .why = "synthetic: how far samples lie around the centre of their class; more is harder to learn.",
       .least = 0},
  };
}

std::vector<Setting> train_settings() {
  return {
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
       .why = "Decides first weights, sample order and dropout; change it to see how much of a result is luck.",
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
  };
}

std::vector<Setting> parallel_settings() {
  return {
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
              "train.batch_size. With several stages, for each replica. Empty: equal shares.",
       .least = 1,
       .most = 1 << 30},
      {.key = "parallel.stages",
       .field = AT(parallel.stages),
       .unit = "workers",
       .why = "Workers that make up one replica of the model, each with some of its layers: for a model that one "
              "device cannot hold. parallel.workers is a multiple.",
       .least = 1,
       .most = 4096,
       .also = "pipeline_parallel_size"},
      {.key = "parallel.schedule",
       .field = AT(parallel.schedule),
       .unit = "",
       .why = "In which order a stage runs its micro-batches; zero-bubble ones wait least, 1f1b keeps fewer "
              "activations than gpipe, pipedream and pipedream-2bw never drain but compute with older weights.",
       .choices = {"sequential", "gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v", "pipedream",
                   "pipedream-2bw"}},
      {.key = "parallel.schedule_file",
       .field = AT(parallel.schedule_file),
       .unit = "path",
       .why = "A CSV with a schedule of your own, instead of parallel.schedule (troupe plan --help shows the form)."},
      {.key = "parallel.micro_batches",
       .field = AT(parallel.micro_batches),
       .unit = "",
       .why = "Parts that a replica's batch is cut into, so that its stages work at the same time; more of them idle "
              "less, each costs some overhead.",
       .least = 1,
       .most = 65536,
       .also = "num_microbatches"},
      {.key = "parallel.chunks",
       .field = AT(parallel.chunks),
       .unit = "",
       .why = "Parts of the model on each stage, not next to each other: interleaved takes any number, zb-v 2; more "
              "idle less and send more.",
       .least = 1,
       .most = 4096},
      {.key = "parallel.cuts",
       .field = AT(parallel.cuts),
       .unit = "layers",
       .why = "How many layers each part of the model gets, first to last. Empty: so that the slowest part is as fast "
              "as can be, by parallel.profile or estimated work.",
       .least = 1,
       .scope = Scope::coordinator},
      {.key = "parallel.profile",
       .field = AT(parallel.profile),
       .unit = "",
       .why = "A CSV of layer times that troupe profile wrote: the model is cut by it, and when stages turn out "
              "unequal the better cut is found with it. Empty: by estimated work.",
       .scope = Scope::coordinator},
      {.key = "parallel.strict_schedule",
       .field = AT(parallel.strict_schedule),
       .unit = "",
       .why = "Keep to the schedule's order even where another action is ready: to measure a schedule."},
      {.key = "parallel.stall_s",
       .field = AT(parallel.stall_s),
       .unit = "s",
       .why = "A stage that waits longer for a neighbour ends the run and says for whom; 0 waits for ever.",
       .least = 0,
       .most = 1 << 20},
      {.key = "parallel.bucket_bytes",
       .field = AT(parallel.bucket_bytes),
       .unit = "bytes",
       .why = "All_reduce layers that are reduced together, from the last one on; smaller begins earlier in the "
              "backward pass, larger costs fewer messages.",
       .least = 1},
      {.key = "parallel.reduce_threads",
       .field = AT(parallel.reduce_threads),
       .unit = "threads",
       .why = "Threads that reduce while the workers of a process compute; -1 is one a worker where cores are left.",
       .least = -1,
       .most = 4096},
      {.key = "parallel.device",
       .field = ENUM_AT(parallel.device),
       .unit = "",
       .why = "Where workers compute, one a GPU: \"cuda\" fails where there are too few, \"auto\" then takes the CPU "
              "and says so.",
       .choices = {"cpu", "cuda", "auto"},
       .also = "device"},
      {.key = "parallel.launch_graphs",
       .field = AT(parallel.launch_graphs),
       .unit = "",
       .why = "Submit a worker's step to its GPU as CUDA graphs once it repeats: for small models, whose kernels are "
              "shorter than it takes to launch them. The forward pass then begins when all weights are there."},
      {.key = "parallel.server_device",
       .field = ENUM_AT(parallel.server_device),
       .unit = "",
       .why = "Where servers keep parameters and optimizer state and apply updates: \"cuda\" takes the GPUs in turn, "
              "for models whose updates are more than the CPU keeps up with; their memory is then the workers' no "
              "more.",
       .choices = {"cpu", "cuda"}},
  };
}

std::vector<Setting> precision_settings() {
  return {
      {.key = "precision.matmul",
       .field = ENUM_AT(precision.matmul),
       .unit = "",
       .why = "How GPUs may round the factors of matrix products: tf32 keeps 10 bits of the fraction, bf16 7, and both "
              "are several times as fast as f32. The CPU computes in f32.",
       .choices = {"f32", "tf32", "bf16"}},
      {.key = "precision.activations",
       .field = ENUM_AT(precision.activations),
       .unit = "",
       .why = "What activations and their gradients are held in between layers and sent in between stages: bf16 or f16 "
              "halve them, f16 wants a loss_scale. Weights and optimizer state stay f32.",
       .choices = {"f32", "bf16", "f16"},
       .also = "dtype"},
      {.key = "precision.loss_scale",
       .field = AT(precision.loss_scale),
       .unit = "",
       .why = "Multiplies the loss for the backward pass, so that small gradients survive f16: a number, or dynamic, "
              "which falls when a gradient overflows (all workers skip that step) and rises when none does for long.",
       .least = 1,
       .choices = {"none", "dynamic"},
       .or_number = true},
      {.key = "precision.init_scale",
       .field = AT(precision.init_scale),
       .unit = "",
       .why = "The dynamic loss scale that a run begins with; powers of two lose nothing.",
       .least = 1},
      {.key = "precision.growth_factor",
       .field = AT(precision.growth_factor),
       .unit = "",
       .why = "By what the dynamic loss scale grows after growth_interval steps without overflow; 1 never.",
       .least = 1},
      {.key = "precision.growth_interval",
       .field = AT(precision.growth_interval),
       .unit = "steps",
       .why = "Steps in a row without overflow after which the dynamic loss scale grows.",
       .least = 1,
       .also = "loss_scale_window"},
      {.key = "precision.backoff_factor",
       .field = AT(precision.backoff_factor),
       .unit = "",
       .why = "By what the dynamic loss scale is multiplied behind a step that overflowed.",
       .least = 0.001,
       .most = 1,
       .below_most = true},
      {.key = "precision.min_scale",
       .field = AT(precision.min_scale),
       .unit = "",
       .why = "The dynamic loss scale never falls below; an overflow there ends the run, or is skipped with "
              "train.on_nonfinite = skip.",
       .least = 1},
  };
}

std::vector<Setting> optimizer_settings() {
  return {
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
      {.key = "optimizer.lazy_rows",
       .field = AT(optimizer.lazy_rows),
       .unit = "",
       .why = "Layers by rows (model.sparse_embedding): momentum and weight decay of a row count only in steps that "
              "touch it, as in LazyAdam; without it only sgd and adagrad, both without momentum and decay, may update "
              "rows."},
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
  };
}

std::vector<Setting> update_settings() {
  return {
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
      {.key = "update.from_step",
       .field = AT(update.back().from_step),
       .unit = "step",
       .why = "The tables with the largest from_step that the run has reached decide, all others do not: start "
              "exact and go on asynchronously, say.",
       .least = 0},
  };
}

std::vector<Setting> servers_settings() {
  return {
      {.key = "servers.slice_bytes",
       .field = AT(servers.slice_bytes),
       .unit = "bytes",
       .why = "Layers larger than this are cut into slices spread over the servers, if there is more than one or the "
              "run has several processes; smaller balances and overlaps better, but each costs a message, and workers "
              "copy a layer that is cut.",
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
  };
}

std::vector<Setting> checkpoint_settings() {
  return {
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
       .least = 1,
       .scope = Scope::coordinator},
      {.key = "checkpoint.at_end",
       .field = AT(checkpoint.at_end),
       .unit = "",
       .why = "Save the run when it ends or is interrupted."},
      {.key = "checkpoint.durability",
       .field = ENUM_AT(checkpoint.durability),
       .unit = "",
       .why = "What an acknowledged push survives: nothing but the last checkpoint (checkpoint: a server that is lost "
              "goes on from there, and what it lost is reported), the death of its server's process (logged, on the "
              "server's disk), or the loss of its host (replicated, on another node).",
       .choices = {"checkpoint", "logged", "replicated"}},
      {.key = "checkpoint.log_folder",
       .field = AT(checkpoint.log_folder),
       .unit = "folder",
       .why = "With durability = logged, where each host keeps its servers' logs: a fast local disk. Empty: updates/ "
              "in the run's folder.",
       .scope = Scope::coordinator},
      {.key = "checkpoint.log_sync",
       .field = ENUM_AT(checkpoint.log_sync),
       .unit = "",
       .why = "When logs are written through to the disk, for power cuts: before each acknowledgement (each), ten "
              "times a second (interval), or when the system likes (never). The death of a process loses nothing "
              "either way.",
       .choices = {"each", "interval", "never"}},
  };
}

std::vector<Setting> elastic_settings() {
  return {
      {.key = "elastic.max_restarts",
       .field = AT(elastic.max_restarts),
       .unit = "restarts",
       .why = "Workers and servers that fail are replaced so many times in all, both counted together (a lost process "
              "counts once for each that it held), before the run gives up; what moves, and a worker that is dropped "
              "(shrink), does not count. A launcher starts processes again as often.",
       .least = 0},
      {.key = "elastic.on_loss",
       .field = ENUM_AT(elastic.on_loss),
       .unit = "",
       .why = "What a lost worker means: its place waits for a new process and then goes to another (restart), the "
              "others go on without it until a new node comes (shrink), or the run ends (fail).",
       .choices = {"restart", "shrink", "fail"}},
      {.key = "elastic.replace_ms",
       .field = AT(elastic.replace_ms),
       .unit = "ms",
       .why = "So long what a lost process held waits for a new one; then it goes to the process that holds least.",
       .least = 0},
      {.key = "elastic.min_workers",
       .field = AT(elastic.min_workers),
       .unit = "workers",
       .why = "With on_loss = shrink, the run ends when fewer than so many are left.",
       .least = 1},
  };
}

std::vector<Setting> network_settings() {
  return {
      {.key = "network.lease_ms",
       .field = AT(network.lease_ms),
       .unit = "ms",
       .why = "A process that was not heard of for so long counts as dead and is fenced out; longer forgives pauses, "
              "shorter recovers faster from a silent death.",
       .least = 100},
      {.key = "network.start_timeout_s",
       .field = AT(network.start_timeout_s),
       .unit = "s",
       .why = "The run ends when its nodes have not all joined by then.",
       .least = 1,
       .scope = Scope::coordinator},
      {.key = "network.shared_memory",
       .field = AT(network.shared_memory),
       .unit = "",
       .why = "Processes of one host exchange tensors through shared memory; off, through sockets.",
       .scope = Scope::process},
      {.key = "network.max_message_bytes",
       .field = AT(network.max_message_bytes),
       .unit = "bytes",
       .why = "A longer message from a peer is refused before memory is taken for it.",
       .least = 1 << 20,
       .scope = Scope::process},
      {.key = "network.queue_bytes",
       .field = AT(network.queue_bytes),
       .unit = "bytes",
       .why = "What may wait for one peer; more is dropped and said again later.",
       .least = 1 << 20,
       .scope = Scope::process},
  };
}

std::vector<Setting> metrics_settings() {
  return {
      {.key = "metrics.every_steps",
       .field = AT(metrics.every_steps),
       .unit = "steps",
       .why = "A row of metrics.csv and metrics.jsonl after so many steps.",
       .least = 1,
       .also = "log_interval",
       .scope = Scope::coordinator},
      {.key = "metrics.csv",
       .field = AT(metrics.csv),
       .unit = "",
       .why = "Write metrics.csv into the run's folder.",
       .scope = Scope::coordinator},
      {.key = "metrics.jsonl",
       .field = AT(metrics.jsonl),
       .unit = "",
       .why = "Write metrics.jsonl, one JSON object a line, into the run's folder.",
       .scope = Scope::coordinator},
      {.key = "metrics.trace",
       .field = AT(metrics.trace),
       .unit = "",
       .why = "Write what every worker and server did when into trace*.json, for chrome://tracing, ui.perfetto.dev and "
              "troupe trace summary."},
      {.key = "metrics.trace_first_step",
       .field = AT(metrics.trace_first_step),
       .unit = "step",
       .why = "The trace begins with this step.",
       .least = 0},
      {.key = "metrics.trace_last_step",
       .field = AT(metrics.trace_last_step),
       .unit = "step",
       .why = "The trace ends with this step; a process keeps up to 262,144 events in memory, and counts what is lost.",
       .least = 0},
      {.key = "metrics.trace_folder",
       .field = AT(metrics.trace_folder),
       .unit = "",
       .why = "Where every process writes its trace, on its own host; empty is the run's folder.",
       .scope = Scope::process},
      {.key = "metrics.sample_tokens",
       .field = AT(metrics.sample_tokens),
       .unit = "tokens",
       .why = "gpt: when the run has ended, the model writes so many tokens to be read; needs checkpoint.at_end.",
       .least = 0,
       .scope = Scope::coordinator},
      {.key = "metrics.listen",
       .field = AT(metrics.listen),
       .unit = "",
       .why = "HOST:PORT at which the coordinator serves /metrics to Prometheus, port 0 a free one; empty is nowhere. "
              "Without a password: other than loopback only in a run of several processes with --insecure-network.",
       .scope = Scope::coordinator},
  };
}

std::vector<Setting> debug_settings() {
  return {
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

/// Table by table, in the order in which they are explained and written.
std::vector<Setting> declare() {
  std::vector<Setting> all;
  for (const auto& table :
       {run_settings(), model_settings(), data_settings(), train_settings(), parallel_settings(), precision_settings(),
        optimizer_settings(), update_settings(), servers_settings(), checkpoint_settings(), elastic_settings(),
        network_settings(), metrics_settings(), debug_settings()})
    all.insert(all.end(), table.begin(), table.end());
  return all;
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
