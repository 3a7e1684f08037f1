#include "bench_peer.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <future>
#include <iostream>
#include <set>
#include <stdexcept>
#include <thread>

#include <troupe/actors/prompt_mail.h>
#include <troupe/actors/server.h>
#include <troupe/actors/system_config.h>
#include <troupe/kernels/base/random.h>
#include <troupe/ps/param/layout.h>

#include "bench.h"

using namespace troupe;

namespace {

const ps::Endpoint kServer{ps::Role::server, 0, 1}, kCoordinator{ps::Role::coordinator, 0, 1},
    kWorker{ps::Role::worker, 0, 1};
constexpr uint32_t kWorkerNode = 0, kServerNode = 1;
constexpr size_t kSharedBytes = size_t{256} << 20;  // as network.queue_bytes has it
constexpr auto kPatience = std::chrono::seconds(20);  // with the other process, before a measurement is given up

using Done = std::shared_ptr<std::promise<void>>;

std::shared_ptr<const ps::Layout> layout_of(const BenchPeer::Options& o) {
  std::vector<LayerSpec> layers = synthetic_layers(o.layers, o.elements);
  for (LayerSpec& layer : layers) layer.row_width = o.width;
  ps::LayoutOptions layout;
  layout.slice_bytes = o.slice_bytes;
  layout.fuse_bytes = 0;
  layout.spread = true;
  return std::make_shared<const ps::Layout>(
      ps::make_layout(std::move(layers), std::vector<ps::Policy>(o.layers, {ps::Mode::async, 0}), layout));
}

constexpr size_t kSets = 16;  // of random rows, of all layers together

// Ascending, each once, of those of one table.
Tensor random_rows(Random& random, const BenchPeer::Options& o) {
  const auto table = static_cast<uint64_t>(o.elements / o.width);
  std::set<int32_t> rows;
  while (static_cast<int64_t>(rows.size()) < o.rows) rows.insert(static_cast<int32_t>(random.below(table)));
  return Tensor::from<int32_t>(std::vector<int32_t>(rows.begin(), rows.end()), {o.rows});
}

// By layer, as many for each.
std::vector<std::vector<Tensor>> random_sets(const BenchPeer::Options& o) {
  Random random(7);
  std::vector<std::vector<Tensor>> sets(o.layers);
  for (size_t i = 0; i < kSets && o.width > 0; ++i) sets[i % o.layers].push_back(random_rows(random, o));
  return sets;
}

std::shared_ptr<ps::NetworkTransport> open(const BenchPeer::Options& o, uint32_t node) {
  ps::NetworkOptions options;
  options.listen = o.listen.starts_with("ipc") ? cat(o.listen, '.', node) : o.listen;
  options.shared_memory = o.shared_memory;
  options.shared_bytes = kSharedBytes;
  auto network = ps::NetworkTransport::open(std::move(options));
  if (!network) throw std::runtime_error(network.error().message);
  (*network)->set_self(node);
  return std::move(*network);
}

ps::Routes routes(ps::NodeAddress worker, ps::NodeAddress server) {
  worker.node = kWorkerNode;
  server.node = kServerNode;
  return {1, {worker, server}, {{kWorker, kWorkerNode}, {kCoordinator, kWorkerNode}, {kServer, kServerNode}}};
}

// An address as one line: address, host and key. What a run's coordinator tells its nodes in Routes.
std::string line_of(const ps::NodeAddress& a) { return cat(a.address, '\t', a.host, '\n'); }
ps::NodeAddress address_of(const std::string& line) {
  const auto tab = line.find('\t');
  return {0, line.substr(0, tab), "", line.substr(tab + 1, line.find('\n') - tab - 1)};
}

/// One operation a layer is under way, on all its slices; the next begins when it is done, and when the other layers
/// have kept up: those of low numbers overtake others on the way, and a server takes only so many pushes out of order.
struct Client {
  struct Layer {
    std::vector<const ps::Slice*> slices;  ///< each a parcel, of the same number
    Tensor gradient, values;               ///< values: as a worker puts together what came in slices
    std::vector<Tensor> sets;              ///< of rows; none where it is pushed whole
    size_t turn = 0;                       ///< of the sets
    ps::Step step = 0;
    size_t missing = 0;                    ///< answers of the operation under way
    int64_t begun = 0;                     ///< operations of this order
  };

  std::shared_ptr<ps::NetworkTransport> network;
  std::shared_ptr<const ps::Layout> layout;
  std::vector<Layer> layers;
  ps::Sequence sequence = 1;
  BenchPeer::Operation operation{};
  int64_t left = 0, under_way = 0;
  Done done;

  void begin_all() {
    const int64_t slowest = std::ranges::min(layers, {}, &Layer::begun).begun;
    for (Layer& layer : layers)
      if (left > 0 && layer.missing == 0 && layer.begun <= slowest + 1) begin(layer);
  }
  void begin(Layer& layer) {
    --left, ++under_way, ++layer.begun;
    layer.missing = layer.slices.size() * (operation == BenchPeer::Operation::push_pull ? 2 : 1);
    const ps::Step step = layer.step;
    if (operation != BenchPeer::Operation::pull) ++layer.step;
    const Tensor rows = layer.sets.empty() ? Tensor{} : layer.sets[layer.turn++ % layer.sets.size()];
    for (const ps::Slice* slice : layer.slices) {
      if (operation != BenchPeer::Operation::pull) {
        ps::Push push;
        push.sequence = sequence++;
        push.parcel = slice->id;
        push.step = push.schedule_step = step;
        push.samples = 1;
        push.gradients = {rows ? layer.gradient : layer.gradient.view(slice->begin, {slice->count()})};
        push.rows = rows;
        network->send({kWorker, kServer, 1, std::move(push)});
      }
      if (operation != BenchPeer::Operation::push)
        network->send({kWorker, kServer, 1,
                       ps::Pull{slice->id, layer.step, static_cast<uint64_t>(layer.step) + 1, rows}});
    }
  }
  void answered(ps::ParcelId parcel) {
    if (parcel >= layout->slices.size()) return;
    Layer& layer = layers[layout->slices[parcel].layer];
    if (layer.missing == 0 || --layer.missing > 0) return;
    --under_way;
    begin_all();
    if (under_way == 0 && done) std::exchange(done, nullptr)->set_value();
  }
  void put_together(const ps::PullReply& reply) {
    if (reply.parcel >= layout->slices.size() || reply.values.empty()) return;
    const ps::Slice& slice = layout->slices[reply.parcel];
    Layer& layer = layers[slice.layer];
    if (layer.slices.size() == 1) return;
    Tensor part = layer.values.view(slice.begin, {slice.count()});
    std::memcpy(part.raw(), reply.values.front().raw(), std::min(part.bytes(), reply.values.front().bytes()));
  }
  void hear(const ps::Envelope& envelope) {
    if (const auto* ack = std::get_if<ps::PushAck>(&envelope.body)) answered(ack->parcel);
    if (const auto* reply = std::get_if<ps::PullReply>(&envelope.body)) {
      put_together(*reply);
      answered(reply->parcel);
    }
    const auto* refused = std::get_if<ps::Refused>(&envelope.body);
    if (refused && done)
      std::exchange(done, nullptr)
          ->set_exception(std::make_exception_ptr(std::runtime_error(
              cat("the server refused parcel ", refused->parcel, ": ", refused->detail))));
  }
};

struct Order {
  BenchPeer::Operation operation{};
  int64_t count = 0;
  Done done;
};
using OrderPtr = std::shared_ptr<const Order>;

}  // namespace

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(OrderPtr)

/// Its end ends all of it, also where the constructor of the whole has failed half-way.
struct BenchPeer::Impl {
  ~Impl();
  Options options;
  pid_t child = -1;
  int child_input = -1;
  SystemConfig config{0};  // no servers here
  caf::actor_system system{config};
  std::shared_ptr<ps::NetworkTransport> network;
  caf::actor worker;

  ps::NodeAddress start_child(const ps::NodeAddress& own);
  void start_worker();
  /// The server knows its workers and the layout.
  void tell_membership();
  void end_child();
};

BenchPeer::Impl::~Impl() {
  if (network) {
    network->detach(kWorker);
    network->close();
  }
  if (worker) caf::anon_send_exit(std::exchange(worker, nullptr), caf::exit_reason::user_shutdown);
  if (child > 0) end_child();
}

/// It ends with its standard input; if not, it is ended.
void BenchPeer::Impl::end_child() {
  ::close(child_input);
  const double until_s = now_s() + 5;
  while (::waitpid(child, nullptr, WNOHANG) == 0) {
    if (now_s() > until_s) ::kill(child, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

namespace {

/// A line of the pipe, without its end; empty where none comes.
std::string read_line(int from) {
  std::string line;
  for (pollfd file{from, POLLIN, 0};
       ::poll(&file, 1, static_cast<int>(kPatience / std::chrono::milliseconds(1))) == 1;) {
    char byte = 0;
    if (::read(from, &byte, 1) != 1) return "";
    if (byte == '\n') return line;
    line += byte;
  }
  return "";
}

}  // namespace

ps::NodeAddress BenchPeer::Impl::start_child(const ps::NodeAddress& own) {
  int in[2], out[2];
  if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) throw std::runtime_error("cannot make pipes");
  const std::vector<std::string> words = {"troupe", "bench", "peer", "--listen", options.listen, "--layers",
                                          cat(options.layers), "--elements", cat(options.elements), "--slice-bytes",
                                          cat(options.slice_bytes), "--width", cat(options.width),
                                          options.shared_memory ? "--shared-memory" : "--sockets"};
  std::vector<char*> arguments;  // made here: other threads may hold what a child would wait for
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  child = ::fork();
  if (child == 0) {
    ::dup2(in[0], STDIN_FILENO);
    ::dup2(out[1], STDOUT_FILENO);
    ::execv("/proc/self/exe", arguments.data());
    ::_exit(127);
  }
  ::close(in[0]);
  ::close(out[1]);
  child_input = in[1];
  const std::string line = line_of(own);
  if (::write(child_input, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    throw std::runtime_error("the other process does not read");
  const std::string answer = read_line(out[0]);
  ::close(out[0]);
  if (answer.empty()) throw std::runtime_error("the other process did not come up");
  return address_of(answer + '\n');
}

BenchPeer::BenchPeer(Options options) : impl_(std::make_unique<Impl>()) {
  impl_->options = options;
  impl_->network = open(options, kWorkerNode);
  const ps::NodeAddress own = impl_->network->address();
  impl_->network->set_routes(routes(own, impl_->start_child(own)));
  impl_->start_worker();
  impl_->tell_membership();
}

BenchPeer::~BenchPeer() = default;

void BenchPeer::Impl::start_worker() {
  auto client = std::make_shared<Client>();
  client->network = network;
  client->layout = layout_of(options);
  const int64_t pushed = options.width > 0 ? options.rows * options.width : options.elements;
  const std::vector<Tensor> gradients = synthetic_gradients(synthetic_layers(options.layers, pushed));
  const std::vector<std::vector<Tensor>> sets = random_sets(options);
  for (size_t i = 0; i < options.layers; ++i) {
    Tensor gradient = Tensor::to_lend(gradients[i].shape());  // as those of a model
    std::memcpy(gradient.raw(), gradients[i].raw(), gradient.bytes());
    client->layers.push_back(
        {.gradient = std::move(gradient), .values = Tensor::empty(gradients[i].shape()), .sets = sets[i]});
  }
  for (const ps::Slice& slice : client->layout->slices) client->layers[slice.layer].slices.push_back(&slice);
  worker = system.spawn([client](caf::event_based_actor*) -> caf::behavior {
    return {[client](const ps::EnvelopePtr& envelope) { client->hear(*envelope); },
            [client](const OrderPtr& order) {
              client->operation = order->operation;
              client->left = order->count;
              client->done = order->done;
              for (Client::Layer& layer : client->layers) layer.begun = 0;
              client->begin_all();
            }};
  });
  attach_prompt(worker, kWorker, *network);
}

void BenchPeer::Impl::tell_membership() {
  const auto joined = std::make_shared<std::promise<void>>();
  const auto heard = std::make_shared<std::atomic<bool>>(false);
  network->attach(kCoordinator, [joined, heard](const ps::EnvelopePtr& envelope) {
    if (std::holds_alternative<ps::MembershipAck>(envelope->body) && !heard->exchange(true)) joined->set_value();
  });
  ps::Membership membership;
  membership.generation = 1;
  membership.workers = membership.servers = {1};
  membership.layout = layout_of(options);
  membership.rebase = 0;
  auto there = joined->get_future();
  const double until_s = now_s() + std::chrono::duration<double>(kPatience).count();
  do {
    network->send({kCoordinator, kServer, 1, membership});
    if (there.wait_for(std::chrono::milliseconds(100)) == std::future_status::ready) return;
  } while (now_s() < until_s);
  throw std::runtime_error("the server in the other process did not answer");
}

double BenchPeer::run(Operation operation, int64_t count) {
  const auto done = std::make_shared<std::promise<void>>();
  auto answered = done->get_future();
  const double begin_s = now_s();
  caf::anon_send(impl_->worker, std::make_shared<const Order>(Order{operation, count, done}));
  if (answered.wait_for(kPatience) != std::future_status::ready)
    throw std::runtime_error(cat("no answer for ", kPatience.count(), " s: a message was lost"));
  answered.get();
  return now_s() - begin_s;
}

int serve_bench(const BenchPeer::Options& options) {
  std::string line;
  std::getline(std::cin, line);
  const auto network = open(options, kServerNode);
  network->set_routes(routes(address_of(line + '\n'), network->address()));
  SystemConfig config(1);
  caf::actor_system system(config);
  ServerParts parts;
  parts.options.self = kServer;
  parts.options.optimizer = *ps::make_optimizer({.name = "sgd", .learning_rate = 0.01});
  parts.options.global_batch = 1;
  parts.store = ps::make_null_store();
  parts.make_shard = [store = parts.store](const ps::ShardOptions& options) {
    return std::make_unique<ps::Shard>(options, store, [](const ps::Slice& slice) {
      return ps::SliceState{slice.id, Tensor::zeros({slice.count()})};
    });
  };
  parts.transport = network;
  spawn_server(system, std::move(parts));
  std::cout << line_of(network->address()) << std::flush;
  while (std::getline(std::cin, line)) {
  }
  network->send({kCoordinator, kServer, 1, ps::Finish{}});
  network->close();
  return kOk;
}
