#include "core/service_table.hpp"

#include <cxxabi.h>

#include <cstdlib>
#include <typeinfo>
#include <utility>

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
Response failed(const std::exception& error, std::string& thrown) {
  const std::string kind = kind_of(error);
  Map details{{"exception", kind}};
  if (const auto* const cause = dynamic_cast<const CallError*>(&error)) details.set("cause", cause->code());
  const std::string what = wire::readable(error.what(), max_error_bytes);
  thrown = what.empty() ? kind : kind + ": " + what;
  return Response::error("EXECUTION_FAILED", thrown, std::move(details));
}

}  // namespace

void ServiceTable::add(const std::string& name, std::shared_ptr<Service> service,
                       const std::optional<std::vector<std::string>>& allow, bool idempotent) {
  wire::check_service_name(name);
  if (service == nullptr) throw ConfigurationError("service '" + name + "' is null: register an object");
  Row row{std::move(service), allow ? std::make_shared<AccessPolicy>(*allow) : nullptr, idempotent};
  const std::lock_guard guard(lock_);
  if (!rows_.try_emplace(name, std::move(row)).second) {
    throw ServiceExistsError("service '" + name + "' is already registered on this node: choose another name");
  }
}

// Their destructors, which may be the program's, run outside of the lock.
void ServiceTable::let_go() {
  std::vector<std::shared_ptr<Service>> gone;
  const std::lock_guard guard(lock_);
  for (auto& [name, row] : rows_) gone.push_back(std::exchange(row.service, nullptr));
}

std::optional<ServiceTable::Row> ServiceTable::row(const std::string& name) const {
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

ServiceTable::Found ServiceTable::find(const std::string& name, const std::string& caller) const {
  const std::optional<Row> known = row(name);
  if (!known || known->service == nullptr) {
    return {nullptr, false,
            Response::error("SERVICE_NOT_FOUND",
                            "no service '" + name + "' here: `speed services` lists those you may call")};
  }
  if (!known->allows(caller)) {
    return {nullptr, false,
            Response::error("ACCESS_DENIED", "service '" + name + "' does not allow node '" + caller + "'")};
  }
  return {known->service, known->idempotent, std::nullopt};
}

Response ServiceTable::run(Service& service, const Request& request, std::string& thrown) {
  try {
    return service.invoke(request);
  } catch (const InvalidArgumentsError& error) {
    return Response::error(error.code(), error.what(), error.details());
  } catch (const ExecutionFailedError& error) {
    return Response::error(error.code(), error.what(), error.details());
  } catch (const CallWithdrawnError& error) {
    if (request.cancelled()) return Response::error(error.code(), error.what(), {{"phase", "running"}});
    return failed(error, thrown);
  } catch (const std::exception& error) {
    return failed(error, thrown);
  } catch (...) {
    thrown = "the service threw what is no std::exception";
    return Response::error("EXECUTION_FAILED", thrown);
  }
}

}  // namespace speed::core
