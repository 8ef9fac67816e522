#include "message/kem.hpp"

#include "message/cipher.hpp"
#include "message/hpke.hpp"
#include "speed/message_error.hpp"

namespace speed::message {

namespace {

constexpr std::string_view key_domain = "speed/1 message key";

[[noreturn]] void refuse(const MessageKey& key) {
  throw EncryptionError("the data key does not open with key '" + key.id() + "'");
}

void check_length(const char* field, std::size_t size, std::size_t needed) {
  if (size == needed) return;
  throw EncryptionError(std::string(field) + ": has " + std::to_string(size) + " bytes and needs " +
                        std::to_string(needed));
}

}  // namespace

void put_lp(ByteView bytes, Bytes& out) {
  wire::Block<8> length;
  wire::store(length.data(), std::uint64_t{bytes.size()});
  wire::append(out, length);
  wire::append(out, bytes);
}

Bytes key_info(const MessageKey& key, ByteView encapsulated, const Hash& context) {
  Bytes info;
  put_lp(wire::view(key_domain), info);
  put_lp(wire::view(key.algorithm()), info);
  put_lp(encapsulated, info);
  put_lp(key.state().public_bytes, info);
  put_lp(wire::view(key.id()), info);
  wire::append(info, context);
  return info;
}

Secret wrapping_key(const MessageKey& key, const Secret& secret, ByteView encapsulated, const Hash& context) {
  const Secret extracted = hkdf_extract({}, {secret.view()});
  return hkdf_expand(extracted.view(), {key_info(key, encapsulated, context)}, data_key_bytes);
}

Wrapped wrap(const MessageKey& key, ByteView data_key, ByteView iv, const Hash& context) {
  Shared shared = encapsulate(key);
  Wrapped wrapped{std::move(shared.encapsulated_key), Bytes(wrapped_key_bytes)};
  if (key.state().algorithm->family == Family::x_wing) {
    hpke_seal(shared.secret, key_info(key, {}, context), data_key, wrapped.wrapped_key);
  } else {
    const Secret wrapping = wrapping_key(key, shared.secret, wrapped.encapsulated_key, context);
    seal(key.state().algorithm->cipher, wrapping.view(), iv, {}, data_key, wrapped.wrapped_key);
  }
  return wrapped;
}

Secret unwrap(const MessageKey& key, ByteView encapsulated, ByteView sealed, ByteView iv, const Hash& context) {
  const Algorithm& algorithm = *key.state().algorithm;
  check_length("encapsulated_key", encapsulated.size(), algorithm.output);
  check_length("wrapped_key", sealed.size(), wrapped_key_bytes);
  const std::optional<Secret> secret = decapsulate(key, encapsulated);
  if (!secret) refuse(key);
  Secret data_key(data_key_bytes);
  bool opened = false;
  if (algorithm.family == Family::x_wing) {
    opened = hpke_open(*secret, key_info(key, {}, context), sealed, data_key.span());
  } else {
    const Secret wrapping = wrapping_key(key, *secret, encapsulated, context);
    opened = open(algorithm.cipher, wrapping.view(), iv, {}, sealed, data_key.span());
  }
  if (!opened) refuse(key);
  return data_key;
}

}  // namespace speed::message
