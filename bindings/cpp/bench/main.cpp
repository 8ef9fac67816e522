// speed-bench-cpp rtt|pipeline|oneway|batch [--bytes N] [--count N] [--root DIR] [--spin SECONDS] [--json]
// Measures two nodes in two processes, which it starts itself in a root of its own.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "fs/keys/key_store.hpp"
#include "speed/speed.hpp"

#include <sodium.h>

namespace {

using Clock = std::chrono::steady_clock;

struct Settings {
  std::string mode = "rtt";
  std::size_t bytes = 200;
  std::size_t count = 0;  // 0: what suits the mode
  std::string root = "/dev/shm";
  double spin_seconds = speed::NodeOptions{}.spin.count();
  bool json = false;
};

struct Result {
  std::string unit;
  double p50 = 0;
  double p99 = 0;
  double per_second = 0;
};

double seconds_since(Clock::time_point began) { return std::chrono::duration<double>(Clock::now() - began).count(); }

// A root that goes with its object.
class Root {
 public:
  explicit Root(const Settings& settings)
      : path_(settings.root + "/speed-bench-" + std::to_string(getpid())), spin_seconds_(settings.spin_seconds) {
    std::filesystem::create_directory(path_);
    std::filesystem::permissions(path_, std::filesystem::perms::owner_all);
    speed::wire::Key key;
    randombytes_buf(key.data(), key.size());
    speed::fs::write_key_file(key_path(), {key});
  }
  Root(const Root&) = delete;
  Root& operator=(const Root&) = delete;
  ~Root() { std::filesystem::remove_all(path_); }

  std::string key_path() const { return path_ + "/speed.key"; }
  speed::NodeOptions options() const {
    speed::NodeOptions options;
    options.root = path_;
    options.key = key_path();
    options.spin = speed::Seconds(spin_seconds_);
    return options;
  }

 private:
  std::string path_;
  double spin_seconds_;
};

// The other process: echoes calls, counts messages; it ends when its input does.
[[noreturn]] void be_server(const Root& root, int input) {
  speed::NodeOptions options = root.options();
  options.allow = {"client"};
  prctl(PR_SET_NAME, "speed-bench-srv");  // tells the two apart in a profile
  {
    speed::Node node("server", options);
    std::atomic<std::int64_t> handled = 0;
    node.serve("echo",
               [](const speed::Request& request) -> speed::Response { return request.get<speed::Value>("data"); });
    node.serve("handled", [&](const speed::Request&) -> speed::Response { return speed::Value(handled.load()); });
    node.on_message([&](speed::Message&) { ++handled; });
    char byte = 0;
    while (read(input, &byte, 1) < 0 && errno == EINTR) {
    }
  }
  _exit(0);
}

Result round_trips(speed::Node& node, const Settings& settings) {
  const std::size_t count = settings.count == 0 ? 20000 : settings.count;
  const speed::Map arguments{{"data", speed::Bytes(settings.bytes, std::byte{7})}};
  for (int warm = 0; warm < 500; ++warm) node.call("server", "echo", arguments);
  std::vector<double> times;
  const auto began = Clock::now();
  for (std::size_t n = 0; n < count; ++n) {
    const auto start = Clock::now();
    node.call("server", "echo", arguments);
    times.push_back(seconds_since(start) * 1e6);
  }
  const double all = seconds_since(began);
  std::ranges::sort(times);
  return {"us", times[count / 2], times[count * 99 / 100], static_cast<double>(count) / all};
}

Result pipelined(speed::Node& node, const Settings& settings) {
  const std::size_t count = settings.count == 0 ? 50000 : settings.count;
  const speed::Map arguments{{"data", speed::Bytes(settings.bytes, std::byte{7})}};
  node.call("server", "echo", arguments);
  std::vector<std::future<speed::Value>> futures;
  const auto began = Clock::now();
  for (std::size_t n = 0; n < count; ++n) futures.push_back(node.submit("server", "echo", arguments));
  for (auto& future : futures) future.get();
  return {"calls/s", 0, 0, static_cast<double>(count) / seconds_since(began)};
}

// Until the receiver handled the last one.
Result one_way(speed::Node& node, const Settings& settings) {
  const std::size_t count = settings.count == 0 ? 200000 : settings.count;
  const speed::Value payload = speed::Bytes(settings.bytes, std::byte{7});
  const std::vector<speed::Value> batch(64, payload);
  speed::SendOptions options;
  options.timeout = speed::Seconds(60);
  std::size_t sent = 0;
  const auto began = Clock::now();
  while (sent < count) {
    if (settings.mode == "batch") {
      node.send_all("server", batch, options);
      sent += batch.size();
    } else {
      node.send("server", payload, options);
      ++sent;
    }
  }
  const double sending = static_cast<double>(sent) / seconds_since(began);
  while (node.call("server", "handled").as<std::uint64_t>() < sent) usleep(1000);
  std::cerr << "sent at " << static_cast<std::int64_t>(sending) << " messages/s\n";
  return {"messages/s", 0, 0, static_cast<double>(sent) / seconds_since(began)};
}

Result measure(const Root& root, const Settings& settings) {
  speed::Node node("client", root.options());
  node.wait_for("server");
  if (settings.mode == "rtt") return round_trips(node, settings);
  if (settings.mode == "pipeline") return pipelined(node, settings);
  return one_way(node, settings);
}

void print(const Settings& settings, const Result& result) {
  if (settings.json) {
    std::printf("{\"mode\":\"%s\",\"bytes\":%zu,\"p50_us\":%.2f,\"p99_us\":%.2f,\"per_second\":%.0f}\n",
                settings.mode.c_str(), settings.bytes, result.p50, result.p99, result.per_second);
  } else if (settings.mode == "rtt") {
    std::printf("%zu bytes: p50 %.1f us, p99 %.1f us\n", settings.bytes, result.p50, result.p99);
  } else {
    std::printf("%zu bytes: %.0f %s\n", settings.bytes, result.per_second, result.unit.c_str());
  }
}

Settings parse(const std::vector<std::string>& words) {
  Settings settings;
  for (std::size_t at = 0; at < words.size(); ++at) {
    const bool has_value = at + 1 < words.size();
    if (words[at] == "--json") {
      settings.json = true;
    } else if (words[at] == "--bytes" && has_value) {
      settings.bytes = std::stoul(words[++at]);
    } else if (words[at] == "--count" && has_value) {
      settings.count = std::stoul(words[++at]);
    } else if (words[at] == "--spin" && has_value) {
      settings.spin_seconds = std::stod(words[++at]);
    } else if (words[at] == "--root" && has_value) {
      settings.root = words[++at];
    } else {
      settings.mode = words[at];
    }
  }
  return settings;
}

}  // namespace

int main(int count, char** words) {
  const Settings settings = parse({words + 1, words + count});
  if (sodium_init() < 0) return 1;
  const Root root(settings);
  int ends[2];
  if (pipe(ends) != 0) return 1;
  const pid_t server = fork();
  if (server == 0) {
    close(ends[1]);
    be_server(root, ends[0]);
  }
  close(ends[0]);
  int status = 0;
  try {
    print(settings, measure(root, settings));
  } catch (const speed::Error& error) {
    std::cerr << error.code() << ": " << error.what() << "\n";
    status = 1;
  }
  close(ends[1]);
  waitpid(server, nullptr, 0);
  return status;
}
