// Who encrypted, decrypted, signed, checked and refused what, and who was handed what is personal or restricted: a line of
// JSON each, never a key or payload.
//   speed::MessageSecurity security;
//   security.audit = std::make_shared<speed::AuditLog>("/var/log/shop/audit.jsonl");
// Threads: all methods may be called from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "speed/export.hpp"

namespace speed {

// A file that is private to this user; a link is refused. Beyond `max_bytes` it becomes `path.1`, and so on up to `kept`.
// Each process needs a file of its own. What cannot be written down does not happen: nothing is sent, and what was
// received waits.
class SPEED_EXPORT AuditLog {
 public:
  explicit AuditLog(const std::string& path, std::uint64_t max_bytes = 16 << 20, unsigned kept = 4);  // StorageError
  ~AuditLog();
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  // Appends a JSON object that is not empty as one line, in one write; the time is put before its first field. A node does
  // so before what it tells of has an effect. StorageError.
  void write(std::string_view object);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace speed
