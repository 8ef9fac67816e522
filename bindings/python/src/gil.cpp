#include "gil.hpp"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace speed::python {

namespace {

void retake(PyThreadState* state) {
  if (is_finalizing()) rest_forever();
  guarded([&] { PyEval_RestoreThread(state); });
}

// The Python state of a thread of the core; ends with it.
struct OwnState {
  PyThreadState* state = nullptr;
  ~OwnState() {
    if (state == nullptr || is_finalizing()) return;
    retake(state);
    PyThreadState_Clear(state);
    PyThreadState_DeleteCurrent();
  }
};

thread_local OwnState own;

}  // namespace

void rest_forever() {
  while (true) pause();
}

bool is_finalizing() {
#if PY_VERSION_HEX >= 0x030d0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

Released::~Released() {
  if (state_ != nullptr) retake(state_);
}

Taken::Taken() : had_it_(PyGILState_Check() != 0) {
  if (had_it_) return;
  if (PyThreadState* const state = PyGILState_GetThisThreadState()) {
    retake(state);
  } else {
    if (is_finalizing()) rest_forever();
    guarded([] { PyGILState_Ensure(); });
    own.state = PyThreadState_Get();
  }
}

Taken::~Taken() {
  if (!had_it_) PyEval_SaveThread();
}

Kept::Kept(PyObject* object) : cell_(std::make_shared<Cell>(object)) { Py_INCREF(object); }

Kept::Cell::~Cell() {
  if (object == nullptr || is_finalizing()) return;
  const Taken taken;
  Py_DECREF(object);
}

void Kept::release() const { Py_CLEAR(cell_->object); }

// What goes may come back here.
void Given::forget() { const std::vector<Kept> gone = std::exchange(kept_, {}); }

void Given::forget_unshared() {
  const auto unshared = std::partition(kept_.begin(), kept_.end(), [](const Kept& one) { return one.is_shared(); });
  const std::vector<Kept> gone(std::make_move_iterator(unshared), std::make_move_iterator(kept_.end()));
  kept_.erase(unshared, kept_.end());
}

void Given::release() {
  const std::vector<Kept> gone = std::exchange(kept_, {});
  for (const Kept& one : gone) one.release();
}

int Given::visit(visitproc visit, void* arg) const {
  for (const Kept& one : kept_) Py_VISIT(one.get());
  return 0;
}

}  // namespace speed::python
