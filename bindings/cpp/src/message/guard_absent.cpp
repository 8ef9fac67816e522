// For builds without SPEED_MESSAGES: no key can be made, and a node that asks for security is refused.
#include "message/guard.hpp"
#include "speed/error.hpp"

namespace speed {

struct SPEED_LOCAL KeyStore::State{};

KeyStore::KeyStore(const std::vector<MessageKey>& /*keys*/) {}
KeyStore::~KeyStore() = default;

namespace message {

namespace {

[[noreturn]] void refuse() {
  throw ConfigurationError("this build neither signs nor encrypts messages: build SPEED with SPEED_MESSAGES=ON");
}

}  // namespace

void check_unopened(const wire::MessageView& /*view*/) {}  // what embeds such a build checks it

Guard::Guard(MessageSecurity /*security*/, std::string /*name*/) : schemas_({}) { refuse(); }

bool Guard::protects(const Protection& /*asked*/) const { return false; }

void Guard::write(const Value& /*payload*/, wire::MessageFields /*fields*/, const Protection& /*asked*/,
                  wire::Buffer& /*out*/) const {
  refuse();
}

void Guard::write(std::string_view /*media_type*/, wire::Buffer /*content*/, wire::MessageFields /*fields*/,
                  const Protection& /*asked*/, wire::Buffer& /*out*/) const {
  refuse();
}

bool Guard::looks_at(const wire::MessageView& /*view*/) const { return false; }

Opened Guard::open(const wire::MessageView& /*view*/, std::int64_t /*now_ms*/, std::string_view /*source*/) const {
  refuse();
}

void Guard::tell_not_written(const wire::MessageFields& /*fields*/, const Protection& /*asked*/,
                             const MessageError& /*error*/) const {
  refuse();
}

void Guard::tell_refused(const wire::MessageView& /*view*/, std::string_view /*source*/,
                         const MessageError& /*error*/) const {
  refuse();
}

}  // namespace message

}  // namespace speed
