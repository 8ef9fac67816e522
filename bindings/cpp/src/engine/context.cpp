#include "engine/context.hpp"

#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "core/counters.hpp"
#include "core/fault.hpp"

namespace speed::engine {

void ProgramsCode::end_child() {
  constexpr std::string_view text =
      "a process that was forked in a service, handler or callback of a SPEED node returned from it, and ends here: "
      "end such a process with _exit\n";
  [[maybe_unused]] const auto written = write(STDERR_FILENO, text.data(), text.size());
  _exit(EXIT_FAILURE);
}

void Context::callback_failed(const std::string& callback) {
  stats.count(core::counters::handler_failures);
  std::string text = "what is no std::exception";
  try {
    throw;
  } catch (const std::exception& error) {
    text = core::kind_of(error) + ": " + error.what();
  } catch (...) {  // said above
  }
  log.always(LogLevel::error, "speed.protocol", callback + " threw: " + text);
}

void Context::check_grants() const {
  if (peers != nullptr || policy.identities().empty()) return;
  throw ConfigurationError(
      "a grant with a fingerprint needs a node with an identity: give it NodeOptions::identity (identity=FILE)");
}

void Context::check_not_copied() const {
  if (peers == nullptr) return;
  for (const wire::Entry& entry : registry->live_entries()) {
    if (entry.name == name || fingerprint_in(entry) != peers->own) continue;
    throw IdentityCopiedError("'" + entry.name + "' lives with this identity: make one for each node");
  }
}

}  // namespace speed::engine
