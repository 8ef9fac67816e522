// Which segments a node holds, of what, and which payloads are complete: a small SQLite file (G-14).
// All that tells anything is sealed; names are made with the key. One process writes it. The file is the same as that
// of Python's nodes, so that a program written anew takes over what was kept.
// Threads: not thread-safe. Every method may throw SegmentStoreError.
#pragma once

#include <memory>
#include <optional>

#include "segment/reassembly.hpp"
#include "speed/error.hpp"
#include "wire/envelope/keyring.hpp"
#include "wire/time.hpp"

struct sqlite3;

namespace speed::fs {

using PayloadId = wire::Block<16>;

// The store is of another version, of another key, or not what was written.
class StoreDamagedError : public SegmentStoreError {
 public:
  using SegmentStoreError::SegmentStoreError;
};

// Where a segment's bytes lie in the file of its payload, and when it came.
struct Place {
  unsigned slot = 0;
  std::size_t size = 0;
  std::uint64_t offset = 0;
  WallTime at = {};
};

// A payload that is not complete.
struct Listed {
  segment::Key key;
  unsigned data_count = 0;
  unsigned parity_count = 0;
  WallTime begun = {};
  std::vector<Place> places = {};
};

struct Completion {
  segment::Key key;
  WallTime at = {};
};

class SegmentIndex {
 public:
  // Opens or makes it. StoreDamagedError if it cannot be used as it is.
  SegmentIndex(const std::string& path, const wire::NodeId& node, const wire::Keyring& keyring, bool durable);
  SegmentIndex(const SegmentIndex&) = delete;
  SegmentIndex& operator=(const SegmentIndex&) = delete;
  ~SegmentIndex();

  PayloadId id_of(const segment::Key& key) const;  // its name in files and tables
  wire::Key key_of(const PayloadId& payload) const;  // seals its segments

  // Notes a segment whose bytes are in place; noting it again changes nothing.
  void add(const Listed& payload, const Place& place);
  void remove(const segment::Key& key);
  void complete(const Completion& completion, const std::vector<segment::Key>& forgotten);
  void forget(const std::vector<segment::Key>& completions);

  std::vector<Listed> payloads() const;
  std::optional<Listed> payload(const segment::Key& key) const;
  std::vector<Completion> completions() const;

 private:
  class Statement;
  struct CloseDatabase {
    void operator()(sqlite3* database) const;
  };

  void prepare(bool durable);
  void run(const char* sql) const;
  template <class Change>
  void write(const Change& change);
  void remove_rows(const PayloadId& payload);
  void forget_rows(const std::vector<segment::Key>& completions);
  Bytes seal(ByteView head, const PayloadId& name);
  Bytes open(ByteView sealed, const PayloadId& name) const;
  Listed listed(const PayloadId& payload, ByteView sealed) const;

  const wire::NodeId node_;
  const wire::Keyring keyring_;  // of when it was opened: it goes on with that key (W-20)
  wire::KeyId key_id_{};
  wire::Key key_{};
  std::unique_ptr<sqlite3, CloseDatabase> database_;
};

}  // namespace speed::fs
