#include "message/encryption.hpp"

#include <algorithm>

#include "message/crypto.hpp"
#include "message/kem.hpp"
#include "speed/message_error.hpp"

namespace speed::message {

namespace {

constexpr std::string_view payload_domain = "speed/1 message payload";
constexpr std::size_t oaep_overhead = 66;
constexpr std::size_t shown_bytes = 40;

[[noreturn]] void refuse(const std::string& what) { throw EncryptionError(what); }

Described describe(const wire::MessageView& view) {
  const wire::Security& security = view.security();
  return {std::string(view.message_id()),
          std::string(view.topic()),
          std::string(view.name_space()),
          view.content_type(),
          std::string(view.type_url()),
          view.content_encoding(),
          view.uncompressed_bytes(),
          std::string(view.schema().hash),
          std::string(security.data_classification),
          security.encryption->aad};
}

void put_text(std::string_view text, Bytes& out) { put_lp(wire::view(text), out); }

// SHA-256 of the context: the associated data of the payload.
Hash context_of(const Algorithm& algorithm, const Described& described, const std::vector<std::string_view>& key_ids) {
  Bytes context;
  for (const std::string_view text :
       {payload_domain, algorithm.name, std::string_view(described.message_id), std::string_view(described.topic),
        std::string_view(described.name_space), std::string_view(described.content_type),
        std::string_view(described.type_url), std::string_view(described.content_encoding)}) {
    put_text(text, context);
  }
  wire::Block<8> size;
  wire::store(size.data(), static_cast<std::uint64_t>(described.uncompressed_bytes));
  wire::append(context, size);
  put_text(described.schema_hash, context);
  put_text(described.data_classification, context);
  put_lp(described.aad, context);
  wire::Block<4> number;
  wire::store(number.data(), static_cast<std::uint32_t>(key_ids.size()));
  wire::append(context, number);
  for (const std::string_view key_id : key_ids) put_text(key_id, context);
  return sha256({context});
}

bool has_twins(std::vector<std::string_view> key_ids) {
  std::ranges::sort(key_ids);
  return std::ranges::adjacent_find(key_ids) != key_ids.end();
}

// What both sides ask of recipients.
void check_recipients(const std::vector<std::string_view>& key_ids) {
  if (key_ids.empty() || key_ids.size() > max_recipients) {
    refuse("recipients: allowed are 1 to " + std::to_string(max_recipients));
  }
  if (has_twins(key_ids)) refuse("recipients: a key id stands there twice");
}

const Algorithm& common_algorithm(const std::vector<MessageKey>& keys) {
  const Algorithm* const first = state_of(keys.front()).algorithm;
  const auto differs = [&](const MessageKey& key) { return state_of(key).algorithm != first; };
  if (first->signs() || std::ranges::any_of(keys, differs)) {
    refuse("recipients: one message has one encryption algorithm, and all keys are of it");
  }
  return *first;
}

wire::EncryptionFields fields_of(const Algorithm& algorithm, const Described& described) {
  wire::EncryptionFields fields;
  fields.type = algorithm.type;
  fields.algorithm = algorithm.name;
  fields.aad.assign(described.aad.begin(), described.aad.end());
  return fields;
}

const Algorithm& algorithm_of_message(const wire::Encryption& encryption, FipsMode mode) {
  const Algorithm& algorithm = algorithm_of(encryption.algorithm, mode);
  if (algorithm.signs() || encryption.type != algorithm.type) {
    refuse("encryption_type: is not that of " + std::string(algorithm.name));
  }
  return algorithm;
}

// The first key that this reader holds, and its place.
std::pair<std::size_t, MessageKey> first_held(const std::vector<std::string_view>& key_ids, const Algorithm& algorithm,
                                              const FindKey& find) {
  for (std::size_t place = 0; place < key_ids.size(); ++place) {
    std::optional<MessageKey> key = find(key_ids[place]);
    if (!key || !key->has_secret()) continue;
    if (state_of(*key).algorithm != &algorithm) {
      refuse("algorithm: is " + std::string(algorithm.name) + ", and key '" + key->id() + "' is of " +
             std::string(key->algorithm()));
    }
    return {place, std::move(*key)};
  }
  if (!is_available(algorithm)) {
    throw NotAvailableError(std::string(algorithm.name) +
                            " is not available here: RSA needs OpenSSL 3, ML-KEM and its hybrids OpenSSL 3.5");
  }
  throw NoRecipientKeyError("the payload is for holders of '" + std::string(key_ids[0].substr(0, shown_bytes)) +
                            "' and the like, and none of their keys is here");
}

MessageKey decrypt_directly(const wire::MessageView& view, const Algorithm& algorithm, const FindKey& find,
                            wire::Buffer& out) {
  const wire::Encryption& encryption = *view.security().encryption;
  if (view.payload_bytes().size() != algorithm.output || !encryption.iv.empty()) {
    refuse("payload: " + std::string(algorithm.name) + " itself makes " + std::to_string(algorithm.output) +
           " bytes and has no iv");
  }
  const std::vector<std::string_view> key_ids{encryption.key_id};
  MessageKey key = first_held(key_ids, algorithm, find).second;
  check_use(key, view.name_space(), view.topic(), view.published_at_ms());
  const Hash label = context_of(algorithm, describe(view), key_ids);
  const std::optional<Secret> plain = state_of(key).rsa->decrypt(view.payload_bytes(), label);
  if (!plain) refuse("the payload does not open with key '" + key.id() + "'");
  out.append(plain->view());
  return key;
}

}  // namespace

wire::EncryptionFields encrypt(ByteView data, const std::vector<MessageKey>& keys, const Described& described,
                               wire::Buffer& out) {
  std::vector<std::string_view> key_ids;
  for (const MessageKey& key : keys) key_ids.push_back(key.id());
  check_recipients(key_ids);
  const Algorithm& algorithm = common_algorithm(keys);
  const Hash context = context_of(algorithm, described, key_ids);
  const Secret data_key = Secret::random(data_key_bytes);
  wire::EncryptionFields fields = fields_of(algorithm, described);
  fields.iv.resize(iv_bytes);
  randombytes_buf(fields.iv.data(), iv_bytes);
  for (const MessageKey& key : keys) {
    Wrapped wrapped = wrap(key, data_key.view(), fields.iv, context);
    fields.recipients.push_back({key.id(), std::move(wrapped.encapsulated_key), std::move(wrapped.wrapped_key)});
  }
  seal(algorithm.cipher, data_key.view(), fields.iv, context, data, out.extend(data.size() + tag_bytes));
  return fields;
}

wire::EncryptionFields encrypt_directly(ByteView data, const MessageKey& key, const Described& described,
                                        wire::Buffer& out) {
  const Algorithm& algorithm = *state_of(key).algorithm;
  if (algorithm.family != Family::rsa) {
    refuse("key '" + key.id() + "' is of " + std::string(algorithm.name) +
           ": only rsa-oaep encrypts a payload directly");
  }
  const std::size_t most = algorithm.output - oaep_overhead;
  if (data.size() > most) {
    throw PayloadTooLargeError(std::to_string(data.size()) + " bytes are too many for " + std::string(algorithm.name) +
                               " itself, which takes " + std::to_string(most) + ": leave `direct` out");
  }
  wire::EncryptionFields fields = fields_of(algorithm, described);
  fields.key_id = key.id();
  out.append(state_of(key).rsa->encrypt(data, context_of(algorithm, described, {key.id()})));
  return fields;
}

MessageKey decrypt(const wire::MessageView& view, const FindKey& find, FipsMode mode, wire::Buffer& out) {
  const wire::Encryption& encryption = *view.security().encryption;
  const Algorithm& algorithm = algorithm_of_message(encryption, mode);
  if (encryption.recipients.empty() && algorithm.family == Family::rsa) {
    return decrypt_directly(view, algorithm, find, out);
  }
  std::vector<std::string_view> key_ids;
  for (const wire::Recipient& recipient : encryption.recipients) key_ids.push_back(recipient.key_id);
  check_recipients(key_ids);
  const ByteView payload = view.payload_bytes();
  if (encryption.iv.size() != iv_bytes) refuse("iv: needs " + std::to_string(iv_bytes) + " bytes");
  if (payload.size() < tag_bytes) refuse("payload: has fewer bytes than a tag");
  const auto [place, key] = first_held(key_ids, algorithm, find);
  check_use(key, view.name_space(), view.topic(), view.published_at_ms());
  const Hash context = context_of(algorithm, describe(view), key_ids);
  const wire::Recipient& own = encryption.recipients[place];
  const Secret data_key = unwrap(key, own.encapsulated_key, own.wrapped_key, encryption.iv, context);
  if (!open(algorithm.cipher, data_key.view(), encryption.iv, context, payload,
            out.extend(payload.size() - tag_bytes))) {
    out.clear();
    refuse("the payload does not open: it or what describes it was altered");
  }
  return key;
}

}  // namespace speed::message
