// The module `speed_native`. Programs use it through speed.Node only.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "contract.hpp"
#include "convert.hpp"
#include "engine.hpp"
#include "errors.hpp"
#include "large.hpp"
#include "options.hpp"
#include "runtime/message_state.hpp"

namespace speed::python {

namespace {

void make_engine(Engine* self, const std::string& name, const std::string& root, const std::string& key,
                 const Engine::Names& fabrics, const Engine::Names& allow, double lease_seconds,
                 double heartbeat_seconds, unsigned workers, bool durable, bool polling, const std::string& name_space,
                 std::uint64_t max_lane_bytes, double spin_seconds, const nb::dict& limits, nb::handle settle) {
  NodeOptions options;
  options.root = root;
  options.key = key;
  options.fabrics = fabrics;
  options.allow = allow;
  options.lease_seconds = lease_seconds;
  options.heartbeat_seconds = heartbeat_seconds;
  options.workers = workers;
  options.durable = durable;
  options.polling = polling;
  options.name_space = name_space;
  options.max_lane_bytes = max_lane_bytes;
  options.spin_seconds = spin_seconds;
  options.segment_limits = segment_limits(limits);
  options.language = "python";
  options.security.reset();  // the Python node opens its messages
  new (self) Engine(name, std::move(options), settle);
}

}  // namespace

}  // namespace speed::python

NB_MODULE(speed_native, module) {
  using namespace speed::python;
  using nb::arg;
  nb::set_leak_warnings(false);  // nodes that a program never closes live as long as the process
  prepare_conversions();
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
      .def_prop_ro("finished", [](const speed::Message& message) { return message.state().finished.load(); })
      .def_prop_ro("topic", &speed::Message::topic)
      .def_prop_ro("message_id", &speed::Message::message_id)
      .def_prop_ro("traceparent", &speed::Message::traceparent);

  nb::class_<Engine>(module, "Engine")
      .def("__init__", &make_engine, nb::kw_only(), arg("name"), arg("root"), arg("key"), arg("fabrics"), arg("allow"),
           arg("lease_seconds"), arg("heartbeat_seconds"), arg("workers"), arg("durable"), arg("polling"),
           arg("namespace"), arg("max_lane_bytes"), arg("spin_seconds"), arg("segment_limits"), arg("settle"))
      .def("allow", &Engine::allow)
      .def("deny", &Engine::deny)
      .def("allowed", &Engine::allowed)
      .def("serve", &Engine::serve, arg("name"), arg("answer"), arg("allow").none())
      .def("call", &Engine::call, arg(), arg(), arg(), arg(), arg().none())
      .def("submit", &Engine::submit, arg(), arg(), arg(), arg(), arg().none(), arg())
      .def("ping", &Engine::ping)
      .def("discover", &Engine::discover)
      .def("stats", &Engine::stats)
      .def("send", &Engine::send, arg(), arg().none(), arg(), arg(), arg())
      .def("send_large", &Engine::send_large, arg(), arg(), arg(), arg(), arg(), arg("progress").none())
      .def("cut", &Engine::cut, arg(), arg("segment_size").none(), arg())
      .def("send_all", &Engine::send_all)
      .def("forward", &Engine::forward)
      .def("publish", &Engine::publish, arg(), arg().none(), arg(), arg())
      .def("on_message", &Engine::on_message)
      .def("on_batch", &Engine::on_batch)
      .def("subscribe", &Engine::subscribe)
      .def("receive", &Engine::receive, arg().none())
      .def("nodes", &Engine::nodes)
      .def("wait_for", &Engine::wait_for)
      .def("on_join", &Engine::on_join)
      .def("on_leave", &Engine::on_leave)
      .def("remove_stale", &Engine::remove_stale)
      .def("check", &Engine::check)
      .def("close", &Engine::close)
      .def_prop_ro("generation", &Engine::generation)
      .def_prop_ro("polling", &Engine::polling)
      .def_prop_ro("root", &Engine::root)
      .def_prop_ro("closed", &Engine::closed);
}
