#include "settling.hpp"

#include <thread>
#include <utility>

#include "convert.hpp"
#include "errors.hpp"

namespace speed::python {

namespace {

constexpr int most_helpers = 256;

}  // namespace

void Settling::add(const Kept& future, Answer answer, bool views) {
  bool was_queued = false;
  bool no_worker_comes = false;
  {
    const std::lock_guard guard(lock_);
    ended_.push_back({future, std::move(answer), views});
    was_queued = std::exchange(is_queued_, true);
    no_worker_comes = is_over_;
  }
  if (no_worker_comes) return help();
  if (!was_queued) node_->run([self = shared_from_this()] { self->settle(); });
}

void Settling::look() {
  {
    const std::lock_guard guard(lock_);
    const bool is_stuck = !ended_.empty() && std::exchange(seen_, taken_) == taken_;
    if (!is_stuck || helpers_ >= most_helpers) return;
  }
  help();
}

void Settling::end() {
  {
    const std::lock_guard guard(lock_);
    is_over_ = true;
    if (ended_.empty()) return;
  }
  help();
}

void Settling::help() {
  ++helpers_;
  std::thread([self = shared_from_this()] {
    block_signals();
    name_thread("speed-settle");
    self->settle();
    --self->helpers_;
  }).detach();  // what the program hung on a future may hold it for ever
}

std::optional<Settling::Ended> Settling::next() {
  const std::lock_guard guard(lock_);
  if (ended_.empty()) return std::nullopt;
  ++taken_;
  Ended first = std::move(ended_.front());
  ended_.pop_front();
  is_queued_ = !ended_.empty();
  return first;
}

void Settling::settle() {
  const Taken taken;
  for (std::optional<Ended> one = next(); one; one = next()) settle_one(*std::move(one));
}

void Settling::settle_one(Ended one) {
  nb::object result = nb::none();
  nb::object error = nb::none();
  try {
    result = to_object(one.answer.value(), one.views);
  } catch (...) {
    error = to_exception(std::current_exception());
  }
  PyObject* const arguments[] = {one.future.get(), result.ptr(), error.ptr()};
  PyObject* const done =
      guarded([&] { return PyObject_Vectorcall(settle_.get(), arguments, std::size(arguments), nullptr); });
  if (done == nullptr) PyErr_WriteUnraisable(settle_.get());
  Py_XDECREF(done);
}

}  // namespace speed::python
