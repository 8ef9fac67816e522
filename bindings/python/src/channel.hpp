// One stream as Python's code sees it: what is waited for is waited for without the interpreter lock.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "speed/stream.hpp"

namespace speed::python {

namespace nb = nanobind;

class Channel {
 public:
  explicit Channel(std::shared_ptr<StreamChannel> channel) : channel_(std::move(channel)) {}

  const std::string& request_id() const { return channel_->request_id(); }
  const StreamOffer& offer() const { return channel_->offer(); }
  nb::tuple take(double timeout);  // what was found, a payload or progress, how many items, of how many bytes
  void process(std::uint64_t items, std::uint64_t bytes);
  void open();
  int reserve(std::uint64_t bytes, double timeout);
  void write(const nb::bytes& payload);
  void report(nb::handle done, nb::handle total, const std::string& note);
  void close();
  std::string broken() const { return channel_->broken(); }
  nb::object outcome();
  void withdraw();

 private:
  std::shared_ptr<StreamChannel> channel_;
};

}  // namespace speed::python
