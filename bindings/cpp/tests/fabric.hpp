// A root of its own for each test, nodes in it, and other processes to talk to.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sodium.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "fs/keys/identity_files.hpp"
#include "fs/keys/key_store.hpp"
#include "speed/speed.hpp"

namespace speed::test {

inline constexpr std::chrono::seconds hang_time(20);  // what takes longer than this hangs

class TestRoot {
 public:
  explicit TestRoot(const std::filesystem::path& place = std::filesystem::temp_directory_path()) {
    if (sodium_init() < 0) throw std::runtime_error("libsodium");
    std::string pattern = (place / "speed-cpp-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp");
    path = pattern;
    wire::Key key;
    randombytes_buf(key.data(), key.size());
    fs::write_key_file(path + "/speed.key", {key});
  }
  TestRoot(const TestRoot&) = delete;
  TestRoot& operator=(const TestRoot&) = delete;
  ~TestRoot() { std::filesystem::remove_all(path); }

  NodeOptions options(std::vector<std::string> allow = {}) const {
    NodeOptions options;
    options.root = path;
    options.key = path + "/speed.key";
    options.allow = std::move(allow);
    return options;
  }

  // The file of an identity, made if it is not there.
  std::string identity(const std::string& name, const std::vector<std::string>& owners = {}) const {
    const std::string file = path + "/" + name + ".identity";
    if (!std::filesystem::exists(file)) {
      std::array<wire::Key, 2> drawn;
      for (wire::Key& key : drawn) randombytes_buf(key.data(), key.size());
      put_identity(file, wire::NodeIdentity(drawn[0], {drawn[1]}, owners));
    }
    return file;
  }
  static void put_identity(const std::string& file, const wire::NodeIdentity& identity) {
    const mode_t before = umask(0077);
    std::ofstream(file + ".new") << identity.format();
    umask(before);
    std::filesystem::rename(file + ".new", file);
  }

  NodeOptions with_identity(const std::string& name, std::vector<std::string> allow = {}) const {
    NodeOptions made = options(std::move(allow));
    made.identity = identity(name);
    return made;
  }

  std::string path;
};

// What a node has counted under this name; 0 if nothing.
inline std::int64_t counter(const Node& node, std::string_view name) {
  const Map counters = node.stats().find("counters")->as<Map>();
  const Value* const found = counters.find(name);
  return found == nullptr ? 0 : found->as<std::int64_t>();
}

// Waits until `condition` holds; false after a generous while. No test depends on how long it takes.
inline bool eventually(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    usleep(2000);
  }
  return true;
}

// A service that answers with what it was given.
inline Response echo(const Request& request) { return request.get<Value>("data"); }

// The interop agent as another process, which can be killed.
class AgentProcess {
 public:
  AgentProcess(const TestRoot& root, const std::string& name, const std::vector<std::string>& more = {}) {
    int to[2];
    int from[2];
    if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
    std::vector<std::string> words{SPEED_AGENT, "--name", name, "--root", root.path, "--key", root.path + "/speed.key"};
    words.insert(words.end(), more.begin(), more.end());
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(to[0], 0);
      dup2(from[1], 1);
      execv(arguments[0], arguments.data());
      _exit(127);
    }
    ::close(to[0]);
    ::close(from[1]);
    in_ = to[1];
    out_ = fdopen(from[0], "r");
    ready = read_line();
  }
  AgentProcess(const AgentProcess&) = delete;
  AgentProcess& operator=(const AgentProcess&) = delete;
  ~AgentProcess() {
    kill(SIGKILL);
    fclose(out_);
    if (in_ >= 0) ::close(in_);
  }

  nlohmann::json operator()(const nlohmann::json& command) {
    const std::string line = command.dump() + "\n";
    if (write(in_, line.data(), line.size()) < 0) throw std::runtime_error("agent is gone");
    return read_line();
  }

  void kill(int signal) {
    if (pid_ <= 0) return;
    ::kill(pid_, signal);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  void pause() { ::kill(pid_, SIGSTOP); }
  void resume() { ::kill(pid_, SIGCONT); }

  nlohmann::json ready;

 private:
  nlohmann::json read_line() {
    std::string line;
    for (int c = fgetc(out_); c != EOF && c != '\n'; c = fgetc(out_)) line += static_cast<char>(c);
    return nlohmann::json::parse(line, nullptr, false);
  }

  pid_t pid_ = -1;
  int in_ = -1;
  FILE* out_ = nullptr;
};

}  // namespace speed::test
