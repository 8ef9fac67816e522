#include "contender.hpp"

#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

namespace bench {

namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

std::string random_bytes(std::size_t size) {
  std::mt19937_64 source(std::random_device{}());
  std::string data(size, '\0');
  for (char& byte : data) byte = static_cast<char>(source());
  return data;
}

double seconds_since(Clock::time_point began) { return std::chrono::duration<double>(Clock::now() - began).count(); }

json measure_echo(Client& client, const std::string& data, std::size_t count, std::size_t warm) {
  for (std::size_t n = 0; n < warm; ++n) client.echo(data);
  std::vector<std::int64_t> samples(count);
  for (auto& sample : samples) {
    const auto began = Clock::now();
    const std::size_t size = client.echo(data);
    sample = std::chrono::nanoseconds(Clock::now() - began).count();
    if (size != data.size()) throw std::runtime_error("an echo of another size");
  }
  return {{"ns", samples}};
}

// How many a second when each thread does its share.
json measure_rate(const json& command, const std::function<void(std::size_t)>& act) {
  const std::size_t count = command["count"], threads = command.value("threads", 1);
  act(command["warm"]);
  const auto began = Clock::now();
  {
    std::vector<std::jthread> others;
    for (std::size_t n = 1; n < threads; ++n) others.emplace_back(act, count / threads);
    act(count / threads);
  }
  return {{"per_second", static_cast<double>(count / threads * threads) / seconds_since(began)}};
}

json obey(Client& client, const json& command) {
  const std::string data = random_bytes(command["bytes"]);
  const std::string what = command["do"];
  if (what == "echo") return measure_echo(client, data, command["count"], command["warm"]);
  if (what == "pipeline") {
    return measure_rate(command, [&](std::size_t calls) { client.pipeline(data, calls); });
  }
  if (what == "send") {
    const bool batch = command.value("batch", false);
    return measure_rate(command, [&](std::size_t messages) { client.send(data, messages, batch); });
  }
  throw std::runtime_error("no measurement " + what);
}

}  // namespace

void Lifetime::ready() const { std::cout << "ready" << std::endl; }

void Lifetime::wait() const {
  for (std::string line; std::getline(std::cin, line);) {
  }
}

int run(int count, char** words, const Serve& serve, const Connect& connect) {
  if (count < 3) {
    std::cerr << "usage: " << words[0] << " server|client WORK [KIND]\n";
    return 2;
  }
  const std::string work = words[2], kind = count > 3 ? words[3] : "";
  const Lifetime lifetime;
  try {
    if (words[1] == std::string("server")) {
      serve(work, kind, lifetime);
      return 0;
    }
    const std::unique_ptr<Client> client = connect(work, kind);
    lifetime.ready();
    for (std::string line; std::getline(std::cin, line);) {
      std::cout << obey(*client, json::parse(line)).dump() << std::endl;
    }
    return 0;
  } catch (const std::exception& error) {
    std::cerr << words[0] << ": " << error.what() << "\n";
    return 1;
  }
}

}  // namespace bench
