// The module `speed._native`. Programs use it through speed.Node only.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "contract.hpp"
#include "callbacks.hpp"
#include "convert.hpp"
#include "engine.hpp"
#include "errors.hpp"
#include "large.hpp"
#include "options.hpp"
#include "speed/embedding.hpp"

namespace speed::python {

namespace {

void make_engine(Engine* self, const std::string& name, const nb::dict& given, nb::handle settle) {
  NodeOptions options = node_options(given);
  options.language = "python";
  options.security.reset();  // the Python node opens its messages
  new (self) Engine(name, std::move(options), settle);
}

// What this thread runs: any thread may give its place up for it, and take it back.
class Present {
 public:
  bool block(nb::handle) { return work_.give_place(); }
  void resume(nb::handle) { work_.take_place(); }
  // Closes a node on a thread that counts as the one which runs this.
  void close(Engine& engine, double drain_seconds) const { engine.close(drain_seconds, work_); }

 private:
  PresentWork work_;
};

// A place that is given up; entered and left on one thread.
class Place {
 public:
  void enter() { away_.emplace(); }
  void exit(const nb::args&) {
    const Released released;
    away_.reset();
  }

 private:
  std::optional<PlaceGiven> away_;
};

// For Python's collector: what Python code gave to an object, which may hold the object in turn.
template <class Holder>
int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  return nb::inst_ready(self) ? nb::inst_ptr<Holder>(self)->given().visit(visit, arg) : 0;
}

template <class Holder>
int clear(PyObject* self) {
  if (nb::inst_ready(self)) nb::inst_ptr<Holder>(self)->given().release();
  return 0;
}

template <class Holder>
const PyType_Slot collected[] = {{Py_tp_traverse, reinterpret_cast<void*>(&traverse<Holder>)},
                                 {Py_tp_clear, reinterpret_cast<void*>(&clear<Holder>)},
                                 {0, nullptr}};

}  // namespace

}  // namespace speed::python

NB_MODULE(_native, module) {
  using namespace speed::python;
  using nb::arg;
  nb::set_leak_warnings(false);  // nodes that a program never closes live as long as the process
  prepare_conversions(module);
  translate_errors();
  module.attr("version") = library_version;
  module.attr("limits") = limits_json;

  nb::class_<speed::Message>(module, "Received")
      .def("payload", [](const speed::Message& message) { return to_object(message.payload()); })
      .def("done", &speed::Message::done, nb::call_guard<Released>())
      .def("read", &read_large)
      .def("whole", &whole)
      .def_prop_ro("large_size", &large_size)
      .def_prop_ro("whole_size", &whole_size)
      .def_prop_ro("finished", &speed::is_finished)
      .def_prop_ro("topic", &speed::Message::topic)
      .def_prop_ro("content_type", &speed::Message::content_type)
      .def_prop_ro("content_encoding", &speed::Message::content_encoding)
      .def_prop_ro("message_id", &speed::Message::message_id)
      .def_prop_ro("traceparent", &speed::Message::traceparent);

  nb::class_<Cancellation>(module, "Cancellation", nb::type_slots(collected<Cancellation>))
      .def("is_set", &Cancellation::is_set)
      .def("wait", &Cancellation::wait, arg("timeout").none() = nb::none())
      .def("call_when_set", &Cancellation::call_when_set);
  // While it is entered, the work that this thread runs holds no place among the running.
  nb::class_<Place>(module, "Place").def(nb::init<>()).def("__enter__", &Place::enter).def("__exit__", &Place::exit);
  nb::class_<Present>(module, "Present")
      .def(nb::init<>())
      .def("block", &Present::block)
      .def("resume", &Present::resume)
      .def("close", &Present::close);
  module.def("set_log", &log_to);

  nb::class_<Channel>(module, "Channel")
      .def_prop_ro("request_id", &Channel::request_id)
      .def_prop_ro("wants_items", [](const Channel& channel) { return channel.offer().wants_items(); })
      .def_prop_ro("sends_items", [](const Channel& channel) { return channel.offer().sends; })
      .def_prop_ro("wants_progress", [](const Channel& channel) { return channel.offer().progress; })
      .def("take", &Channel::take)
      .def("process", &Channel::process)
      .def("open", &Channel::open)
      .def("reserve", &Channel::reserve)
      .def("write", &Channel::write)
      .def("report", &Channel::report, arg(), arg().none(), arg())
      .def("close", &Channel::close)
      .def_prop_ro("broken", &Channel::broken)
      .def("outcome", &Channel::outcome)
      .def("withdraw", &Channel::withdraw);

  nb::class_<Engine>(module, "Engine", nb::type_slots(collected<Engine>))
      .def("__init__", &make_engine, nb::kw_only(), arg("name"), arg("options"), arg("settle"))
      .def("allow", &Engine::allow)
      .def("deny", &Engine::deny)
      .def("allowed", &Engine::allowed)
      .def("serve", &Engine::serve, arg("name"), arg("answer"), arg("is_plain"), arg("viewed"), arg("allow").none(),
           arg("idempotent"), arg("description"))
      .def("unregister", &Engine::unregister)
      .def("call", &Engine::call, arg(), arg(), arg(), arg(), arg().none(), arg())
      .def("submit", &Engine::submit, arg(), arg(), arg(), arg(), arg().none(), arg(), arg())
      .def("open_stream", &Engine::open_stream, arg(), arg(), arg(), arg(), arg().none(), arg())
      .def("withdraw", &Engine::withdraw)
      .def("ping", &Engine::ping)
      .def("discover", &Engine::discover)
      .def("discover_each", &Engine::discover_each)
      .def("stats", &Engine::stats)
      .def("send", &Engine::send, arg(), arg().none(), arg(), arg(), arg(), arg())
      .def("send_large", &Engine::send_large, arg(), arg(), arg(), arg(), arg(), arg("progress").none(), arg())
      .def("cut", &Engine::cut, arg(), arg("segment_size").none(), arg())
      .def("send_all", &Engine::send_all)
      .def("forward", &Engine::forward)
      .def("publish", &Engine::publish, arg(), arg().none(), arg(), arg(), arg())
      .def("on_message", &Engine::on_message)
      .def("on_batch", &Engine::on_batch)
      .def("subscribe", &Engine::subscribe)
      .def("receive", &Engine::receive, arg().none())
      .def("fetch", &Engine::fetch, arg().none(), arg())
      .def("put_back", &Engine::put_back)
      .def("wake_receivers", &Engine::wake_receivers)
      .def("nodes", &Engine::nodes)
      .def("wait_for", &Engine::wait_for)
      .def("on_join", &Engine::on_join)
      .def("on_leave", &Engine::on_leave)
      .def("on_lost", &Engine::on_lost)
      .def("remove_stale", &Engine::remove_stale)
      .def("check", &Engine::check)
      .def("ready", &Engine::ready)
      .def("close", [](Engine& engine, double drain_seconds) { engine.close(drain_seconds); })
      .def_prop_ro("generation", &Engine::generation)
      .def_prop_ro("polling", &Engine::polling)
      .def_prop_ro("root", &Engine::root)
      .def_prop_ro("closed", &Engine::closed);
}
