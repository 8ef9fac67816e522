#include "errors.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "convert.hpp"
#include "error_classes.hpp"

namespace speed::python {

namespace {

nb::object class_of(const char* name) { return nb::module_::import_("speed.errors").attr(name); }

// One that Python has no class for is told as the base of all.
const char* class_name(const Error& error) {
  if (dynamic_cast<const WireError*>(&error) != nullptr) return "WireError";
  if (dynamic_cast<const ApplicationError*>(&error) != nullptr) return "ApplicationError";
  const auto* const found = std::ranges::find(error_classes, error.code(), &ErrorClass::code);
  if (found == std::end(error_classes)) return "SpeedError";
  const bool is_state =
      dynamic_cast<const NodeStateError*>(&error) != nullptr;  // shares its code with RegistrationError
  return is_state && std::string_view(found->name) == "RegistrationError" ? "NodeStateError" : found->name;
}

const char* name_of(Execution execution) {
  if (execution == Execution::not_begun) return "NOT_BEGUN";
  return execution == Execution::ran ? "RAN" : "MAY_HAVE_RUN";
}

nb::object plain(const Error& error) {
  const nb::object kind = class_of(class_name(error));
  const std::string text = error.what();
  if (const auto* const wire = dynamic_cast<const WireError*>(&error)) {
    return kind(wire->reason(), text.substr(std::min(text.size(), wire->reason().size() + 2)));
  }
  if (const auto* const own = dynamic_cast<const ApplicationError*>(&error)) {
    return kind(own->code(), text, to_object(own->details()));
  }
  if (const auto* const call = dynamic_cast<const CallError*>(&error)) return kind(text, to_object(call->details()));
  nb::object exception = kind(text);
  if (const auto* const storage = dynamic_cast<const StorageError*>(&error)) {
    exception.attr("envelopes_written") = storage->envelopes_written();
  }
  return exception;
}

nb::object made(const Error& error) {
  nb::object exception = plain(error);
  if (error.execution()) exception.attr("execution") = class_of("Execution").attr(name_of(*error.execution()));
  return exception;
}

}  // namespace

nb::object to_exception(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    return made(known);
  } catch (const std::exception& other) {
    return class_of("InternalError")(other.what());
  }
}

std::string described(const nb::python_error& error) {
  const nb::object failure_text =
      nb::module_::import_("speed.core.services").attr("failure_text");  // which never fails
  const auto text = nb::cast<std::string>(failure_text(error.value()));
  if (error.matches(class_of("SpeedError"))) return text;
  return nb::cast<std::string>(error.type().attr("__name__")) + ": " + text;
}

bool is_away(const nb::python_error& error) {
  return error.matches(nb::module_::import_("speed.message.errors").attr("AwayError"));
}

bool is_wire_error(const nb::python_error& error) { return error.matches(class_of("WireError")); }

WireError wire_error(const nb::python_error& error) {
  const std::string reason = nb::cast<std::string>(error.value().attr("reason")), text = described(error);
  return {reason, text.substr(std::min(text.size(), reason.size() + 2))};
}

void translate_errors() {
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Error& error) {
      try {
        const nb::object exception = made(error);
        PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
      } catch (nb::python_error& raised) {  // the handler of a signal ran in the making
        raised.restore();
      }
    }
  });
}

}  // namespace speed::python
