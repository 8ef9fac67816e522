// speed-agent-cpp: the C++ counterpart of the interoperability tests. One JSON command a line on standard input, one
// JSON answer a line on standard output; see Commands for what it understands.
#include <unistd.h>

#include <iostream>

#include "commands.hpp"
#include "services.hpp"
#include "speed/error.hpp"
#include "speed/log.hpp"

namespace {

using agent::Json;

struct Arguments {
  std::string name;
  speed::NodeOptions options;
  std::vector<std::string> allow;
  bool watch = true;
};

Arguments parse(const std::vector<std::string>& words) {
  Arguments arguments;
  for (std::size_t at = 0; at + 1 < words.size(); at += 2) {
    const std::string& flag = words[at];
    const std::string& value = words[at + 1];
    if (flag == "--name") arguments.name = value;
    if (flag == "--root") arguments.options.root = value;
    if (flag == "--key") arguments.options.key = value;
    if (flag == "--identity") arguments.options.identity = value;
    if (flag == "--allow") arguments.allow.push_back(value);
    if (flag == "--fabric") arguments.options.fabrics.push_back(value);
    if (flag == "--lease") arguments.options.lease = speed::Seconds(std::stod(value));
    if (flag == "--heartbeat") arguments.options.heartbeat = speed::Seconds(std::stod(value));
    if (flag == "--workers") arguments.options.workers = static_cast<unsigned>(std::stoul(value));
    if (flag == "--durability") arguments.options.durable = value == "disk";
    if (flag == "--ephemeral") arguments.options.ephemeral = value == "true";
    if (flag == "--watch") arguments.watch = value == "true";
    if (flag == "--lane-bytes") arguments.options.max_lane_bytes = std::stoull(value);
  }
  return arguments;
}

void say(const Json& line) {
  std::cout << line.dump(-1, ' ', true, Json::error_handler_t::replace) << std::endl;  // flushed: others wait for it
}

Json failed(const Json& id, std::string_view code, const std::string& message) {
  return {{"id", id}, {"ok", false}, {"error", code}, {"message", message}};
}

Json failed(const Json& id, const speed::Error& error) {
  Json reply = failed(id, error.code(), error.what());
  if (const auto execution = error.execution()) {
    reply["execution"] = *execution == speed::Execution::not_begun ? "not begun"
                         : *execution == speed::Execution::ran     ? "ran"
                                                                   : "may have run";
  }
  return reply;
}

Json answer(agent::Commands& commands, const std::string& line) {
  const Json command = Json::parse(line, nullptr, false);
  if (!command.is_object()) return failed(nullptr, "SPEED_ERROR", "no JSON object");
  const Json id = command.value("id", Json(nullptr));
  try {
    return {{"id", id}, {"ok", true}, {"result", commands.run(command)}};
  } catch (const speed::CallError& error) {
    Json reply = failed(id, error);
    reply["details"] = agent::json_of(error.details());
    return reply;
  } catch (const speed::Error& error) {
    return failed(id, error);
  } catch (const std::exception& error) {
    return failed(id, "SPEED_ERROR", error.what());
  }
}

int run(const Arguments& arguments) {
  speed::Node node(arguments.name, arguments.options);
  agent::serve(node);
  agent::Commands commands(node, arguments.options, arguments.watch);
  node.allow(arguments.allow);  // last: what waits in its lanes is for the services that it has by now
  say({{"event", "ready"}, {"generation", node.generation()}, {"pid", getpid()}});
  std::string line;
  while (!commands.is_over() && std::getline(std::cin, line)) {
    if (!line.empty()) say(answer(commands, line));
  }
  node.close();  // before `commands` goes, which callbacks use
  return 0;
}

}  // namespace

int main(int count, char** words) {
  try {
    return run(parse({words + 1, words + count}));
  } catch (const speed::Error& error) {
    say({{"event", "failed"}, {"error", error.code()}, {"message", error.what()}});
  } catch (const std::exception& error) {
    say({{"event", "failed"}, {"error", "SPEED_ERROR"}, {"message", error.what()}});
  }
  return 3;
}
