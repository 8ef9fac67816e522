// Keys of messages (registry_spec/messages.md): what signs and encrypts beside the sealing of envelopes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "speed/export.hpp"
#include "speed/names.hpp"

namespace speed {

namespace message {
struct KeyAccess;
}

enum class FipsMode { off, rfc, strict };  // strict: only what NIST approves

// What a key may be used for.
struct KeyBounds {
  Names namespaces = {"*"};
  Names topics = {"*"};      // patterns
  Names publishers = {};     // names or families; for keys that sign, who may sign
  std::int64_t not_before_ms = 0;  // Unix time, as the next
  std::optional<std::int64_t> not_after_ms = {};
};

// One key, or its public part. It never shows its bytes but in `to_json`.
// Threads: immutable; copies share one key, which is wiped with the last of them.
class SPEED_EXPORT MessageKey {
 public:
  struct State;

  // Reads a key as a JSON object, as messages.md describes it. KeyRefusedError, WeakAlgorithmError, UnknownAlgorithmError, NotAvailableError.
  static MessageKey parse(std::string_view json);
  static MessageKey generate(const std::string& id, std::string_view algorithm, const KeyBounds& bounds = {});

  std::string to_json() const;  // with the secret, if this has it
  MessageKey public_part() const;  // to be given away; KeyRefusedError for a shared key
  const std::string& id() const;
  std::string_view algorithm() const;
  const KeyBounds& bounds() const;
  bool has_secret() const;

 private:
  friend struct message::KeyAccess;
  explicit MessageKey(std::shared_ptr<const State> state) : state_(std::move(state)) {}

  std::shared_ptr<const State> state_;
};

// The keys of one set, read now: one record as `to_json` writes it, or a list of them.
//   security.keys->put("own", speed::read_key_set("file:///etc/speed/orders.json"));
// file:///path is a file of this user or root that nobody else may write and, with secrets in it, nobody else may read;
// env://NAME is a variable of this process. ConfigurationError for another URI, KeyUnavailableError when there is no such
// file or variable, KeyRefusedError for a file that others can reach or that is none, and for what is no set;
// WeakAlgorithmError, UnknownAlgorithmError, NotAvailableError.
SPEED_EXPORT std::vector<MessageKey> read_key_set(std::string_view uri);

// The keys of a node: sets by name. A set holds the keys of one holder, which follow each other (rotation).
// Threads: all methods may be called from any thread.
class SPEED_EXPORT KeyStore {
 public:
  explicit KeyStore(const std::vector<MessageKey>& keys = {});  // each a set under its own id
  ~KeyStore();
  KeyStore(const KeyStore&) = delete;
  KeyStore& operator=(const KeyStore&) = delete;

  void put(const std::string& name, std::vector<MessageKey> keys);  // replaces the set, from the next message on

  // The key of a set to write with: the newest that has begun and may be used there; counts the use.
  // KeyUnavailableError, KeyRefusedError, KeyExhaustedError.
  MessageKey current(const std::string& name, std::string_view name_space, std::string_view topic, std::int64_t now_ms);
  std::optional<MessageKey> find(std::string_view id) const;  // in any set, to read with
  std::vector<MessageKey> all(const std::string& name) const;  // KeyUnavailableError

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace speed
