#include <algorithm>

#include "message/key.hpp"
#include "speed/message_error.hpp"

namespace speed {

KeyStore::KeyStore(const std::vector<MessageKey>& keys) {
  for (const MessageKey& key : keys) put(key.id(), {key});
}

void KeyStore::put(const std::string& name, std::vector<MessageKey> keys) {
  if (keys.empty()) throw KeyRefusedError("a set without keys can do nothing: give its first key");
  std::ranges::stable_sort(keys, std::ranges::greater(), [](const MessageKey& key) { return key.bounds().not_before_ms; });
  const std::lock_guard guard(lock_);
  sets_.insert_or_assign(name, std::move(keys));
}

MessageKey KeyStore::current(const std::string& name, std::string_view name_space, std::string_view topic,
                             std::int64_t now_ms) {
  const std::lock_guard guard(lock_);
  std::string problem;
  for (const MessageKey& key : set_of(name)) {
    try {
      message::check_use(key, name_space, topic, now_ms);
    } catch (const KeyRefusedError& error) {
      if (problem.empty()) problem = error.what();
      continue;
    }
    std::uint64_t& uses = uses_[key.id()];
    if (uses >= message::max_key_uses) {
      throw KeyExhaustedError("key '" + key.id() + "' was used " + std::to_string(uses) + " times: rotate it");
    }
    ++uses;
    return key;
  }
  throw KeyRefusedError("key set '" + name + "' has no key for that: " + problem);
}

std::optional<MessageKey> KeyStore::find(std::string_view id) const {
  const std::lock_guard guard(lock_);
  for (const auto& [name, keys] : sets_) {
    const auto found = std::ranges::find(keys, id, &MessageKey::id);
    if (found != keys.end()) return *found;
  }
  return std::nullopt;
}

std::vector<MessageKey> KeyStore::all(const std::string& name) const {
  const std::lock_guard guard(lock_);
  return set_of(name);
}

const std::vector<MessageKey>& KeyStore::set_of(const std::string& name) const {
  const auto found = sets_.find(name);
  if (found == sets_.end()) throw KeyUnavailableError("no key set is called '" + name + "': put it into the KeyStore");
  return found->second;
}

}  // namespace speed
