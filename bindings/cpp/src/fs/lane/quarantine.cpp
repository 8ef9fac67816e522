#include "fs/lane/quarantine.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "fs/clock.hpp"
#include "wire/names/names.hpp"

namespace speed::fs {

namespace {

constexpr std::size_t walk_limit = 4096;
constexpr std::size_t survey_limit = std::size_t{4} * 65536;

// Sizes are only claimed: beyond the largest number their sum must not begin anew.
std::uint64_t sum(std::uint64_t bytes, std::uint64_t more) {
  return more > UINT64_MAX - bytes ? UINT64_MAX : bytes + more;
}

// Apparent bytes of a file, or of a directory's direct entries (bounded).
std::uint64_t tree_bytes(int dir_fd, const std::string& name) {
  struct stat status{};
  if (fstatat(dir_fd, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return 0;
  if (!S_ISDIR(status.st_mode)) return static_cast<std::uint64_t>(status.st_size);
  std::uint64_t bytes = 0;
  try {
    const Fd inner = open_directory_at(dir_fd, name);
    for (const DirectoryEntry& entry : list_directory(inner.get(), walk_limit)) {
      struct stat one{};
      if (fstatat(inner.get(), entry.name.c_str(), &one, AT_SYMLINK_NOFOLLOW) == 0) {
        bytes = sum(bytes, static_cast<std::uint64_t>(one.st_size));
      }
    }
  } catch (const std::system_error&) {
    return bytes;  // it went meanwhile
  }
  return bytes;
}

// Deletes a file or tree without following links; at most `budget` entries of a directory. The next scan goes on.
void remove_tree(int dir_fd, const std::string& name, std::size_t budget = walk_limit) {
  if (unlink_quietly(dir_fd, name) || budget == 0) return;
  try {
    const Fd inner = open_directory_at(dir_fd, name);
    for (const DirectoryEntry& entry : list_directory(inner.get(), budget)) {
      remove_tree(inner.get(), entry.name, budget / 16);
    }
  } catch (const std::system_error&) {
    return;
  }
  unlinkat(dir_fd, name.c_str(), AT_REMOVEDIR);
}

}  // namespace

Quarantine::Quarantine(const std::string& root, const std::string& name)
    : directory_(open_directory(wire::quarantine_dir(root, name))) {
  survey();
}

// What earlier runs left, and the next free number.
void Quarantine::survey() {
  for (const DirectoryEntry& entry : list_directory(directory_.get(), survey_limit)) {
    const std::size_t dot = std::min(entry.name.find('.'), entry.name.size());
    std::uint64_t number = 0;
    std::from_chars(entry.name.data(), entry.name.data() + std::min<std::size_t>(dot, 18), number);
    next_ = std::max(next_, number + 1);
    if (entry.name.ends_with(".reason")) continue;
    ++files_;
    bytes_ = sum(bytes_, tree_bytes(directory_.get(), entry.name));
  }
}

void Quarantine::take(int dir_fd, const std::string& name, std::string_view reason) {
  const std::uint64_t size = tree_bytes(dir_fd, name);
  const std::string number = next_number();
  if (!fits(size) || renameat(dir_fd, name.c_str(), directory_.get(), number.c_str()) != 0) {
    remove_tree(dir_fd, name);
    return;
  }
  note(number, size, {name, reason, std::nullopt});
}

void Quarantine::put(ByteView data, const std::string& origin, std::string_view reason, std::uint64_t offset) {
  if (!fits(data.size())) return;
  const std::string number = next_number();
  try {
    const Fd fd = create_file(directory_.get(), number, false);
    write_all(fd.get(), data);
  } catch (const std::system_error&) {
    unlink_quietly(directory_.get(), number);
    return;
  }
  note(number, data.size(), {origin, reason, offset});
}

bool Quarantine::fits(std::uint64_t size) const {
  return files_ < wire::limits::max_quarantine_files && sum(bytes_, size) <= wire::limits::max_quarantine_bytes;
}

std::string Quarantine::next_number() {
  std::string digits = std::to_string(next_++);
  return digits.size() < 8 ? std::string(8 - digits.size(), '0') + digits : digits;
}

// Writes the reason file beside; without space for it the quarantined thing stays all the same.
void Quarantine::note(const std::string& number, std::uint64_t size, const Reason& reason) {
  ++files_;
  bytes_ += size;
  nlohmann::ordered_json text{{"name", reason.name}, {"reason", reason.reason}, {"bytes", size}};
  if (reason.offset) text["offset"] = *reason.offset;
  text["timestamp"] = unix_ms();
  const std::string line = text.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  try {
    const Fd fd = create_file(directory_.get(), number + ".reason", false);
    write_all(fd.get(), wire::view(line));
  } catch (const std::system_error&) {
    unlink_quietly(directory_.get(), number + ".reason");
  }
}

}  // namespace speed::fs
