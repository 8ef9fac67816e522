// libzmq over ipc, plain or (KIND curve) with CURVE: REQ/REP for calls, DEALER for many at once, PUSH/PULL one way.
#include <fstream>
#include <thread>
#include <zmq.hpp>

#include "contender.hpp"

namespace {

constexpr std::size_t kKeyText = 41;
constexpr std::string_view kLast = "last";

struct Keys {
  char open[kKeyText];
  char secret[kKeyText];
  Keys() { zmq_curve_keypair(open, secret); }
};

std::string address(const std::string& work, const std::string& name) { return "ipc://" + work + "/" + name; }

void guard_server(zmq::socket_t& socket, const Keys& keys) {
  socket.set(zmq::sockopt::curve_server, true);
  socket.set(zmq::sockopt::curve_secretkey, keys.secret);
}

void guard_client(zmq::socket_t& socket, const Keys& keys, const std::string& server_key) {
  socket.set(zmq::sockopt::curve_serverkey, server_key);
  socket.set(zmq::sockopt::curve_publickey, keys.open);
  socket.set(zmq::sockopt::curve_secretkey, keys.secret);
}

// At its limit a REP socket would drop answers.
void without_limits(zmq::socket_t& socket) {
  socket.set(zmq::sockopt::linger, 0);
  socket.set(zmq::sockopt::sndhwm, 0);
  socket.set(zmq::sockopt::rcvhwm, 0);
}

void echo_until_closed(zmq::socket_t& replies) {
  zmq::message_t message;
  while (replies.recv(message)) replies.send(message, zmq::send_flags::none);
}

// Tells the sender once its last message was taken.
void drain_until_closed(zmq::socket_t& messages, zmq::socket_t& done) {
  zmq::message_t message;
  while (messages.recv(message)) {
    if (message.to_string_view() == kLast) done.send(zmq::message_t(), zmq::send_flags::none);
  }
}

template <class Loop>
std::thread until_context_ends(Loop loop) {
  return std::thread([loop] {
    try {
      loop();
    } catch (const zmq::error_t&) {  // ETERM: the context shuts down
    }
  });
}

void serve(const std::string& work, const std::string& kind, const bench::Lifetime& lifetime) {
  const Keys keys;
  std::ofstream(work + "/server.public") << keys.open;
  zmq::context_t context;
  zmq::socket_t replies(context, ZMQ_REP), messages(context, ZMQ_PULL), done(context, ZMQ_PUSH);
  for (zmq::socket_t* socket : {&replies, &messages, &done}) {
    if (kind == "curve") guard_server(*socket, keys);
    without_limits(*socket);
  }
  replies.bind(address(work, "replies"));
  messages.bind(address(work, "messages"));
  done.bind(address(work, "done"));
  std::thread echoing = until_context_ends([&] { echo_until_closed(replies); });
  std::thread draining = until_context_ends([&] { drain_until_closed(messages, done); });
  lifetime.ready();
  lifetime.wait();
  context.shutdown();
  echoing.join();
  draining.join();
}

class Client final : public bench::Client {
 public:
  Client(const std::string& work, const std::string& kind)
      : requests_(context_, ZMQ_REQ), dealer_(context_, ZMQ_DEALER), messages_(context_, ZMQ_PUSH), done_(context_, ZMQ_PULL) {
    std::string server_key;
    std::ifstream(work + "/server.public") >> server_key;
    for (zmq::socket_t* socket : {&requests_, &dealer_, &messages_, &done_}) {
      if (kind == "curve") guard_client(*socket, keys_, server_key);
      without_limits(*socket);
    }
    requests_.connect(address(work, "replies"));
    dealer_.connect(address(work, "replies"));
    messages_.connect(address(work, "messages"));
    done_.connect(address(work, "done"));
  }

  std::size_t echo(const std::string& data) override {
    requests_.send(zmq::buffer(data), zmq::send_flags::none);
    zmq::message_t answer;
    (void)requests_.recv(answer);
    return answer.size();
  }

  void pipeline(const std::string& data, std::size_t count) override {
    for (std::size_t n = 0; n < count; ++n) {
      dealer_.send(zmq::message_t(), zmq::send_flags::sndmore);  // the delimiter that REP expects
      dealer_.send(zmq::buffer(data), zmq::send_flags::none);
    }
    zmq::message_t part;
    for (std::size_t n = 0; n < 2 * count; ++n) (void)dealer_.recv(part);
  }

  // libzmq itself batches what waits, so `batch` changes nothing.
  void send(const std::string& data, std::size_t count, bool) override {
    for (std::size_t n = 0; n + 1 < count; ++n) messages_.send(zmq::buffer(data), zmq::send_flags::none);
    messages_.send(zmq::buffer(kLast), zmq::send_flags::none);
    zmq::message_t last;
    (void)done_.recv(last);
  }

 private:
  const Keys keys_;
  zmq::context_t context_;
  zmq::socket_t requests_, dealer_, messages_, done_;
};

}  // namespace

int main(int count, char** words) {
  return bench::run(count, words, serve, [](const std::string& work, const std::string& kind) {
    return std::make_unique<Client>(work, kind);
  });
}
