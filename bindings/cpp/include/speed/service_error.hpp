// Errors of a service's own as classes with fields: a service throws one, and a caller that declared it catches it. Callers
// that did not, and those of other languages, get an ApplicationError with its code and its fields as details.
//
//   struct InsufficientFunds : speed::ApplicationError {
//     static constexpr char error_code[] = "INSUFFICIENT_FUNDS";
//     explicit InsufficientFunds(double left)
//         : ApplicationError(error_code, "there is not enough money", {{"balance", left}}), balance(left) {}
//     explicit InsufficientFunds(const speed::ApplicationError& received)
//         : ApplicationError(received), balance(speed::field<double>(received, "balance")) {}
//     double balance;
//   };
//   speed::declare_error<InsufficientFunds>();  // once, before the first call
//
// Python has the same as `class InsufficientFunds(speed.ServiceError)`.
// Threads: all functions may be called from any thread.
#pragma once

#include <concepts>
#include <exception>
#include <functional>
#include <string>
#include <string_view>

#include "speed/conversion.hpp"
#include "speed/error.hpp"
#include "speed/export.hpp"

namespace speed {

// The field of an error as a T (conversion.hpp); ConversionError where it is missing or no T.
template <class T>
T field(const CallError& error, std::string_view name) {
  const Value* const value = error.details().find(name);
  if (value == nullptr) throw ConversionError("the error has no field '" + std::string(name) + "'");
  return value->as<T>();
}

// Makes of an error with this code what calls throw from now on, in this process. What `make` throws leaves it as it is.
SPEED_EXPORT void declare_error(const std::string& code,
                                std::function<std::exception_ptr(const ApplicationError& received)> make);

template <std::derived_from<ApplicationError> Declared>
  requires std::constructible_from<Declared, const ApplicationError&>
void declare_error() {
  declare_error(Declared::error_code,
                [](const ApplicationError& received) { return std::make_exception_ptr(Declared(received)); });
}

}  // namespace speed
