// Large payloads between Python and the core: what a sender's object is read from, how it hears of its progress, and
// what a receiver reads.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>

#include "gil.hpp"
#include "speed/node.hpp"

namespace speed::python {

namespace nb = nanobind;

// A Python object with `size` and `read(begin, end)`, which gives bytes. Each read takes the interpreter lock; what it
// raises leaves the verb as it is.
class PythonSource : public segment::Source {
 public:
  explicit PythonSource(nb::handle source);
  std::size_t size() const override { return size_; }
  ByteView read(std::size_t begin, std::size_t end, Bytes& room) const override;

 private:
  Kept source_;
  std::size_t size_;
};

// `told(written, total)`, or None.
Progress progress_of(nb::handle progress);

// Of the payload that lies in the node's store; None for a message that does not.
std::optional<std::size_t> large_size(const Message& message);
nb::object read_large(const Message& message, std::size_t begin, std::size_t end);

// The whole of a large message as it was received: its bytes in memory, and how many.
nb::object whole(const Message& message);
std::size_t whole_size(const Message& message);

}  // namespace speed::python
