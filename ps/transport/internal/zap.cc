#include <troupe/ps/transport/internal/zap.h>

#include <utility>
#include <vector>

namespace troupe::ps {
namespace {

// Frames of a request.
enum { kVersion, kRequest, kDomain, kAddress, kIdentity, kMechanism, kCredentials, kFrames };
constexpr size_t kKeyBytes = 32;

std::vector<std::string> receive_all(zmq::socket_t& socket) {
  std::vector<std::string> frames;
  zmq::message_t frame;
  while (zmq_msg_recv(frame.handle(), socket.handle(), ZMQ_DONTWAIT) >= 0) {
    frames.push_back(frame.to_string());
    if (!frame.more()) break;
  }
  return frames;
}

std::string key_in(const std::string& credentials) {
  char text[41] = "";
  if (credentials.size() == kKeyBytes)
    zmq_z85_encode(text, reinterpret_cast<const uint8_t*>(credentials.data()), kKeyBytes);
  return text;
}

}  // namespace

ZapHandler::ZapHandler(zmq::context_t& context, std::shared_ptr<const Keys> keys,
                       std::function<void(const std::string&, const std::string&)> refused)
    : keys_(std::move(keys)), refused_(std::move(refused)), socket_(context, zmq::socket_type::rep) {
  socket_.set(zmq::sockopt::linger, 0);
  socket_.bind("inproc://zeromq.zap.01");
  fd_ = socket_.get(zmq::sockopt::fd);
}

void ZapHandler::serve() {
  for (;;) {
    const auto frames = receive_all(socket_);
    if (frames.empty()) return;
    std::string key;
    if (frames.size() == kFrames && frames[kMechanism] == "CURVE") key = key_in(frames[kCredentials]);
    const auto known = keys_->allowed.find(key);
    const bool allowed = known != keys_->allowed.end();
    const std::vector<std::string> answer = {"1.0",
                                             frames.size() > kRequest ? frames[kRequest] : "",
                                             allowed ? "200" : "400",
                                             allowed ? "OK" : "this run does not know the key",
                                             allowed ? name_of(known->second) : "",
                                             ""};
    for (size_t i = 0; i < answer.size(); ++i)
      zmq_send(socket_.handle(), answer[i].data(), answer[i].size(), i + 1 < answer.size() ? ZMQ_SNDMORE : 0);
    if (!allowed)
      refused_(frames.size() > kAddress ? frames[kAddress] : "?", "key " + key + " is not in the run's list");
  }
}

}  // namespace troupe::ps
