// What ZeroMQ alone moves between two processes, without copies on either side: what tools/bench/network holds Troupe
// against.
//
//   raw_zmq ADDRESS BYTES WINDOW SECONDS      bytes acknowledged a second, with WINDOW messages under way
//
// ADDRESS is tcp://127.0.0.1:* or ipc:///path. The other process takes a message of BYTES and answers with one byte;
// WINDOW 1 is request and reply.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <malloc.h>
#include <zmq.hpp>

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

/// Until a message of no bytes. The pipe says where to connect.
int answer(int from) {
  char address[256] = "";
  if (::read(from, address, sizeof address - 1) <= 0) return 1;
  zmq::context_t context;
  zmq::socket_t socket = open(context);
  socket.connect(address);
  for (zmq::message_t message; socket.recv(message) && message.size() > 0;)
    if (!socket.send(zmq::str_buffer("1"))) return 1;
  return 0;
}

void send(zmq::socket_t& socket, const std::vector<char>& data) {
  zmq::message_t message(const_cast<char*>(data.data()), data.size(), [](void*, void*) {}, nullptr);
  if (!socket.send(message, zmq::send_flags::none)) throw std::runtime_error("nobody reads");
}

void hear(zmq::socket_t& socket) {
  zmq::message_t reply;
  if (!socket.recv(reply)) throw std::runtime_error("nobody answers");
}

/// Messages acknowledged a second.
double rate(zmq::socket_t& socket, size_t bytes, int window, double seconds) {
  const std::vector<std::vector<char>> data(static_cast<size_t>(window), std::vector<char>(bytes, 1));
  for (const auto& each : data) send(socket, each);
  size_t count = 0;
  const auto for_seconds = [&](double length_s) {
    const double begin_s = now_s();
    for (count = 0; now_s() - begin_s < length_s; ++count) hear(socket), send(socket, data[count % data.size()]);
    return now_s() - begin_s;
  };
  for_seconds(seconds / 4);
  const double took_s = for_seconds(seconds);
  for (int i = 0; i < window; ++i) hear(socket);
  return static_cast<double>(count) / took_s;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 5) {
    std::fprintf(stderr, "usage: raw_zmq ADDRESS BYTES WINDOW SECONDS\n");
    return 2;
  }
  // A received message is a fresh block each time; without this every one of them is mapped and cleared anew.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  int pipe[2];
  if (::pipe(pipe) != 0) return 1;
  const pid_t child = ::fork();
  if (child == 0) ::_exit(answer(pipe[0]));
  const size_t bytes = std::strtoull(argv[2], nullptr, 10);
  int code = 0;
  try {
    zmq::context_t context;
    zmq::socket_t socket = open(context);
    socket.bind(argv[1]);
    const std::string address = socket.get(zmq::sockopt::last_endpoint);
    if (::write(pipe[1], address.data(), address.size()) < 0) throw std::runtime_error("the other process is gone");
    const double messages = rate(socket, bytes, std::atoi(argv[3]), std::atof(argv[4]));
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
