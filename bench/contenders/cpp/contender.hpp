// A measured program: `PROGRAM server|client WORK [KIND]`, one process each, as contenders/process.py is in Python.
// A server prints `ready` and lives until its input ends. A client answers each JSON command with one line:
//   {"do":"echo","bytes":200,"count":300,"warm":20}                -> {"ns":[…]}
//   {"do":"pipeline",…}                                            -> {"per_second":…}   all calls under way at once
//   {"do":"send",…,"batch":true}                                   -> {"per_second":…}   until the last is handled
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

namespace bench {

class Client {
 public:
  virtual ~Client() = default;
  virtual std::size_t echo(const std::string& data) = 0;  // bytes of the answer
  virtual void pipeline(const std::string& data, std::size_t count) = 0;
  virtual void send(const std::string& data, std::size_t count, bool batch) = 0;
};

// Returns when `wait` does; calls `ready` before.
struct Lifetime {
  void ready() const;
  void wait() const;  // until standard input ends
};

using Serve = std::function<void(const std::string& work, const std::string& kind, const Lifetime&)>;
using Connect = std::function<std::unique_ptr<Client>(const std::string& work, const std::string& kind)>;

int run(int count, char** words, const Serve& serve, const Connect& connect);

}  // namespace bench
