// Reading and writing key files; where root and key are looked for (W-14).
#pragma once

#include <string>
#include <vector>

#include "wire/key_file.hpp"

namespace speed::fs {

std::string default_root();  // $SPEED_ROOT, else a directory of this user
// $SPEED_KEY, else the credential speed.key of systemd, else <root>/speed.key
std::string default_key_path(const std::string& root);

// KeyFileError says what is wrong with the file and what to do.
std::vector<wire::Key> read_key_file(const std::string& path);
void write_key_file(const std::string& path, const std::vector<wire::Key>& keys);
// Writes a private one unless there is one; whether it was written. Of many processes one does.
bool ensure_key_file(const std::string& path, const std::vector<wire::Key>& keys);

}  // namespace speed::fs
