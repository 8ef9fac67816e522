#include "settling.hpp"

#include "convert.hpp"
#include "errors.hpp"

namespace speed::python {

void Settling::add(const Kept& future, core::Outcome outcome) {
  bool is_first = false;
  {
    const std::lock_guard guard(lock_);
    is_first = ended_.empty();
    ended_.push_back({future, std::move(outcome)});
  }
  if (is_first) workers_.follow([self = shared_from_this()] { self->settle(); });
}

void Settling::settle() {
  const Taken taken;
  std::vector<Ended> ended;
  {
    const std::lock_guard guard(lock_);
    ended.swap(ended_);
  }
  for (const Ended& one : ended) {
    nb::object result = nb::none();
    nb::object error = nb::none();
    if (const auto* const failure = std::get_if<std::exception_ptr>(&one.outcome)) {
      error = to_exception(*failure);
    } else {
      result = to_object(std::get<Value>(one.outcome));
    }
    PyObject* const arguments[] = {one.future.get(), result.ptr(), error.ptr()};
    PyObject* const done =
        guarded([&] { return PyObject_Vectorcall(settle_.get(), arguments, std::size(arguments), nullptr); });
    if (done == nullptr) PyErr_WriteUnraisable(settle_.get());
    Py_XDECREF(done);
  }
}

}  // namespace speed::python
