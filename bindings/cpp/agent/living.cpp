// A process with several nodes and threads that do what comes to their minds: the C++ counterpart of
// tests/torture/living.py, which says how it is told what to do and what it writes down.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "speed/error.hpp"
#include "speed/node.hpp"

namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;
using speed::Value;

constexpr double call_seconds = 3.0;
constexpr double drain_seconds = 2.0;
constexpr std::size_t segment_bytes = 65'536;
constexpr std::size_t large_bytes = 300'000;
const std::string family = "life.*";

struct Setting {
  explicit Setting(const Json& settings)
      : root(settings.at("root")),
        journal(settings.at("journal")),
        prefix(settings.at("prefix")),
        seed(settings.at("seed")),
        seconds(settings.at("seconds")),
        grace(settings.at("grace")),
        threads(settings.at("threads")),
        names(settings.at("names").get<std::vector<std::string>>()),
        others(settings.at("others").get<std::vector<std::string>>()) {}

  std::string root, journal, prefix;
  std::uint64_t seed;
  double seconds, grace;
  unsigned threads;
  std::vector<std::string> names, others;
};

speed::CallOptions within(double seconds) {
  speed::CallOptions options;
  options.timeout = speed::Seconds(seconds);
  return options;
}

// Facts, a line each. Any thread writes.
class Journal {
 public:
  explicit Journal(const std::string& path)
      : file_(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) {}

  void tell(std::string line) {
    std::replace(line.begin(), line.end(), '\n', ' ');
    line += '\n';
    if (write(file_, line.data(), line.size()) < 0) std::perror("journal");
  }
  // What no program should ever see.
  void foreign(const std::string& where, const std::string& what) { tell("foreign " + where + " " + what); }

 private:
  int file_;
};

// The nodes by name. Each may be closed and started again at any moment, whoever uses it.
class Household {
 public:
  Household(const Setting& setting, Journal& journal) : setting_(setting), journal_(journal) {
    for (const std::string& name : setting.names) turns_[name];
  }

  void start_all() {
    for (const std::string& name : setting_.names) {
      const auto node = find(name);
      if (!node || node->closed()) start(name);
    }
  }

  std::shared_ptr<speed::Node> find(const std::string& name) {
    const std::lock_guard guard(lock_);
    const auto found = nodes_.find(name);
    return found == nodes_.end() ? nullptr : found->second;
  }

  // Close and start again, unless another thread does so.
  void turn_over(const std::string& name, double drain) {
    const std::unique_lock turn(turns_.at(name), std::try_to_lock);
    if (!turn) return;
    close(name, *find(name), drain);
    start(name);
  }

  void close_all() {
    const std::lock_guard guard(lock_);
    for (auto& [name, node] : nodes_) close(name, *node, drain_seconds);
    nodes_.clear();
  }

 private:
  void close(const std::string& name, speed::Node& node, double drain) {
    try {
      std::string counts;
      const speed::Map counters = node.stats().find("counters")->as<speed::Map>();
      for (const speed::Member& each : counters) {
        counts += " " + each.key.as<std::string>() + "=" + std::to_string(each.value.as<std::int64_t>());
      }
      journal_.tell("counted " + name + counts);
    } catch (const speed::Error& error) {
      journal_.tell("refused stats " + std::string(error.code()));
    }
    node.close(speed::Seconds(drain));
  }

  void start(const std::string& name) {
    speed::NodeOptions options;
    options.root = setting_.root;
    options.key = setting_.root + "/speed.key";
    options.heartbeat = speed::Seconds(0.5);
    options.workers = 2;
    options.allow = {family};
    const auto node = std::make_shared<speed::Node>(name, options);
    const auto took = [this, name](speed::Message& message) {
      const auto id = message.payload().as<speed::Map>().find("id")->as<std::string>();
      journal_.tell("took " + id + " " + name + (message.redelivered() ? " again" : " first"));
    };
    node->on_message(took);
    node->subscribe(family, took);
    node->serve("note", [this](const speed::Request& request) -> speed::Response { return note(request); });
    node->serve("relay", [this, weak = std::weak_ptr(node)](const speed::Request& request) -> speed::Response {
      const auto own = weak.lock();
      return own ? relay(*own, request) : Value("");
    });
    const std::lock_guard guard(lock_);
    nodes_[name] = node;
  }

  Value note(const speed::Request& request) {
    journal_.tell("ran " + request.get<std::string>("id"));
    return request.get<std::string>("id");
  }

  // A call within a call; empty when it failed.
  Value relay(speed::Node& node, const speed::Request& request) {
    try {
      return node.call(request.get<std::string>("target"), "note", {{"id", request.get<std::string>("id")}},
                       within(call_seconds / 2));
    } catch (const speed::Error&) {
      return Value("");
    }
  }

  const Setting& setting_;
  Journal& journal_;
  std::mutex lock_;
  std::map<std::string, std::shared_ptr<speed::Node>> nodes_;
  std::map<std::string, std::mutex> turns_;
};

// Does one thing after the other.
class Person {
 public:
  Person(const Setting& setting, Household& household, Journal& journal, unsigned number)
      : setting_(setting),
        household_(household),
        journal_(journal),
        random_(setting.seed * 1000 + number),
        prefix_(setting.prefix + "." + std::to_string(number) + ".") {
    add(6, "call", call_seconds, [this] { call(); });
    add(6, "send", call_seconds, [this] { send(); });
    add(6, "publish", call_seconds, [this] { publish(); });
    add(2, "relay", call_seconds, [this] { relay(); });
    add(2, "withdraw", call_seconds, [this] { withdraw(); });
    add(1, "send_large", 2 * call_seconds, [this] { send_large(); });
    add(1, "look", call_seconds, [this] { look(); });
    add(1, "grant", 1.0, [this] { grant(); });
    add(1, "turn_over", 2 * drain_seconds, [this] { turn_over(); });
  }

  void live(Clock::time_point until) {
    while (Clock::now() < until) {
      const Act& act = acts_[below(acts_.size())];
      const auto began = Clock::now();
      attempt(act);
      const double took = std::chrono::duration<double>(Clock::now() - began).count();
      if (took > act.bound + setting_.grace) journal_.tell("late " + act.name + " " + std::to_string(took));
    }
  }

 private:
  struct Act {
    std::string name;
    double bound;
    std::function<void()> run;
  };

  void add(int times, const std::string& name, double bound, std::function<void()> run) {
    for (int time = 0; time < times; ++time) acts_.push_back({name, bound, run});
  }

  void attempt(const Act& act) {
    try {
      act.run();
    } catch (const speed::Error& error) {
      journal_.tell("refused " + act.name + " " + std::string(error.code()));
    } catch (const std::exception& error) {
      journal_.foreign(act.name, error.what());
    }
  }

  std::size_t below(std::size_t bound) { return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random_); }
  const std::string& other() { return setting_.others[below(setting_.others.size())]; }

  // Perhaps one that another thread closes meanwhile; one that is closed is seldom worth a try.
  std::shared_ptr<speed::Node> node() {
    const auto found = household_.find(setting_.names[below(setting_.names.size())]);
    return found->closed() ? household_.find(setting_.names[below(setting_.names.size())]) : found;
  }

  std::string next() { return prefix_ + std::to_string(count_++); }

  // How a call ended: its answer, or an error and whether the call may have begun.
  void ended(const std::string& id, const std::function<Value()>& result) {
    try {
      journal_.tell((result().as<std::string>() == id ? "answered " : "failed ") + id + " RELAY maybe");
    } catch (const speed::Error& error) {
      const bool never = error.execution() == speed::Execution::not_begun;
      journal_.tell("failed " + id + " " + std::string(error.code()) + (never ? " never" : " maybe"));
    }
  }

  void call() {
    const std::string id = next();
    ended(id, [&] { return node()->call(other(), "note", {{"id", id}}, within(call_seconds)); });
  }

  void relay() {
    const std::string id = next();
    ended(id, [&] { return node()->call(other(), "relay", {{"target", other()}, {"id", id}}, within(call_seconds)); });
  }

  void withdraw() {
    const std::string id = next();
    std::stop_source stop;
    speed::CallOptions options = within(call_seconds);
    stop_by(options, stop);
    auto future = node()->submit(other(), "note", {{"id", id}}, options);
    std::this_thread::sleep_for(std::chrono::microseconds(below(3000)));
    stop.request_stop();
    ended(id, [&]() -> Value {
      if (future.wait_for(std::chrono::duration<double>(2 * call_seconds)) == std::future_status::ready)
        return future.get();
      throw std::runtime_error("a call without an end");
    });
  }

  void send() {
    const std::string id = next();
    const std::string& target = other();
    speed::SendOptions options;
    options.timeout = speed::Seconds(call_seconds);
    options.ack = below(2) == 0;
    node()->send(target, speed::Map{{"id", id}, {"filler", std::string(below(2000), 'x')}}, options);
    journal_.tell("sent " + id + " " + target);
  }

  void send_large() {
    const std::string id = next();
    const std::string& target = other();
    const auto own = node();
    own->segment(target, below(2) == 0 ? std::optional(segment_bytes) : std::nullopt);
    own->send(target, speed::Map{{"id", id}, {"filler", std::string(large_bytes, 'x')}}, {});
    journal_.tell("sent " + id + " " + target);
    own->segment(target, std::nullopt);
  }

  void publish() {
    const std::string id = next();
    journal_.tell("published " + id + names_of(node()->publish("life.event", speed::Map{{"id", id}})));
  }

  // Where calls can be withdrawn.
  template <class Options>
  static void stop_by(Options& options, const std::stop_source& stop) {
    if constexpr (requires { options.stop; }) options.stop = stop.get_token();
  }

  // Who got an event, where that is told.
  template <class Result>
  static std::string names_of(const Result& result) {
    std::string names;
    if constexpr (requires { result.delivered; }) {
      for (const std::string& name : result.delivered) names += " " + name;
    }
    return names;
  }

  void look() {
    const std::size_t which = below(4);
    const auto own = node();
    if (which == 0) own->ping(other(), speed::Seconds(call_seconds));
    if (which == 1) own->services(other(), speed::Seconds(call_seconds));
    if (which == 2) own->info(other(), speed::Seconds(call_seconds));
    if (which == 3) own->stats(other(), speed::Seconds(call_seconds));
    own->nodes();
  }

  // Of what nobody here is called.
  void grant() {
    const std::string guests = "guest." + std::to_string(below(9)) + ".*";
    if (below(2) == 0) {
      node()->allow({guests});
    } else {
      node()->deny({guests});
    }
  }

  void turn_over() {
    household_.turn_over(setting_.names[below(setting_.names.size())], below(2) == 0 ? 0.1 : drain_seconds);
  }

  const Setting& setting_;
  Household& household_;
  Journal& journal_;
  std::mt19937_64 random_;
  std::string prefix_;
  std::uint64_t count_ = 0;
  std::vector<Act> acts_;
};

std::vector<std::string> descriptors() {
  std::vector<std::string> open;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const auto path = std::filesystem::read_symlink(each.path(), gone);
    if (!gone) open.push_back(path.string());
  }
  std::sort(open.begin(), open.end());
  return open;
}

void live(const Setting& setting, Household& household, Journal& journal) {
  const auto until =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(setting.seconds));
  std::vector<std::thread> people;
  for (unsigned number = 0; number < setting.threads; ++number) {
    people.emplace_back([&, number] { Person(setting, household, journal, number).live(until); });
  }
  for (std::thread& person : people) person.join();
}

std::string read_line() {
  std::string line;
  std::getline(std::cin, line);
  return line;
}

}  // namespace

int main() {
  const Setting setting(Json::parse(read_line()));
  Journal journal(setting.journal);
  Household household(setting, journal);
  household.start_all();
  household.close_all();
  const auto before = descriptors();
  household.start_all();
  std::cout << "ready" << std::endl;
  read_line();
  live(setting, household, journal);
  household.start_all();
  std::cout << "quiet" << std::endl;
  read_line();
  household.close_all();
  const auto after = descriptors();
  std::cerr << "open before: " << Json(before) << " open now: " << Json(after) << "\n";
  std::cout << "descriptors " << before.size() << " " << after.size() << std::endl;
}
