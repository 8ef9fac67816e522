#include "core/service_table.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/fault.hpp"
#include "wire/limits.hpp"
#include "wire/names/names.hpp"
#include "wire/value/spc.hpp"
#include "wire/value/value_codec.hpp"

namespace speed::core {

namespace {

std::string text_of(const std::exception& error) {
  const std::string kind = kind_of(error);
  const std::string what = wire::readable(error.what(), wire::limits::max_error_characters);
  return what.empty() ? kind : kind + ": " + what;
}

// An error whose code is none that a service may give is a failure of the service (S-19).
Response checked(Response response) {
  const std::string& code = response.error_code;
  // What a node says of itself: its callers act on it.
  const bool is_nodes_own = code == "REPLACED" || code == "LEAVING";
  const bool may_be_given = wire::is_call_code(code) || wire::is_application_code(code);
  if (response.ok() || (may_be_given && !is_nodes_own)) return response;
  return Response::error("EXECUTION_FAILED", wire::refused_code(code));
}

Response failure(const std::exception& error, std::string& thrown) {
  Fault fault = fault_of(error);
  thrown = text_of(error);
  return Response::error(fault.code, fault.is_own ? error.what() : thrown, std::move(fault.details));
}

// What an argument was read as that it is not is told to the caller, like any wrong argument (S-20).
Response wrong_kind(const WrongKindError& error, const Request& request, std::string& thrown) {
  for (const auto& [key, value] : request.arguments) {
    const auto* const column = value.get_if<Column>();
    if (column == nullptr || column->body().data() != error.column()) continue;
    const auto name = key.as<std::string>();
    return Response::error("INVALID_ARGUMENTS", request.service + ": argument '" + name + "': " + error.what(),
                           {{"argument", name}});
  }
  return failure(error, thrown);
}

}  // namespace

void ServiceTable::add(const std::string& name, std::shared_ptr<Service> service,
                       const std::optional<std::vector<std::string>>& allow, bool idempotent, bool views,
                       Map description) {
  wire::check_service_name(name);
  if (allow && std::ranges::any_of(*allow, wire::names_identity)) {
    throw InvalidNameError("grants of a service name nodes alone: grant the identity at the node");
  }
  if (service == nullptr) throw ConfigurationError("service '" + name + "' is null: register an object");
  Row row{std::move(service), allow ? std::make_shared<AccessPolicy>(*allow) : nullptr, idempotent, views,
          std::move(description)};
  const MutexLock guard(lock_);
  if (!rows_.try_emplace(name, std::move(row)).second) {
    throw ServiceExistsError("service '" + name + "' is already registered; unregister it first");
  }
}

// Its destructor, which may be the program's, runs outside of the lock.
void ServiceTable::remove(const std::string& name) {
  std::map<std::string, Row>::node_type gone;
  {
    const MutexLock guard(lock_);
    gone = rows_.extract(name);
  }
  if (gone.empty()) throw ServiceNotFoundError("no service '" + name + "' is registered");
}

// Their destructors, which may be the program's, run outside of the lock.
void ServiceTable::release() {
  std::vector<std::shared_ptr<Service>> gone;
  const MutexLock guard(lock_);
  for (auto& [name, row] : rows_) gone.push_back(std::exchange(row.service, nullptr));
}

std::optional<ServiceTable::Row> ServiceTable::row(const std::string& name) const {
  const MutexLock guard(lock_);
  const auto found = rows_.find(name);
  return found == rows_.end() ? std::nullopt : std::optional(found->second);
}

bool ServiceTable::has(const std::string& name) const {
  const MutexLock guard(lock_);
  return rows_.contains(name);
}

std::vector<std::string> ServiceTable::names(const std::string& caller) const {
  const MutexLock guard(lock_);
  std::vector<std::string> names;
  for (const auto& [name, row] : rows_) {
    if (row.allows(caller)) names.push_back(name);
  }
  return names;
}

Array ServiceTable::descriptions(const std::string& caller, std::size_t most_bytes) const {
  struct Described {
    Map whole, brief;
    std::size_t brief_bytes;
  };
  std::vector<Described> all;
  std::size_t bytes = 0;
  {
    const MutexLock guard(lock_);
    for (const auto& [name, row] : rows_) {
      if (!row.allows(caller)) continue;
      Map whole = row.description.empty() ? ServiceDescription().as_map(name, row.idempotent) : row.description;
      Map brief;
      for (const Member& member : whole) {
        const auto key = member.key.as<std::string>();
        if (key != "parameters" && key != "result") brief.set(key, member.value);
      }
      const std::size_t size = wire::pack(brief).size();
      bytes += size;
      all.push_back({std::move(whole), std::move(brief), size});
    }
  }
  Array described;
  for (Described& one : all) {
    const std::size_t more = wire::pack(one.whole).size() - one.brief_bytes;
    const bool fits = bytes + more <= most_bytes;
    if (fits) bytes += more;
    described.emplace_back(fits ? std::move(one.whole) : std::move(one.brief));
  }
  return described;
}

ServiceTable::Found ServiceTable::find(const std::string& name, const std::string& caller) const {
  const std::optional<Row> known = row(name);
  if (!known || known->service == nullptr) {
    return {nullptr, false, false, false,
            Response::error("SERVICE_NOT_FOUND",
                            "no service '" + name + "' here: `speed services` lists those you may call")};
  }
  if (!known->allows(caller)) {
    return {nullptr, false, false, false,
            Response::error("ACCESS_DENIED", "service '" + name + "' does not allow node '" + caller + "'")};
  }
  const Value* const streaming = known->description.find("streaming");
  return {known->service, known->idempotent, known->views, streaming != nullptr && *streaming == Value(true),
          std::nullopt};
}

// Never a stack trace, which may show payloads and paths.
Response ServiceTable::run(Service& service, const Request& request, std::string& thrown) {
  try {
    return checked(service.invoke(request));
  } catch (const CallWithdrawnError& error) {
    if (request.cancelled()) return Response::error(error.code(), error.what(), {{"phase", "running"}});
    thrown = text_of(error);
    return Response::error("EXECUTION_FAILED", thrown, fault_of(error).details);
  } catch (const WrongKindError& error) {
    return wrong_kind(error, request, thrown);
  } catch (const std::exception& error) {
    return failure(error, thrown);
  } catch (...) {
    thrown = "the service threw what is no std::exception";
    return Response::error("EXECUTION_FAILED", thrown);
  }
}

}  // namespace speed::core

namespace speed {

void Request::progress(double done, std::optional<double> total, std::string note) const {
  const auto is_amount = [](double number) { return number >= 0 && number < 9223372036854775808.0; };
  if (!is_amount(done) || (total && !is_amount(*total))) {
    throw ConfigurationError("`done` and `total` of a progress are numbers from 0");
  }
  if (channel == nullptr || !channel->offer().progress) return;
  const auto is_whole = [](double number) { return std::trunc(number) == number; };
  channel->report({done, total, std::move(note), is_whole(done), total && is_whole(*total)});
}

ServiceDescription& ServiceDescription::add(const std::string& name, Map schema, bool required,
                                            std::function<void(const Value&)> check) {
  const bool is_known = std::ranges::find(parameters_, name, &Parameter::name) != parameters_.end();
  if (name.empty() || is_known) {
    throw ConfigurationError("a service's parameter '" + name + "' " +
                             (is_known ? "is declared twice" : "has no name"));
  }
  declares_ = true;
  parameters_.push_back({name, std::move(schema), required, std::move(check)});
  return *this;
}

Map ServiceDescription::as_map(const std::string& name, bool idempotent) const {
  Map described{{"name", name},
                {"summary", wire::readable_characters(summary_, wire::limits::max_summary_characters)},
                {"version", wire::readable_characters(version_, wire::limits::max_summary_characters)},
                {"streaming", false},
                {"idempotent", idempotent},
                {"columns", columns_}};
  Map schemas;
  if (declares_) {
    Map properties;
    Array required;
    for (const Parameter& one : parameters_) {
      properties.set(one.name, one.schema);
      if (one.required) required.emplace_back(one.name);
    }
    Map parameters{{"type", "object"}, {"properties", properties}};
    if (!required.empty()) parameters.set("required", required);
    parameters.set("additionalProperties", false);
    schemas.set("parameters", parameters);
  }
  if (result_) schemas.set("result", *result_);
  if (wire::pack(schemas).size() > wire::limits::max_description_bytes) return described;
  for (const Member& member : schemas) described.set(member.key, member.value);
  return described;
}

void ServiceDescription::check(const Request& request) const {
  if (!declares_) return;
  const auto refuse = [&](const std::string& name, const std::string& why) {
    throw InvalidArgumentsError(request.service + ": " + why, {{"argument", name}});
  };
  for (const Member& member : request.arguments) {
    const auto name = member.key.as<std::string>();
    const auto known = std::ranges::find(parameters_, name, &Parameter::name);
    if (known == parameters_.end()) {
      std::string possible;
      for (const Parameter& one : parameters_) possible += (possible.empty() ? "" : ", ") + one.name;
      refuse(name, "unknown argument '" + name + "'; there are " + (possible.empty() ? "none" : possible));
    }
    if (columns_ && member.value.get_if<Column>() != nullptr) continue;  // the service looks at each row
    try {
      known->check(member.value);
    } catch (const ConversionError& error) {
      refuse(name, "argument '" + name + "': " + error.what());
    }
  }
  for (const Parameter& one : parameters_) {
    if (one.required && request.arguments.find(one.name) == nullptr) {
      refuse(one.name, "missing argument '" + one.name + "'");
    }
  }
}

}  // namespace speed
