#include "core/fault.hpp"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <typeinfo>

#include "speed/error.hpp"

namespace speed::core {

namespace {

constexpr std::string_view failed = "EXECUTION_FAILED";

Fault of_a_call(const Error& error) {
  return {failed, {{"cause", error.code()}, {"node", error.node()}, {"service", error.service()}}, false};
}

Fault of_the_service(const std::exception& error) {
  Map details{{"exception", kind_of(error)}};
  if (const auto* const cause = dynamic_cast<const CallError*>(&error)) details.set("cause", cause->code());
  return {failed, std::move(details), false};
}

}  // namespace

std::string kind_of(const std::exception& error) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> readable(
      abi::__cxa_demangle(typeid(error).name(), nullptr, nullptr, &status), &std::free);
  return status == 0 ? readable.get() : "exception";
}

Fault fault_of(const std::exception& error) {
  const auto* const known = dynamic_cast<const CallError*>(&error);
  if (const auto* const any = dynamic_cast<const Error*>(&error); any != nullptr && !any->node().empty()) {
    return of_a_call(*any);
  }
  if (known == nullptr || dynamic_cast<const ConversionError*>(&error) != nullptr) return of_the_service(error);
  const bool is_stated = dynamic_cast<const InvalidArgumentsError*>(known) != nullptr ||
                         dynamic_cast<const ExecutionFailedError*>(known) != nullptr ||
                         dynamic_cast<const ApplicationError*>(known) != nullptr;
  return is_stated ? Fault{known->code(), known->details(), true} : of_the_service(error);
}

}  // namespace speed::core
