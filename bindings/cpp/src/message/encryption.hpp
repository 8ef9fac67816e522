// A payload encrypted for its readers, bound to the message that carries it (M-20 to M-22).
#pragma once

#include <functional>
#include <optional>

#include "message/key.hpp"
#include "wire/message/message.hpp"

namespace speed::message {

using FindKey = std::function<std::optional<MessageKey>(std::string_view)>;  // the key of an id that this reader holds

// What of a message its encrypted payload is bound to.
struct Described {
  std::string message_id;
  std::string topic;
  std::string name_space;
  std::string content_type;
  std::string type_url;
  std::string content_encoding;
  std::int64_t uncompressed_bytes = 0;
  std::string schema_hash;
  std::string data_classification;
  ByteView aad;
};

// The ciphertext of `data` for the holders of the keys, and how it says what it is. EncryptionError for keys that cannot
// be recipients of one message.
wire::EncryptionFields encrypt(ByteView data, const std::vector<MessageKey>& keys, const Described& described,
                               wire::Buffer& out);

// RSA-OAEP of a small payload itself (M-22). PayloadTooLargeError above the key's bound.
wire::EncryptionFields encrypt_directly(ByteView data, const MessageKey& key, const Described& described,
                                        wire::Buffer& out);

// Appends the payload as it was before; the key that opened it. EncryptionError, NoRecipientKeyError, AlgorithmError,
// KeyRefusedError for a key that is not for that message.
MessageKey decrypt(const wire::MessageView& view, const FindKey& find, FipsMode mode, wire::Buffer& out);

}  // namespace speed::message
