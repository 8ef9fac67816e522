#include "large.hpp"

#include "convert.hpp"
#include "speed/embedding.hpp"

namespace speed::python {

PythonSource::PythonSource(nb::handle source)
    : source_(source.ptr()), size_(nb::cast<std::size_t>(source.attr("size"))) {}

ByteView PythonSource::read(std::size_t begin, std::size_t end, Bytes& room) const {
  const Taken taken;
  const nb::object part = checked(guarded([&] {
    return PyObject_CallMethod(source_.get(), "read", "nn", static_cast<Py_ssize_t>(begin),
                               static_cast<Py_ssize_t>(end));
  }));
  Py_buffer view;
  if (PyObject_GetBuffer(part.ptr(), &view, PyBUF_CONTIG_RO) != 0) throw nb::python_error();
  const auto* const data = static_cast<const std::byte*>(view.buf);
  room.assign(data, data + view.len);
  PyBuffer_Release(&view);
  return room;
}

Progress progress_of(nb::handle progress) {
  if (progress.is_none()) return {};
  return [kept = Kept(progress.ptr())](std::size_t written, std::size_t total) {
    const Taken taken;
    checked(guarded([&] {
      return PyObject_CallFunction(kept.get(), "nn", static_cast<Py_ssize_t>(written), static_cast<Py_ssize_t>(total));
    }));
  };
}

std::optional<std::size_t> large_size(const Message& message) {
  const segment::Source* const payload = message.large();
  return payload == nullptr ? std::nullopt : std::optional(payload->size());
}

nb::object read_large(const Message& message, std::size_t begin, std::size_t end) {
  Bytes room;
  ByteView data;
  {
    const Released released;
    data = message.large()->read(begin, end, room);
  }
  return bytes_of(data);
}

std::size_t whole_size(const Message& message) { return encoded_size(message); }

nb::object whole(const Message& message) {
  ByteView data;
  {
    const Released released;
    data = message.bytes();
  }
  return bytes_of(data);
}

}  // namespace speed::python
