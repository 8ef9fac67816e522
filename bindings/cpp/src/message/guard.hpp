// Who may see what: classification and clearance (M-28).
#pragma once

#include "message/encryption.hpp"
#include "message/known_schemas.hpp"
#include "message/signature.hpp"
#include "message/trail.hpp"
#include "speed/message_security.hpp"
#include "wire/message/message.hpp"

namespace speed::message {

std::string_view name_of(Classification level);

// Of the highest level: who is handed it is written down (M-31).
bool is_restricted(std::string_view classification);

// NotEncryptedError for a confidential or restricted message in the clear; both sides ask this.
void check_sensitivity(std::string_view classification, bool is_encrypted);

// ClearanceError for a message above the clearance; none is cleared for all.
void check_clearance(std::string_view classification, const std::optional<Classification>& clearance);

// Applies a MessageSecurity: messages written with what protects them, and opened in the order of M-25.
// Threads: all methods may be called from any thread.

// A received message that was checked.
struct Opened {
  std::optional<wire::Buffer> plain = {};   // the payload before compression and encryption; null: as it travelled
  bool is_encoded = false;                  // in an encoding that is not read here
  std::optional<std::string> signed_by = {};  // ids of keys
  std::optional<std::string> opened_by = {};
  bool marks_personal_data = false;  // a schema of this node does
};

// Whether something is asked for a message.
inline bool asks(const Protection& asked) {
  return asked.sign_with || asked.encrypt_to || asked.compression || asked.classification || asked.contains_pii ||
         asked.direct || !asked.aad.empty() || asked.schema;
}

// What also a node without settings for security asks of what it receives (M-19, M-28). MessageError.
void check_unopened(const wire::MessageView& view);

class Guard {
 public:
  // `name` is the node's, for an audit. ConfigurationError for settings that cannot be.
  explicit Guard(MessageSecurity security, std::string name = {});

  // Whether it does something to a message of these options.
  bool protects(const Protection& asked) const;

  // Appends one message as its options and the settings ask. MessageError, WireError, UnserialisableError,
  // PayloadTooLargeError, StorageError (audit).
  void write(const Value& payload, wire::MessageFields fields, const Protection& asked, wire::Buffer& out) const;
  // The same for a payload that is bytes of this media type already.
  void write(std::string_view media_type, wire::Buffer content, wire::MessageFields fields, const Protection& asked,
             wire::Buffer& out) const;

  // Whether such a message is looked at: what is large must be in memory for that (M-16).
  bool looks_at(const wire::MessageView& view) const;

  // Checks a message of a node at a time in Unix ms; nothing is decrypted for who is not trusted. MessageError, WireError;
  // KeyUnavailableError, SchemasAway and StorageError (audit) for what is to be judged later.
  Opened open(const wire::MessageView& view, std::int64_t now_ms, std::string_view source = {}) const;

  // Tells the audit of a message that is not written because of `error`. StorageError.
  void tell_not_written(const wire::MessageFields& fields, const Protection& asked, const MessageError& error) const;
  // Tells the audit of a message that is refused unseen. StorageError.
  void tell_refused(const wire::MessageView& view, std::string_view source, const MessageError& error) const;

 private:
  struct Keys {
    std::vector<MessageKey> encrypt_to;
    std::optional<MessageKey> sign_with;
  };

  void write_told(std::string_view media_type, wire::Buffer content, wire::MessageFields& fields,
                  const Protection& asked, wire::Buffer& out, Trail& trail) const;
  void describe_schema(std::string_view media_type, ByteView content, wire::MessageFields& fields) const;
  Keys keys_for(const wire::MessageFields& fields, const Protection& asked) const;
  void encrypt_payload(std::string_view media_type, wire::Buffer& content, wire::MessageFields& fields,
                       const Keys& keys, const Protection& asked) const;
  void protect(std::string_view media_type, wire::Buffer content, wire::MessageFields& fields, const Keys& keys,
               const Protection& asked, wire::Buffer& out) const;
  TrustedKeys trusted() const;
  Opened opened(const wire::MessageView& view, std::int64_t now_ms, Trail& trail) const;
  std::optional<std::string> verified(const wire::MessageView& view, Trail& trail) const;
  std::optional<PayloadSchema> admitted(const wire::MessageView& view, std::int64_t now_ms) const;
  void open_payload(const wire::MessageView& view, Opened& opened, Trail& trail) const;

  const MessageSecurity security_;
  const KnownSchemas schemas_;
  const std::string name_;
};

}  // namespace speed::message
