// What speed.Node needs of a node of the core: its verbs, with Python objects.
// Arguments are converted with the interpreter lock held, everything else happens without it.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <string>
#include <vector>

#include "channel.hpp"
#include "settling.hpp"
#include "speed/embedding.hpp"

namespace speed::python {

namespace nb = nanobind;

class Engine {
 public:
  using Names = std::vector<std::string>;

  // `settle(future, result, error)` ends a future of `submit`.
  Engine(const std::string& name, NodeOptions options, nb::handle settle);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  void allow(const Names& patterns);
  void deny(const Names& patterns);
  Names allowed() const { return node_->node().allowed(); }
  // Bytes in the arguments that `viewed` names become memoryviews.
  void serve(const std::string& name, nb::handle answer, bool is_plain, const Names& viewed,
             const std::optional<Names>& allow, bool idempotent, nb::handle description);
  void unregister(const std::string& name);

  // `views`: bytes of the result become memoryviews; likewise in `submit`.
  nb::object call(nb::handle target, nb::handle service, nb::handle arguments, double timeout, nb::handle traceparent,
                  bool views);
  // Its id, by which it is withdrawn.
  std::string submit(nb::handle target, nb::handle service, nb::handle arguments, double timeout,
                     nb::handle traceparent, bool views, nb::handle future);
  Channel open_stream(nb::handle target, nb::handle service, nb::handle arguments, double timeout,
                      nb::handle traceparent, const nb::tuple& offer);
  void withdraw(const std::string& target, const std::string& id);
  double ping(nb::handle target, double timeout);
  nb::object discover(nb::handle target, const char* operation, double timeout);
  // None for one that does not answer in time.
  nb::list discover_each(const std::vector<std::string>& targets, const char* operation, double timeout);
  nb::object stats() const;

  // Its id, and whether it waits there for the program to take it; likewise the next.
  nb::tuple send(nb::handle target, nb::handle payload, bool ack, double timeout, const nb::dict& options,
                 bool unordered);
  nb::tuple send_large(nb::handle target, nb::handle source, bool ack, double timeout, const nb::dict& options,
                       nb::handle progress, bool unordered);
  void cut(nb::handle target, std::optional<std::size_t> segment_size, double parity_rate);
  void send_all(nb::handle target, const nb::list& payloads, double timeout, const nb::dict& options);
  void forward(nb::handle target, const nb::list& messages, bool event, bool ack, double timeout);
  // Who got it, and by name the code of why others did not.
  nb::tuple publish(const std::string& topic, nb::handle payload, double timeout, bool waits, const nb::dict& options);
  void on_message(nb::handle handle);
  void on_batch(const Names& topics, nb::handle handle, bool shared);
  void subscribe(const std::string& pattern, nb::handle handle, bool shared);
  nb::object receive(std::optional<double> timeout);  // what `handle` of a message gets, or None
  // Likewise, but nothing finishes it except its own `done`; ends early once `is_abandoned()`.
  nb::object fetch(std::optional<double> timeout, nb::handle is_abandoned);
  void put_back(const Message& message);
  void wake_receivers();

  nb::object nodes();
  nb::object wait_for(nb::handle target, double timeout);
  void on_join(nb::handle handle);
  void on_leave(nb::handle handle);
  void on_lost(nb::handle handle);
  Names remove_stale();

  void ready();  // it serves from now on
  std::uint32_t generation() const { return node_->node().generation(); }
  const std::string& root() const { return node_->node().root(); }
  bool polling() const { return node_->polling(); }
  bool closed() const { return node_->node().closed(); }
  void check() const { node_->check(); }
  void close(double drain_seconds) {
    close([&] { node_->node().close(Seconds(drain_seconds)); });
  }
  void close(double drain_seconds, const PresentWork& work) {
    close([&] { work.close(node_->node(), Seconds(drain_seconds)); });
  }
  Given& given() { return given_; }

 private:
  template <class HandOver>
  void give(nb::handle callable, HandOver hand_over);
  void close(const std::function<void()>& leave);

  std::shared_ptr<Settling> settling_;
  std::unique_ptr<EmbeddedNode> node_;
  Given given_;
  bool is_closing_ = false;
};

}  // namespace speed::python
