#include "convert.hpp"

#include <datetime.h>
#include <nanobind/stl/string.h>

#include "gil.hpp"
#include "speed/error.hpp"

namespace speed::python {

namespace {

PyObject* epoch = nullptr;        // 1970-01-01 UTC; lives as long as the process
PyObject* column_type = nullptr;  // speed.Column; likewise
PyObject* formed = nullptr;       // speed.wire.value.formed; likewise

constexpr std::size_t lent_bytes = 32 << 10;  // to hold less in place costs more than a copy

// The path to a part, made into text only when something is refused.
struct Path {
  const Path* parent;
  const char* what;
  PyObject* key;
  Py_ssize_t index;

  std::string text() const {
    if (parent == nullptr) return what;
    if (key == nullptr) return parent->text() + "[" + std::to_string(index) + "]";
    return parent->text() + "." + nb::cast<std::string>(nb::str(nb::handle(key)));
  }
};

[[noreturn]] void refuse(const Path& path, const std::string& why) { throw UnserialisableError(path.text() + why); }

[[noreturn]] void failed() { throw nb::python_error(); }

std::string type_name(PyObject* object) { return Py_TYPE(object)->tp_name; }

Value integer(PyObject* object, const Path& path, const char* of) {
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(object, &overflow);
  if (overflow == 0) {
    if (number == -1 && PyErr_Occurred()) failed();
    return static_cast<std::int64_t>(number);
  }
  if (overflow > 0) {
    const unsigned long long large = PyLong_AsUnsignedLongLong(object);
    if (!PyErr_Occurred()) return static_cast<std::uint64_t>(large);
    PyErr_Clear();
  }
  throw UnserialisableError(of + path.text() + " is an integer beyond 64 bits");
}

Value text(PyObject* object, const Path& path, const char* of) {
  Py_ssize_t size = 0;
  const char* const data = PyUnicode_AsUTF8AndSize(object, &size);
  if (data != nullptr) return std::string(data, static_cast<std::size_t>(size));
  PyErr_Clear();
  throw UnserialisableError(of + path.text() + " is text with a lone surrogate");
}

// A buffer of Python's, which stays where it is for as long as this lives; the lock is held when it is made.
class Held {
 public:
  explicit Held(PyObject* object) {
    if (PyObject_GetBuffer(object, &view_, PyBUF_CONTIG_RO) != 0) failed();
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() {
    if (is_finalizing()) return;
    const Taken taken;
    PyBuffer_Release(&view_);
  }
  ByteView bytes() const { return {static_cast<const std::byte*>(view_.buf), static_cast<std::size_t>(view_.len)}; }

 private:
  Py_buffer view_;
};

Value bytes(PyObject* object) {
  if (const Held held(object); held.bytes().size() < lent_bytes) return Bytes(held.bytes().begin(), held.bytes().end());
  const auto held = std::make_shared<Held>(object);
  return LentBytes{held->bytes(), held};
}

Value instant(PyObject* object, const Path& path) {
  if (nb::handle(object).attr("tzinfo").is_none()) refuse(path, " is a datetime without a time zone");
  const nb::object since = nb::steal(PyNumber_Subtract(object, epoch));
  if (!since.is_valid()) failed();
  const auto days = std::chrono::days(PyDateTime_DELTA_GET_DAYS(since.ptr()));
  const auto seconds = std::chrono::seconds(PyDateTime_DELTA_GET_SECONDS(since.ptr()));
  const auto rest = std::chrono::microseconds(PyDateTime_DELTA_GET_MICROSECONDS(since.ptr()));
  return Instant(days + seconds + rest);
}

// A column travels as its body: what it says is checked once more on this side, at no cost worth sparing.
Value column(PyObject* object) {
  const nb::object body = nb::module_::import_("speed.wire.column").attr("encode")(nb::handle(object));
  return Column::parse(Held(body.ptr()).bytes());
}

Value value_of(PyObject* object, const Path& path, std::size_t depth);

void check_depth(const Path& path, std::size_t depth) {
  if (depth < max_value_depth) return;
  refuse(path, " is nested deeper than " + std::to_string(max_value_depth));
}

// What has no kind of its own in the form in which it travels (V-2); null for what has none.
nb::object form_of(PyObject* object, const Path& path) {
  PyObject* const made = PyObject_CallOneArg(formed, object);
  if (made == nullptr) {
    const nb::python_error error;  // the code of a value: what it says may be a secret
    if (!error.matches(PyExc_Exception)) throw error;
    refuse(path, " cannot be read: " + nb::cast<std::string>(error.type().attr("__name__")));
  }
  nb::object form = nb::steal(made);
  return form.ptr() == object ? nb::object() : form;
}

Value key_of(PyObject* key, const Path& path) {
  if (PyUnicode_Check(key)) return text(key, path, "a key of ");
  if (PyLong_Check(key) && !PyBool_Check(key)) return integer(key, path, "a key of ");
  const nb::object form = PyBool_Check(key) ? nb::object() : form_of(key, path);
  if (form.is_valid() && PyUnicode_Check(form.ptr())) return text(form.ptr(), path, "a key of ");
  if (form.is_valid() && PyLong_CheckExact(form.ptr())) return integer(form.ptr(), path, "a key of ");
  refuse(path, " has a key of type " + type_name(key) + ": use str or int");
}

Map map_of(PyObject* object, const Path& path, std::size_t depth) {
  check_depth(path, depth);
  std::vector<Member> members;
  members.reserve(static_cast<std::size_t>(PyDict_GET_SIZE(object)));
  PyObject* key = nullptr;
  PyObject* item = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(object, &at, &key, &item);) {
    const nb::object kept[] = {nb::borrow(key), nb::borrow(item)};  // a time zone's code may change the dict
    Value name = key_of(key, path);
    members.push_back({std::move(name), value_of(item, {&path, nullptr, key, 0}, depth + 1)});
  }
  return Map::from_pairs(std::move(members));
}

Value items_of(PyObject* object, const Path& path, std::size_t depth) {
  check_depth(path, depth);
  Array items;
  items.reserve(static_cast<std::size_t>(PySequence_Fast_GET_SIZE(object)));
  // The size is asked for anew each time: converting an item may run Python, which may shorten the list.
  for (Py_ssize_t at = 0; at < PySequence_Fast_GET_SIZE(object); ++at) {
    const nb::object item = nb::borrow(PySequence_Fast_GET_ITEM(object, at));
    items.push_back(value_of(item.ptr(), {&path, nullptr, nullptr, at}, depth + 1));
  }
  return items;
}

Value value_of(PyObject* object, const Path& path, std::size_t depth) {
  if (PyUnicode_Check(object)) return text(object, path, "");
  if (PyBool_Check(object)) return object == Py_True;
  if (PyLong_Check(object)) return integer(object, path, "");
  if (PyFloat_Check(object)) return PyFloat_AS_DOUBLE(object);
  if (object == Py_None) return {};
  if (PyDict_Check(object)) return map_of(object, path, depth);
  if (PyList_Check(object) || PyTuple_Check(object)) return items_of(object, path, depth);
  if (PyBytes_Check(object) || PyByteArray_Check(object) || PyMemoryView_Check(object)) return bytes(object);
  if (PyDateTime_CheckExact(object)) return instant(object, path);
  if (Py_IS_TYPE(object, reinterpret_cast<PyTypeObject*>(column_type))) return column(object);
  const nb::object form = form_of(object, path);
  if (form.is_valid()) return value_of(form.ptr(), path, depth);
  refuse(path, " is of type " + type_name(object) + ", which has no representation: convert it first");
}

// Bytes of the core, readable for as long as anybody holds this.
struct Memory {
  LentBytes lent;
};

int give_buffer(PyObject* self, Py_buffer* buffer, int flags) {
  const ByteView bytes = nb::inst_ptr<Memory>(self)->lent.bytes;
  auto* const data = const_cast<std::byte*>(bytes.data());  // read-only all the same: the flag behind the size
  return PyBuffer_FillInfo(buffer, self, data, static_cast<Py_ssize_t>(bytes.size()), 1, flags);
}

nb::object view_of(const nb::object& memory) { return checked(PyMemoryView_FromObject(memory.ptr())); }

// The body of a column; a large one where it lies.
nb::object body_of(const Column& column) {
  const ByteView body = column.body();
  if (body.size() < lent_bytes) return bytes_of(body);
  return view_of(nb::cast(Memory{LentBytes(body, std::make_shared<const Column>(column))}));
}

// A Python object of each kind of value.
struct Made {
  bool as_views = false;

  nb::object operator()(std::monostate) const { return nb::none(); }
  nb::object operator()(bool value) const { return nb::bool_(value); }
  nb::object operator()(std::int64_t value) const { return checked(PyLong_FromLongLong(value)); }
  nb::object operator()(std::uint64_t value) const { return checked(PyLong_FromUnsignedLongLong(value)); }
  nb::object operator()(double value) const { return checked(PyFloat_FromDouble(value)); }
  nb::object operator()(const std::string& value) const {
    return checked(PyUnicode_FromStringAndSize(value.data(), static_cast<Py_ssize_t>(value.size())));
  }
  nb::object operator()(const Bytes& value) const { return as_views ? view_of(bytes_of(value)) : bytes_of(value); }
  nb::object operator()(const LentBytes& value) const {
    if (!as_views) return bytes_of(value.bytes);
    return view_of(value.owner == nullptr ? bytes_of(value.bytes) : nb::cast(Memory{value}));
  }
  nb::object operator()(const Array& items) const {
    nb::object list = checked(PyList_New(static_cast<Py_ssize_t>(items.size())));
    Py_ssize_t at = 0;
    for (const Value& item : items) PyList_SET_ITEM(list.ptr(), at++, to_object(item, as_views).release().ptr());
    return list;
  }
  nb::object operator()(const Map& map) const {
    nb::object dict = checked(PyDict_New());
    for (const Member& member : map) {
      const nb::object value = to_object(member.value, as_views);
      if (PyDict_SetItem(dict.ptr(), to_object(member.key).ptr(), value.ptr()) != 0) failed();
    }
    return dict;
  }
  nb::object operator()(Instant instant) const {
    const auto since = instant.time_since_epoch();
    const auto days = std::chrono::floor<std::chrono::days>(since);
    const auto seconds = std::chrono::floor<std::chrono::seconds>(since - days);
    const auto rest = since - days - seconds;
    const nb::object delta = checked(PyDelta_FromDSU(static_cast<int>(days.count()), static_cast<int>(seconds.count()),
                                                     static_cast<int>(rest.count())));
    return checked(PyNumber_Add(epoch, delta.ptr()));
  }
  nb::object operator()(const Column& column) const {
    return nb::module_::import_("speed.wire.column").attr("decode")(body_of(column), true);
  }
};

}  // namespace

void prepare_conversions(nb::module_& module) {
  PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(give_buffer)}, {0, nullptr}};
  nb::class_<Memory>(module, "Memory", nb::type_slots(slots));
  PyDateTime_IMPORT;
  epoch = PyDateTimeAPI->DateTime_FromDateAndTime(1970, 1, 1, 0, 0, 0, 0, PyDateTime_TimeZone_UTC,
                                                  PyDateTimeAPI->DateTimeType);
  if (epoch == nullptr) failed();
  formed = nb::object(nb::module_::import_("speed.wire.value").attr("formed")).release().ptr();
  column_type = nb::object(nb::module_::import_("speed.wire.column").attr("Column")).release().ptr();
}

Value to_value(nb::handle object, const char* what) { return value_of(object.ptr(), {nullptr, what, nullptr, 0}, 0); }

Map to_arguments(nb::handle object) {
  if (!PyDict_Check(object.ptr())) {
    throw UnserialisableError("arguments is of type " + type_name(object.ptr()) + ": use a dict");
  }
  PyObject* key = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(object.ptr(), &at, &key, nullptr);) {
    if (!PyUnicode_Check(key)) {
      throw UnserialisableError("arguments has a name of type " + type_name(key) + ": use str");
    }
  }
  return map_of(object.ptr(), {nullptr, "arguments", nullptr, 0}, 0);
}

nb::object to_object(const Value& value, bool as_views) { return std::visit(Made{as_views}, value.storage()); }

nb::object checked(PyObject* made) {
  if (made == nullptr) throw nb::python_error();
  return nb::steal(made);
}

nb::object bytes_of(ByteView data) { return nb::bytes(reinterpret_cast<const char*>(data.data()), data.size()); }

nb::object to_object(const Map& map) { return Made{}(map); }

}  // namespace speed::python
