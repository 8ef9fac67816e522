// A build without OpenSSL has no ML-KEM.
#include "message/ml_kem.hpp"
#include "speed/message_error.hpp"

namespace speed::message {

namespace {

[[noreturn]] void refuse() {
  throw NotAvailableError("ML-KEM and its hybrids are not available here: build with OpenSSL 3.5 or newer");
}

}  // namespace

struct MlKemKey::State {};

MlKemKey::MlKemKey(std::unique_ptr<State> state) : state_(std::move(state)) {}
MlKemKey::~MlKemKey() = default;
bool MlKemKey::is_available() { return false; }
std::shared_ptr<const MlKemKey> MlKemKey::from_seed(int, ByteView) { refuse(); }
std::shared_ptr<const MlKemKey> MlKemKey::from_public(int, ByteView) { refuse(); }
Bytes MlKemKey::public_bytes() const { refuse(); }
Encapsulated MlKemKey::encapsulate() const { refuse(); }
std::optional<Secret> MlKemKey::decapsulate(ByteView) const { refuse(); }
wire::Block<32> sha3_256(ByteView) { refuse(); }
Secret shake_256(ByteView, std::size_t) { refuse(); }

}  // namespace speed::message
