// Who holds the interpreter lock, and how long.
//
// A thread of the core takes it for each service or handler; a Python thread gives it up for each verb. At the end of
// the interpreter neither can have it any more: CPython then ends the thread by a forced unwinding (before 3.14), which
// the C++ frames in between would turn into std::terminate. Such threads rest here until the process is gone.
#pragma once

#include <Python.h>
#include <cxxabi.h>

#include <memory>

namespace speed::python {

[[noreturn]] void rest_forever();
bool is_finalizing();

// Runs what may touch the interpreter; a forced unwinding ends here.
template <class Run>
auto guarded(Run run) {
  try {
    return run();
  } catch (abi::__forced_unwind&) {
    rest_forever();
  }
}

// Gives the lock up for one scope; for threads that hold it. The thread that ends the interpreter keeps it.
class Released {
 public:
  Released() : state_(is_finalizing() ? nullptr : PyEval_SaveThread()) {}
  Released(const Released&) = delete;
  Released& operator=(const Released&) = delete;
  ~Released();

 private:
  PyThreadState* state_;
};

// Takes the lock for one scope, on any thread. A thread keeps its Python state until it ends: making one costs a
// microsecond, and context variables live in it.
class Taken {
 public:
  Taken();
  Taken(const Taken&) = delete;
  Taken& operator=(const Taken&) = delete;
  ~Taken();

 private:
  bool had_it_;
};

// A Python object that threads of the core hold and may be the last to let go.
class Kept {
 public:
  Kept() = default;
  explicit Kept(PyObject* object);  // the lock is held
  PyObject* get() const { return object_.get(); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  std::shared_ptr<PyObject> object_;
};

}  // namespace speed::python
