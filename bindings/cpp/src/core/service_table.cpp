#include "core/service_table.hpp"

#include <cxxabi.h>

#include <cstdlib>
#include <typeinfo>

#include "wire/names.hpp"
#include "wire/value_codec.hpp"

namespace speed::core {

namespace {

constexpr std::size_t max_error_bytes = 2000;

// The class of an exception for people, such as `std::runtime_error`.
std::string kind_of(const std::exception& error) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> readable(
      abi::__cxa_demangle(typeid(error).name(), nullptr, nullptr, &status), &std::free);
  return status == 0 ? readable.get() : "exception";
}

// EXECUTION_FAILED with the kind and text of the failure; never a stack trace, which may show payloads and paths.
Response failed(const std::exception& error) {
  const std::string kind = kind_of(error);
  Map details{{"exception", kind}};
  if (const auto* const cause = dynamic_cast<const CallError*>(&error)) details.set("cause", cause->code());
  const std::string what = wire::readable(error.what(), max_error_bytes);
  return Response::error("EXECUTION_FAILED", what.empty() ? kind : kind + ": " + what, std::move(details));
}

Response run(Service& service, const Request& request) {
  try {
    return service.invoke(request);
  } catch (const InvalidArgumentsError& error) {
    return Response::error(error.code(), error.what(), error.details());
  } catch (const ExecutionFailedError& error) {
    return Response::error(error.code(), error.what(), error.details());
  } catch (const std::exception& error) {
    return failed(error);
  } catch (...) {
    return Response::error("EXECUTION_FAILED", "the service threw what is no std::exception");
  }
}

}  // namespace

void ServiceTable::add(const std::string& name, std::shared_ptr<Service> service,
                       const std::optional<std::vector<std::string>>& allow) {
  wire::check_service_name(name);
  if (service == nullptr) throw ConfigurationError("service '" + name + "' is null: register an object");
  Row row{std::move(service), allow ? std::make_shared<AccessPolicy>(*allow) : nullptr};
  const std::lock_guard guard(lock_);
  if (!rows_.try_emplace(name, std::move(row)).second) {
    throw ServiceExistsError("service '" + name + "' is already registered on this node: choose another name");
  }
}

std::optional<ServiceTable::Row> ServiceTable::find(const std::string& name) const {
  const std::lock_guard guard(lock_);
  const auto found = rows_.find(name);
  return found == rows_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<std::string> ServiceTable::names(const std::string& caller) const {
  const std::lock_guard guard(lock_);
  std::vector<std::string> names;
  for (const auto& [name, row] : rows_) {
    if (row.allows(caller)) names.push_back(name);
  }
  return names;
}

Response ServiceTable::invoke(const Request& request, const std::function<void()>& entering) const {
  const std::optional<Row> row = find(request.service);
  if (!row) return Response::error("SERVICE_NOT_FOUND",
                                   "no service '" + request.service + "' here: `speed services` lists those you may call");
  if (!row->allows(request.caller)) {
    return Response::error("ACCESS_DENIED",
                           "service '" + request.service + "' does not allow node '" + request.caller + "'");
  }
  entering();
  return run(*row->service, request);
}

}  // namespace speed::core
