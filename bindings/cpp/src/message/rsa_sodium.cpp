// A build without OpenSSL has no RSA.
#include "message/rsa.hpp"
#include "speed/message_error.hpp"

namespace speed::message {

namespace {

[[noreturn]] void refuse() { throw NotAvailableError("rsa-oaep is not available here: build with OpenSSL 3"); }

}  // namespace

struct RsaKey::State {};

RsaKey::RsaKey(std::unique_ptr<State> state) : state_(std::move(state)) {}
RsaKey::~RsaKey() = default;
std::shared_ptr<const RsaKey> RsaKey::from_secret(ByteView) { refuse(); }
std::shared_ptr<const RsaKey> RsaKey::from_public(ByteView) { refuse(); }
Secret RsaKey::generate(std::size_t) { refuse(); }
bool RsaKey::is_available() { return false; }
std::size_t RsaKey::bits() const { refuse(); }
Bytes RsaKey::public_bytes() const { refuse(); }
Bytes RsaKey::encrypt(ByteView, ByteView) const { refuse(); }
std::optional<Secret> RsaKey::decrypt(ByteView, ByteView) const { refuse(); }

}  // namespace speed::message
