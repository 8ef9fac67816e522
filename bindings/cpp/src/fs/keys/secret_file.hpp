// Files of secrets that this user alone reads and writes: each is whole at every moment (W-14).
// Threads: all of it may be used from any thread.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace speed::fs {

bool is_taken(const std::string& path);  // whether something is there, be it a link to nothing

struct SecretFile {
  std::string text;
  mode_t mode = 0;
};

// A private file whose way is trusted, of at most so many bytes. KeyFileError says what is wrong and what to do.
SecretFile read_secret(const std::string& path, std::size_t most);

// Writes it unless there is one; whether it was written. Of many processes one does. KeyFileError.
bool ensure_secret(const std::string& path, std::string_view text);
void replace_secret(const std::string& path, std::string_view text);  // on disk when this returns; KeyFileError

}  // namespace speed::fs
