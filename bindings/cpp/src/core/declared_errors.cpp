#include "core/declared_errors.hpp"

#include <map>
#include <utility>

#include "speed/service_error.hpp"
#include "wire/mutex.hpp"

namespace speed {

namespace {

using Make = std::function<std::exception_ptr(const ApplicationError&)>;

struct Declarations {
  Mutex lock;
  std::map<std::string, Make, std::less<>> made SPEED_GUARDED_BY(lock);
};

Declarations& declarations() {
  static Declarations all;
  return all;
}

Make maker_of(std::string_view code) {
  Declarations& all = declarations();
  const MutexLock guard(all.lock);
  const auto found = all.made.find(code);
  return found == all.made.end() ? Make() : found->second;
}

}  // namespace

void declare_error(const std::string& code, Make make) {
  Declarations& all = declarations();
  const MutexLock guard(all.lock);
  all.made[code] = std::move(make);
}

std::exception_ptr core::as_declared(const ApplicationError& received) {
  if (const Make make = maker_of(received.code())) {
    try {
      if (std::exception_ptr declared = make(received)) return declared;
    } catch (...) {  // other fields than the class has: of another version, or of another service
    }
  }
  return std::make_exception_ptr(received);
}

}  // namespace speed
