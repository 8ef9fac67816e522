// Who holds the interpreter lock, and how long.
//
// A thread of the core takes it for each service or handler; a Python thread gives it up for each verb. At the end of
// the interpreter neither can have it any more: CPython then ends the thread by a forced unwinding (before 3.14), which
// the C++ frames in between would turn into std::terminate. Such threads rest here until the process is gone.
#pragma once

#include <Python.h>
#include <cxxabi.h>

#include <memory>
#include <vector>

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
  PyObject* get() const { return cell_ == nullptr ? nullptr : cell_->object; }
  explicit operator bool() const { return cell_ != nullptr; }
  bool is_shared() const { return cell_.use_count() > 1; }
  void release() const;  // for all who share it, who get null from now on; the lock is held

 private:
  struct Cell {
    explicit Cell(PyObject* kept) : object(kept) {}
    Cell(const Cell&) = delete;
    Cell& operator=(const Cell&) = delete;
    ~Cell();
    PyObject* object;  // null once it was let go
  };
  std::shared_ptr<Cell> cell_;
};

// What Python code gave to an object of this module, for Python's collector: a service may hold its node, which holds
// the service. The lock is held.
class Given {
 public:
  void add(const Kept& one) { kept_.push_back(one); }
  void forget();  // others keep each for as long as they can still call it
  void forget_unshared();  // what nobody else keeps
  void release();  // others find that it is gone
  int visit(visitproc visit, void* arg) const;

 private:
  std::vector<Kept> kept_;
};

}  // namespace speed::python
