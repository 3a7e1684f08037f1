// What ZeroMQ alone moves between two processes, without copies on either side: what tools/bench/network holds Troupe
// against.
//
//   raw_zmq ADDRESS BYTES WINDOW SECONDS [work|back]     bytes acknowledged a second, with WINDOW messages under way
//
// ADDRESS is tcp://127.0.0.1:* or ipc:///path. The other process takes a message of BYTES and answers with one byte;
// WINDOW 1 is request and reply. With `work` both sides do what no push can do without: a checksum at each end, and the
// optimizer's update, on the threads that send and receive. What is left is what Troupe's actors and envelopes cost.
// With `back` the answer is as long as the message, and neither is looked at: no push-pull over ZeroMQ can be faster.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <malloc.h>
#include <zmq.hpp>

#include <troupe/ps/param/optimizer.h>
#include <troupe/ps/wire/internal/checksum.h>

namespace {

constexpr int kPatienceMs = 20'000;

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

zmq::socket_t open(zmq::context_t& context) {
  zmq::socket_t socket(context, zmq::socket_type::pair);
  socket.set(zmq::sockopt::rcvtimeo, kPatienceMs);
  socket.set(zmq::sockopt::sndtimeo, kPatienceMs);
  socket.set(zmq::sockopt::linger, 0);
  return socket;
}

/// What a server does with a push: as many parameters as the messages under way have, each updated in turn.
class Work {
 public:
  Work(bool wanted, size_t bytes, int window)
      : parameters_(wanted ? static_cast<size_t>(window) : 0, std::vector<float>(bytes / sizeof(float), 0.5F)) {}

  void operator()(const zmq::message_t& message) {
    if (parameters_.empty()) return;
    sum_ = sum_ ^ checksum(message.data(), message.size());
    std::vector<float>& values = parameters_[done_++ % parameters_.size()];
    const std::span gradient(static_cast<const float*>(message.data()), values.size());
    const std::vector<troupe::ps::Segment> segments = {
        {0, static_cast<int64_t>(values.size()), troupe::ParamKind::weight}};
    troupe::ps::SliceUpdate update;
    update.in = values;
    update.out = values;
    update.gradients = {&gradient, 1};
    update.segments = segments;
    optimizer_->apply(update);
  }
  static uint64_t checksum(const void* data, size_t bytes) {
    return troupe::ps::wire::checksum_of({static_cast<const std::byte*>(data), bytes});
  }

 private:
  std::vector<std::vector<float>> parameters_;
  std::shared_ptr<const troupe::ps::Optimizer> optimizer_ =
      *troupe::ps::make_optimizer({.name = "sgd", .learning_rate = 0.01});
  size_t done_ = 0;
  volatile uint64_t sum_ = 0;  // somebody looks at it
};

/// Until a message of no bytes. The pipe says where to connect.
int answer(int from, Work work, size_t answer_bytes) {
  const std::vector<std::byte> data(answer_bytes);
  char address[256] = "";
  if (::read(from, address, sizeof address - 1) <= 0) return 1;
  zmq::context_t context;
  zmq::socket_t socket = open(context);
  socket.connect(address);
  for (zmq::message_t message; socket.recv(message) && message.size() > 0;) {
    work(message);
    zmq::message_t reply(const_cast<std::byte*>(data.data()), data.size(), [](void*, void*) {}, nullptr);
    if (!socket.send(reply, zmq::send_flags::none)) return 1;
  }
  return 0;
}

void send(zmq::socket_t& socket, const std::vector<float>& data, bool work) {
  [[maybe_unused]] volatile uint64_t sum = 0;
  const size_t bytes = data.size() * sizeof(float);
  if (work) sum = Work::checksum(data.data(), bytes);
  zmq::message_t message(const_cast<float*>(data.data()), bytes, [](void*, void*) {}, nullptr);
  if (!socket.send(message, zmq::send_flags::none)) throw std::runtime_error("nobody reads");
}

void hear(zmq::socket_t& socket) {
  zmq::message_t reply;
  if (!socket.recv(reply)) throw std::runtime_error("nobody answers");
}

/// Messages acknowledged a second.
double rate(zmq::socket_t& socket, size_t bytes, int window, double seconds, bool work) {
  const std::vector<std::vector<float>> data(static_cast<size_t>(window), std::vector<float>(bytes / 4, 0.01F));
  for (const auto& each : data) send(socket, each, work);
  size_t count = 0;
  const auto for_seconds = [&](double length_s) {
    const double begin_s = now_s();
    for (count = 0; now_s() - begin_s < length_s; ++count) hear(socket), send(socket, data[count % data.size()], work);
    return now_s() - begin_s;
  };
  for_seconds(seconds / 4);
  const double took_s = for_seconds(seconds);
  for (int i = 0; i < window; ++i) hear(socket);
  return static_cast<double>(count) / took_s;
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string how = argc == 6 ? argv[5] : "";
  const bool work = how == "work", back = how == "back";
  if (argc != 5 && !work && !back) {
    std::fprintf(stderr, "usage: raw_zmq ADDRESS BYTES WINDOW SECONDS [work|back]\n");
    return 2;
  }
  // A received message is a fresh block each time; without this every one of them is mapped and cleared anew.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  const size_t bytes = std::strtoull(argv[2], nullptr, 10);
  const int window = std::atoi(argv[3]);
  int pipe[2];
  if (::pipe(pipe) != 0) return 1;
  const pid_t child = ::fork();
  if (child == 0) ::_exit(answer(pipe[0], Work(work, bytes, window), back ? bytes : 1));
  int code = 0;
  try {
    zmq::context_t context;
    zmq::socket_t socket = open(context);
    socket.bind(argv[1]);
    const std::string address = socket.get(zmq::sockopt::last_endpoint);
    if (::write(pipe[1], address.data(), address.size()) < 0) throw std::runtime_error("the other process is gone");
    const double messages = rate(socket, bytes, window, std::atof(argv[4]), work);
    std::printf("%.2f us %.1f MB/s\n", 1e6 / messages, messages * static_cast<double>(bytes) / 1e6);
    socket.send(zmq::const_buffer(), zmq::send_flags::none);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    ::kill(child, SIGKILL);
    code = 1;
  }
  ::waitpid(child, nullptr, 0);
  return code;
} catch (const std::exception& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
