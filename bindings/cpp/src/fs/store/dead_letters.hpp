// Dead letters on disk: what a node could not handle, kept sealed until somebody decides (S-18).
// Threads: one at a time; an operator may use the directory beside it. All may throw std::system_error.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fs/files.hpp"
#include "speed/segment.hpp"
#include "wire/envelope/dead_letter.hpp"
#include "wire/names/names.hpp"

namespace speed::fs {

class DeadLetterFiles {
 public:
  DeadLetterFiles(std::string path, const wire::NodeId& node, const wire::Keyring& keyring, bool durable)
      : path_(std::move(path)), node_(node), keyring_(keyring), durable_(durable) {}

  struct Kept {
    wire::LetterName name;
    std::uint64_t bytes = 0;
  };
  std::vector<Kept> kept() const;  // by number; empty where nothing ever was

  // Keeps a letter; false where there is no room.
  bool add(wire::DeadLetter letter, const segment::Source& payload) const;

  struct Letter {
    wire::DeadLetter about;
    Bytes payload;
  };
  Letter read(const wire::LetterName& name) const;  // also WireError

  // Gives a letter another state; false if it is not there in the one before.
  bool move(std::uint64_t number, wire::LetterState before, wire::LetterState after) const;
  void remove(const wire::LetterName& name) const;
  // Whether something may have come since the last look.
  bool changed();

 private:
  void write(const Fd& directory, std::uint64_t number, const wire::DeadLetter& letter,
             const segment::Source& payload) const;

  std::string path_;
  wire::NodeId node_;
  const wire::Keyring& keyring_;
  bool durable_;
  std::int64_t seen_ns_ = 0;
};

}  // namespace speed::fs
