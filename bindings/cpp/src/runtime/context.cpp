#include "runtime/context.hpp"

#include "core/fault.hpp"

namespace speed::runtime {

void Context::callback_failed(const std::string& callback) {
  stats.count("handler_failures");
  std::string text = "what is no std::exception";
  try {
    throw;
  } catch (const std::exception& error) {
    text = core::kind_of(error) + ": " + error.what();
  } catch (...) {  // said above
  }
  log.always(LogLevel::error, "speed.protocol", callback + " threw: " + text);
}

}  // namespace speed::runtime
