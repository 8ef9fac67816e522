// What is done to one message, told to an audit as it ends: each step that succeeds, and the refusal (M-31).
// Threads: for one thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "speed/audit_log.hpp"
#include "speed/error.hpp"
#include "speed/message_key.hpp"
#include "wire/message/message.hpp"

namespace speed::message {

// Each method that writes a line throws StorageError if that fails. Without a log nothing is done, nor put together.
class Trail {
 public:
  // Of a message that is not written yet. What is given stays where it is as long as the trail.
  Trail(AuditLog* log, const wire::MessageFields& fields, std::string_view classification);
  // Of one that the node `source` sent to `reader`.
  Trail(AuditLog* log, const wire::MessageView& view, std::string_view source, std::string_view reader);

  // Steps that use keys, as far as that is known.
  void begins_sending(const std::vector<MessageKey>& readers, const std::optional<MessageKey>& signer);
  void begins_verifying(const wire::Security& said);
  void begins_opening(const wire::Security& said);
  void ends();  // no key is used from here on

  void sent(const std::vector<MessageKey>& readers, const std::optional<MessageKey>& signer);
  void done(const std::string& key_id);       // the step that began succeeded, with this key
  void accessed(bool contains_pii);           // the program is handed it
  void refused(std::string_view code);

 private:
  void begins(std::string_view operation, std::string algorithm, std::string key_id);
  void write(std::string_view operation, std::string_view outcome, std::string_view algorithm, std::string_view key_id);

  AuditLog* const log_;
  const std::string_view refuses_;
  const std::string_view message_id_;
  std::vector<std::pair<std::string_view, std::string>> told_;  // of nodes and of what the message says, in their order
  bool contains_pii_ = false;
  std::string_view operation_ = refuses_;
  std::string algorithm_;
  std::string key_id_;
};

}  // namespace speed::message
