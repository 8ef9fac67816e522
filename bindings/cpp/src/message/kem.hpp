// How one recipient gets the data key: a secret for each algorithm, one way to wrap (M-21).
#pragma once

#include "message/crypto.hpp"
#include "message/key.hpp"
#include "message/secret.hpp"

namespace speed::message {

// A data key for one recipient.
struct Wrapped {
  Bytes encapsulated_key;
  Bytes wrapped_key;
};

// A secret, and what its recipient needs to get it; the place of `Wrapped` and of HPKE's `enc`.
struct Shared {
  Bytes encapsulated_key;
  Secret secret;
};

// The data key for the holder of the key's secret.
Wrapped wrap(const MessageKey& key, ByteView data_key, ByteView iv, const Hash& context);

// The data key again. EncryptionError without a reason for all that does not open.
Secret unwrap(const MessageKey& key, ByteView encapsulated, ByteView sealed, ByteView iv, const Hash& context);

// HKDF-SHA256 of the secret, bound to all that led to it; and that `info`.
Secret wrapping_key(const MessageKey& key, const Secret& secret, ByteView encapsulated, const Hash& context);
Bytes key_info(const MessageKey& key, ByteView encapsulated, const Hash& context);

// A secret for the key's holder, and that secret again: null if it does not open, or X25519 gives zeros.
Shared encapsulate(const MessageKey& key);
std::optional<Secret> decapsulate(const MessageKey& key, ByteView encapsulated);

// Bytes behind their length as 8 bytes.
void put_lp(ByteView bytes, Bytes& out);

// What X-Wing needs of HPKE (RFC 9180): base mode, KEM 0x647a, HKDF-SHA256, AES-256-GCM, one message a context (M-21).

// X-Wing's combiner of ML-KEM's secret and X25519's, with X25519's two public keys.
Secret x_wing_secret(const Secret& quantum, const Secret& classical, ByteView ephemeral, ByteView known);

// The first message under the context of that secret; `to` has 16 bytes more than `plain`, and the other way round.
void hpke_seal(const Secret& secret, ByteView info, ByteView plain, std::span<std::byte> to);
bool hpke_open(const Secret& secret, ByteView info, ByteView sealed, std::span<std::byte> to);

}  // namespace speed::message
