// How one recipient gets the data key: a secret for each algorithm, one way to wrap (M-21).
#pragma once

#include "message/kdf.hpp"
#include "message/key.hpp"

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

}  // namespace speed::message
