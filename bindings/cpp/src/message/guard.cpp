#include "message/guard.hpp"

#include <algorithm>
#include <array>

#include "message/compression.hpp"
#include "wire/limits.hpp"
#include "wire/message/content.hpp"

namespace speed::message {

namespace {

constexpr std::array<std::string_view, 4> names{"public", "internal", "confidential", "restricted"};

// Absent is internal; a text of a later version counts as the highest.
Classification level_of(std::string_view classification) {
  if (classification.empty()) return Classification::internal;
  const auto* const found = std::ranges::find(names, classification);
  return found == names.end() ? Classification::restricted : static_cast<Classification>(found - names.begin());
}

}  // namespace

std::string_view name_of(Classification level) { return names[static_cast<std::size_t>(level)]; }

bool is_restricted(std::string_view classification) { return level_of(classification) == Classification::restricted; }

void check_sensitivity(std::string_view classification, bool is_encrypted) {
  const Classification level = level_of(classification);
  if (level < Classification::confidential || is_encrypted) return;
  throw NotEncryptedError("data_classification: a " + std::string(name_of(level)) +
                          " message must be encrypted: give `encrypt_to`");
}

void check_clearance(std::string_view classification, const std::optional<Classification>& clearance) {
  const Classification level = level_of(classification);
  if (!clearance || level <= *clearance) return;
  throw ClearanceError("data_classification: is " + std::string(name_of(level)) + ", and this node is cleared for " +
                       std::string(name_of(*clearance)));
}

namespace {

using wire::Buffer;
using wire::MessageFields;

constexpr std::size_t longest_signature_record = 80;  // with what the lengths around it grow by

void check_algorithms(const std::vector<MessageKey>& keys, FipsMode mode) {
  for (const MessageKey& key : keys) algorithm_of(key.algorithm(), mode);
}

// A payload of nothing is left alone.
void compress_payload(const std::string& encoding, Buffer& content, MessageFields& fields) {
  const int number = encoding_of(encoding);
  if (number == 0 || content.size() == 0) return;
  Buffer compressed;
  compress(encoding, content.view(), compressed);
  fields.content_encoding = number;
  fields.uncompressed_bytes = static_cast<std::int64_t>(content.size());
  content = std::move(compressed);
}

Described describe(std::string_view media_type, const MessageFields& fields, const std::string& aad) {
  return {fields.message_id,
          fields.topic,
          fields.name_space,
          std::string(media_type),
          {},
          wire::content_encoding_text(fields.content_encoding, {}),
          fields.uncompressed_bytes,
          fields.schema ? fields.schema->hash : std::string(),
          fields.data_classification,
          wire::view(aad)};
}

std::string classification_of(const Protection& asked) {
  return asked.classification ? std::string(name_of(*asked.classification)) : std::string();
}

// M-16.
void check_size(std::size_t size) {
  if (size <= wire::limits::max_payload_bytes) return;
  throw NotAvailableError("what no envelope holds is neither signed, encrypted nor described: send it in parts");
}

// What cannot be read does not fit. What the schema says of personal data counts, whatever the publisher says (M-29).
void hold(const PayloadSchema& schema, const wire::MessageView& view, Opened& opened) {
  if (opened.is_encoded) throw SchemaError("content_encoding: is not read here, so that nobody can tell what it holds");
  deprecated_in(schema, view.content_type(), opened.plain ? opened.plain->view() : view.payload_bytes());
  opened.marks_personal_data = schema.marks_personal_data;
}

}  // namespace

Guard::Guard(MessageSecurity security, std::string name)
    : security_(std::move(security)), schemas_(security_.schemas), name_(std::move(name)) {
  encoding_of(security_.compression);
  if (security_.keys == nullptr) throw ConfigurationError("message security needs a KeyStore: give `keys`");
  if (security_.policy != SignaturePolicy::off && security_.trusted.empty()) {
    throw ConfigurationError("a signature policy needs `trusted`: names of key sets of publishers");
  }
}

void check_unopened(const wire::MessageView& view) {
  check_signature_algorithm(view, FipsMode::off);
  check_sensitivity(view.security().data_classification, view.is_encrypted());
  if (view.is_encrypted()) algorithm_of(view.security().encryption->algorithm);
}

bool Guard::protects(const Protection& asked) const {
  return asks(asked) || security_.sign_with || !security_.encrypt_to.empty() || security_.compression != "none" ||
         security_.publisher_team;
}

Guard::Keys Guard::keys_for(const MessageFields& fields, const Protection& asked) const {
  const auto current = [&](const std::string& name) {
    MessageKey key = security_.keys->current(name, fields.name_space, fields.topic, fields.published_at_ms);
    check_algorithms({key}, security_.fips_mode);
    return key;
  };
  Keys keys;
  for (const std::string& name : asked.encrypt_to.value_or(security_.encrypt_to)) {
    keys.encrypt_to.push_back(current(name));
  }
  const std::optional<std::string>& signer = asked.sign_with ? asked.sign_with : security_.sign_with;
  if (signer) keys.sign_with = current(*signer);
  if (asked.direct && keys.encrypt_to.size() != 1) {
    throw ConfigurationError("direct RSA is for one recipient: give one key set in `encrypt_to`");
  }
  return keys;
}

void Guard::encrypt_payload(std::string_view media_type, Buffer& content, MessageFields& fields, const Keys& keys,
                            const Protection& asked) const {
  if (keys.encrypt_to.empty()) return;
  const Described described = describe(media_type, fields, asked.aad);
  Buffer sealed;
  fields.encryption = asked.direct ? encrypt_directly(content.view(), keys.encrypt_to[0], described, sealed)
                                   : encrypt(content.view(), keys.encrypt_to, described, sealed);
  content = std::move(sealed);
}

void Guard::write(const Value& payload, MessageFields fields, const Protection& asked, Buffer& out) const {
  Buffer content;
  wire::encode_content(payload, content);
  write(wire::media_type_of(payload), std::move(content), std::move(fields), asked, out);
}

// A refusal is told, and so is each use of a key, before anything comes of it (M-31).
void Guard::write(std::string_view media_type, Buffer content, MessageFields fields, const Protection& asked,
                  Buffer& out) const {
  Trail trail(security_.audit.get(), fields, classification_of(asked));
  try {
    write_told(media_type, std::move(content), fields, asked, out, trail);
  } catch (const MessageError& error) {
    trail.refused(error.code());
    throw;
  }
}

void Guard::write_told(std::string_view media_type, Buffer content, MessageFields& fields, const Protection& asked,
                       Buffer& out, Trail& trail) const {
  fields.contains_pii = asked.contains_pii;
  fields.publisher_team = security_.publisher_team;
  if (fields.schema) describe_schema(media_type, content.view(), fields);
  const Keys keys = keys_for(fields, asked);
  trail.begins_sending(keys.encrypt_to, keys.sign_with);
  Buffer written;
  protect(media_type, std::move(content), fields, keys, asked, written);
  const Bytes with_signature = keys.sign_with ? sign(written.view(), *keys.sign_with) : Bytes();
  trail.sent(keys.encrypt_to, keys.sign_with);
  out.append(keys.sign_with ? ByteView(with_signature) : written.view());
}

// What the schema says counts, whatever the program says (M-29).
void Guard::describe_schema(std::string_view media_type, ByteView content, MessageFields& fields) const {
  const std::optional<PayloadSchema> known = schemas_.of(*fields.schema);
  if (!known) return;
  fields.schema->hash = known->hash;
  fields.schema->deprecated_fields_used = deprecated_in(*known, media_type, content);
  fields.contains_pii |= known->marks_personal_data;
}

// Compresses, encrypts, and says who will sign (M-25).
void Guard::protect(std::string_view media_type, Buffer content, MessageFields& fields, const Keys& keys,
                    const Protection& asked, Buffer& out) const {
  if (asked.classification) fields.data_classification = name_of(*asked.classification);
  check_sensitivity(fields.data_classification, !keys.encrypt_to.empty());
  check_size(content.size());
  compress_payload(asked.compression.value_or(security_.compression), content, fields);
  encrypt_payload(media_type, content, fields, keys, asked);
  if (keys.sign_with) {
    fields.signature_algorithm = keys.sign_with->algorithm();
    fields.signature_key_id = keys.sign_with->id();
  }
  wire::encode_message(media_type, content.view(), fields, out);
  check_size(out.size() + longest_signature_record);
}

TrustedKeys Guard::trusted() const {
  TrustedKeys keys;
  for (const std::string& name : security_.trusted) {
    for (const MessageKey& key : security_.keys->all(name)) keys.insert_or_assign(key.id(), key);
  }
  return keys;
}

bool Guard::looks_at(const wire::MessageView& view) const {
  return view.security().signatures > 0 || view.is_encrypted() || view.content_encoding() != "none" ||
         security_.policy == SignaturePolicy::require || schemas_.may_have(view.schema());
}

void Guard::tell_not_written(const MessageFields& fields, const Protection& asked, const MessageError& error) const {
  Trail(security_.audit.get(), fields, classification_of(asked)).refused(error.code());
}

void Guard::tell_refused(const wire::MessageView& view, std::string_view source, const MessageError& error) const {
  Trail(security_.audit.get(), view, source, name_).refused(error.code());
}

Opened Guard::open(const wire::MessageView& view, std::int64_t now_ms, std::string_view source) const {
  Trail trail(security_.audit.get(), view, source, name_);
  try {
    return opened(view, now_ms, trail);
  } catch (const KeyUnavailableError&) {  // not refused: it is judged later
    throw;
  } catch (const MessageError& error) {
    trail.refused(error.code());
    throw;
  } catch (const WireError& error) {
    trail.refused(error.reason());
    throw;
  }
}

Opened Guard::opened(const wire::MessageView& view, std::int64_t now_ms, Trail& trail) const {
  Opened opened;
  opened.signed_by = verified(view, trail);
  const std::optional<PayloadSchema> schema = admitted(view, now_ms);
  open_payload(view, opened, trail);
  if (schema) hold(*schema, view, opened);
  const bool contains_pii = view.security().contains_pii || opened.marks_personal_data;
  if (contains_pii || is_restricted(view.security().data_classification)) trail.accessed(contains_pii);
  return opened;
}

std::optional<std::string> Guard::verified(const wire::MessageView& view, Trail& trail) const {
  trail.begins_verifying(view.security());
  check_signature_algorithm(view, security_.fips_mode);
  std::optional<MessageKey> key;
  if (security_.policy != SignaturePolicy::off) {
    key = verify(view, trusted(), security_.policy, security_.fips_mode);
  }
  if (!key) {
    trail.ends();
    return std::nullopt;
  }
  trail.done(key->id());
  return key->id();
}

// Its schema, if that is here, once time, sensitivity and hash are as they must be.
std::optional<PayloadSchema> Guard::admitted(const wire::MessageView& view, std::int64_t now_ms) const {
  const bool is_ahead = view.published_at_ms() - now_ms > security_.future_tolerance_ms;
  if (security_.policy != SignaturePolicy::off && is_ahead) {
    throw WireError("BAD_MESSAGE", "published_at_ms: is ahead of this node's clock");
  }
  const std::string_view classification = view.security().data_classification;
  check_sensitivity(classification, view.is_encrypted());
  check_clearance(classification, security_.clearance);
  return schemas_.of(view.schema());
}

void Guard::open_payload(const wire::MessageView& view, Opened& opened, Trail& trail) const {
  trail.begins_opening(view.security());
  ByteView payload = view.payload_bytes();
  if (view.is_encrypted()) {
    const auto find = [&](std::string_view id) { return security_.keys->find(id); };
    opened.opened_by = decrypt(view, find, security_.fips_mode, opened.plain.emplace()).id();
    payload = opened.plain->view();
  }
  const std::string encoding = view.content_encoding();
  opened.is_encoded = encoding != "none" && !is_read(encoding);
  if (encoding != "none" && !opened.is_encoded) {
    Buffer plain;
    decompress(encoding, payload, view.uncompressed_bytes(), plain);
    opened.plain = std::move(plain);
  }
  opened.opened_by ? trail.done(*opened.opened_by) : trail.ends();
}

}  // namespace speed::message
