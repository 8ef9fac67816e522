#include "fs/store/dead_letters.hpp"

#include <fcntl.h>
#include <sodium.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>

#include "fs/clock.hpp"
#include "wire/limits.hpp"

namespace speed::fs {

namespace {

constexpr std::size_t most_listed = 65536;
constexpr std::int64_t second_ns = 1'000'000'000;
constexpr std::size_t overhead_bytes = 4096;  // of a letter beside its payload, and more

void fill_random(std::span<std::byte> bytes) { randombytes_buf(bytes.data(), bytes.size()); }

}  // namespace

std::vector<DeadLetterFiles::Kept> DeadLetterFiles::kept() const {
  std::vector<Kept> found;
  if (access(path_.c_str(), F_OK) != 0) return found;
  const Fd directory = open_directory(path_);
  for (const DirectoryEntry& entry : list_directory(directory.get(), most_listed)) {
    const auto name = wire::parse_letter(entry.name);
    struct stat status{};
    if (!name || fstatat(directory.get(), entry.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    found.push_back({*name, static_cast<std::uint64_t>(status.st_size)});
  }
  std::ranges::sort(found, {}, [](const Kept& one) { return one.name.number; });
  return found;
}

bool DeadLetterFiles::add(wire::DeadLetter letter, const segment::Source& payload) const {
  letter.payload_bytes = payload.size();
  const std::vector<Kept> all = kept();
  const std::uint64_t bytes = std::accumulate(all.begin(), all.end(), std::uint64_t{0},
                                              [](std::uint64_t sum, const Kept& one) { return sum + one.bytes; });
  if (all.size() >= wire::limits::max_dead_letters ||
      bytes + payload.size() + overhead_bytes > wire::limits::max_dead_bytes) {
    return false;
  }
  ensure_directory(path_);
  const Fd directory = open_directory(path_);
  write(directory, all.empty() ? 1 : all.back().name.number + 1, letter, payload);
  return true;
}

void DeadLetterFiles::write(const Fd& directory, std::uint64_t number, const wire::DeadLetter& letter,
                            const segment::Source& payload) const {
  const std::string name = wire::letter_name({number, wire::LetterState::letter});
  const std::string temporary = wire::temporary_name(name);
  unlink_quietly(directory.get(), temporary);
  try {
    const Fd file = create_file(directory.get(), temporary, false);
    wire::LetterWriter writer(keyring_, node_, fill_random, [&](ByteView data) { write_all(file.get(), data); });
    writer.head(letter);
    Bytes room;
    for (std::size_t begin = 0; begin < payload.size(); begin += wire::letter_chunk_bytes) {
      const std::size_t end = std::min(payload.size(), begin + wire::letter_chunk_bytes);
      writer.piece(payload.read(begin, end, room), end == payload.size());
    }
    if (durable_ && fsync(file.get()) != 0) throw_errno("fsync");
    put_in_place(directory.get(), temporary, name);
    if (durable_ && fsync(directory.get()) != 0) throw_errno("fsync");
  } catch (...) {
    unlink_quietly(directory.get(), temporary);
    throw;
  }
}

DeadLetterFiles::Letter DeadLetterFiles::read(const wire::LetterName& name) const {
  const Fd directory = open_directory(path_);
  const Fd file = open_regular(directory.get(), wire::letter_name(name), owners_of(directory.get()));
  std::uint64_t offset = 0;
  wire::LetterReader reader(keyring_, node_, [&](std::span<std::byte> to) {
    const std::size_t count = read_at(file.get(), to, offset);
    offset += count;
    return count;
  });
  Letter letter{reader.letter(), {}};
  for (Bytes piece; reader.next(piece);) wire::append(letter.payload, piece);
  return letter;
}

bool DeadLetterFiles::move(std::uint64_t number, wire::LetterState before, wire::LetterState after) const {
  const Fd directory = open_directory(path_);
  const std::string from = wire::letter_name({number, before});
  if (renameat(directory.get(), from.c_str(), directory.get(), wire::letter_name({number, after}).c_str()) == 0) {
    return true;
  }
  if (errno != ENOENT) throw_errno(from);
  return false;
}

void DeadLetterFiles::remove(const wire::LetterName& name) const {
  unlink_quietly(open_directory(path_).get(), wire::letter_name(name));
}

bool DeadLetterFiles::changed() {
  struct stat status{};
  if (stat(path_.c_str(), &status) != 0) return false;
  const std::int64_t modified = status.st_mtim.tv_sec * second_ns + status.st_mtim.tv_nsec;
  if (modified == seen_ns_) return false;
  // The clock that stamps directories must have passed this time, or a later change would show the same.
  if (modified < file_clock_ns()) seen_ns_ = modified;
  return true;
}

}  // namespace speed::fs
