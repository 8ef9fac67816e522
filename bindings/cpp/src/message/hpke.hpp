// What X-Wing needs of HPKE (RFC 9180): base mode, KEM 0x647a, HKDF-SHA256, AES-256-GCM, one message a context (M-21).
#pragma once

#include "message/secret.hpp"

namespace speed::message {

// X-Wing's combiner of ML-KEM's secret and X25519's, with X25519's two public keys.
Secret x_wing_secret(const Secret& quantum, const Secret& classical, ByteView ephemeral, ByteView known);

// The first message under the context of that secret; `to` has 16 bytes more than `plain`, and the other way round.
void hpke_seal(const Secret& secret, ByteView info, ByteView plain, std::span<std::byte> to);
bool hpke_open(const Secret& secret, ByteView info, ByteView sealed, std::span<std::byte> to);

}  // namespace speed::message
