// SPEED's blocking call, its futures and its messages: encrypted, authorised, through files.
#include <speed/speed.hpp>

#include <chrono>

#include "contender.hpp"

namespace {

using namespace std::chrono_literals;

constexpr std::size_t kBatch = 64;
constexpr std::chrono::seconds kWait = 60s;
constexpr std::chrono::seconds kLease = 300s;  // longer than any case keeps a server stopped, or a shared machine stands still

bool has(const std::string& kind, const char* word) { return kind.find(word) != std::string::npos; }

// `kind` has in it: "disk" is durable, "blocking" does not poll, of a server "unread" leaves messages where they are.
speed::NodeOptions options_in(const std::string& work, const std::string& kind) {
  speed::NodeOptions options;
  options.root = work + "/root";
  options.key = work + "/speed.key";
  options.allow = {"client", "crowd.*"};
  options.lease = kLease;
  options.durable = has(kind, "disk");
  if (has(kind, "blocking")) options.spin = 0s;
  return options;
}

void serve(const std::string& work, const std::string& kind, const bench::Lifetime& lifetime) {
  speed::Node node("server", options_in(work, kind));
  const auto echo = [](const speed::Request& request) -> speed::Response { return request.get<speed::Value>("data"); };
  node.serve("echo", echo, {.views = true});
  node.serve("tax", speed::by_row([](const speed::Request& row) -> speed::Response { return row.get<double>("amount") * 0.18; }));
  if (!has(kind, "unread")) node.on_message([](speed::Message&) {});
  lifetime.ready();
  lifetime.wait();
}

speed::Bytes bytes_of(const std::string& data) {
  const auto* const begin = reinterpret_cast<const std::byte*>(data.data());
  return {begin, begin + data.size()};
}

// Moved in: a list of initialisers would be copied from.
speed::Map arguments_of(const std::string& data) {
  speed::Map arguments;
  arguments.set("data", bytes_of(data));
  return arguments;
}

class Client final : public bench::Client {
 public:
  Client(const std::string& work, const std::string& kind) : node_("client", options_in(work, kind)) {
    node_.wait_for("server");
  }

  std::size_t echo(const std::string& data) override {
    return node_.call("server", "echo", arguments_of(data), {.views = true}).as<speed::ByteView>().size();
  }

  void pipeline(const std::string& data, std::size_t count) override {
    const speed::Map arguments = arguments_of(data);
    std::vector<std::future<speed::Value>> futures;
    futures.reserve(count);
    for (std::size_t n = 0; n < count; ++n) futures.push_back(node_.submit("server", "echo", arguments));
    for (auto& future : futures) future.get();
  }

  // Messages of one sender are handled in order: when the last one is, all are.
  void send(const std::string& data, std::size_t count, bool batch) override {
    const speed::Value payload = bytes_of(data);
    speed::SendOptions options;
    options.timeout = kWait;
    std::size_t sent = 0;
    if (batch) {
      const std::vector<speed::Value> payloads(kBatch, payload);
      for (; sent + kBatch < count; sent += kBatch) node_.send_all("server", payloads, options);
    }
    for (; sent + 1 < count; ++sent) node_.send("server", payload, options);
    options.ack = true;
    node_.send("server", payload, options);
  }

 private:
  speed::Node node_;
};

}  // namespace

int main(int count, char** words) {
  return bench::run(count, words, serve, [](const std::string& work, const std::string& kind) {
    return std::make_unique<Client>(work, kind);
  });
}
