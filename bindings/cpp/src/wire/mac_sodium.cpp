#include <sodium.h>

#include "wire/mac.hpp"

namespace speed::wire {

struct MacKey::State {
  crypto_auth_hmacsha256_state begun;
  ~State() { sodium_memzero(&begun, sizeof begun); }
};

MacKey::MacKey(const Key& key) : state_(std::make_unique<State>()) {
  crypto_auth_hmacsha256_init(&state_->begun, raw(ByteView(key)), key.size());
}
MacKey::MacKey(MacKey&&) noexcept = default;
MacKey& MacKey::operator=(MacKey&&) noexcept = default;
MacKey::~MacKey() = default;

Mac MacKey::of(ByteView data) {
  crypto_auth_hmacsha256_state state = state_->begun;
  Mac mac;
  crypto_auth_hmacsha256_update(&state, raw(data), data.size());
  crypto_auth_hmacsha256_final(&state, raw(std::span<std::byte>(mac)));
  return mac;
}

}  // namespace speed::wire
