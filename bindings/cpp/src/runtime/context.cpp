#include "runtime/context.hpp"

namespace speed::runtime {

void Context::callback_failed(const std::string& callback) {
  stats.count("handler_failures");
  std::string text = "what is no std::exception";
  try {
    throw;
  } catch (const std::exception& error) {
    text = error.what();
  } catch (...) {  // said above
  }
  log.rarely(LogLevel::error, "speed.protocol", callback, callback + " threw: " + text);
}

}  // namespace speed::runtime
