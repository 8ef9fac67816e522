// Reading and writing key files; where root and key are looked for (W-14).
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "wire/envelope/keyring.hpp"
#include "wire/mutex.hpp"
#include "wire/time.hpp"

namespace speed::fs {

std::string default_root();  // $SPEED_ROOT, else a directory of this user
// $SPEED_KEY, else the credential speed.key of systemd, else <root>/speed.key
std::string default_key_path(const std::string& root);

// KeyFileError says what is wrong with the file and what to do.
std::vector<wire::Key> read_key_file(const std::string& path);
void write_key_file(const std::string& path, const std::vector<wire::Key>& keys);
// Writes a private one unless there is one; whether it was written. Of many processes one does.
bool ensure_key_file(const std::string& path, const std::vector<wire::Key>& keys);

// The key file of a running node: looked at again, and its keys taken, while the node goes on (W-20).
// Threads: all methods may be called from any thread.

class KeySource {
 public:
  explicit KeySource(const std::string& path);  // KeyFileError if the file is not sound
  KeySource(const KeySource&) = delete;
  KeySource& operator=(const KeySource&) = delete;
  ~KeySource() = default;

  const wire::Keyring& keyring() const { return keyring_; }

  // Told of other keys, once they are those of now. Set before others use them.
  void tell_with(std::function<void()> changed) { keyring_.tell_with(std::move(changed)); }

  // Takes the keys that are in the file now; what is wrong with it, if the keys of before go on, else nothing.
  std::string look();
  void look_soon();  // the same, unless somebody looked just before: a stranger names as many keys as it likes

 private:
  std::string path_;
  Mutex lock_;  // one reads the file at a time, so that no older reading replaces a newer one
  std::atomic<TimePoint> next_look_ = TimePoint();
  wire::Keyring keyring_;
};

}  // namespace speed::fs
