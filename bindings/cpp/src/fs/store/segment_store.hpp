// The segments that a node received and not yet put together: sealed, beside an index (G-14).
// The segments of one payload lie one after the other in a file, in sealed blocks that can be read each for itself.
// Threads: the store is not thread-safe; StoredShards may be closed while another thread reads.
// Errors: every method may throw SegmentStoreError.
#pragma once

#include <map>

#include "fs/files.hpp"
#include "fs/store/segment_index.hpp"
#include "segment/rebuild.hpp"
#include "wire/mutex.hpp"
#include "wire/time.hpp"

namespace speed::fs {

// The segments of one payload, by slot. What is recovered is sealed and written behind them.
class StoredShards : public segment::Shards {
 public:
  StoredShards(Fd file, const wire::Key& key, const Listed& listed);
  ~StoredShards() override;

  unsigned data_count() const override { return data_count_; }
  unsigned parity_count() const override { return parity_count_; }
  std::size_t segment_size() const override { return segment_size_; }
  bool has(unsigned slot) const override { return places_.contains(slot); }
  std::size_t size_of(unsigned slot) const override { return places_.at(slot).size; }
  ByteView read(unsigned slot, std::size_t begin, std::size_t end, Bytes& room) const override;
  void write(unsigned slot, std::size_t begin, ByteView data) override;  // `begin` is a multiple of the block

  void close();  // later reads throw

 private:
  void open_block(const Place& place, std::size_t block, std::span<std::byte> to) const SPEED_REQUIRES(lock_);

  mutable Mutex lock_;
  Fd file_ SPEED_GUARDED_BY(lock_);
  wire::Key key_;
  mutable wire::Aead opener_ SPEED_GUARDED_BY(lock_);
  unsigned data_count_;
  unsigned parity_count_;
  std::size_t segment_size_ = 0;
  std::map<unsigned, Place> places_;
};

class SegmentStore {
 public:
  SegmentStore(const std::string& root, const std::string& name, const wire::Keyring& keyring, bool durable);

  bool exists() const;  // an earlier process of this name left something

  struct Contents {
    std::vector<Listed> payloads;
    std::vector<Completion> completions;
  };
  Contents load();  // files that belong to nothing are removed

  // Keeps a segment of a payload whose head is `payload`, received at `at`.
  void put(const Listed& payload, const segment::Segment& segment, WallTime at);
  std::shared_ptr<StoredShards> shards(const segment::Key& key);  // for reading what is kept
  void remove(const std::vector<segment::Key>& keys);
  void complete(const Completion& completion, const std::vector<segment::Key>& forgotten);
  void forget(const std::vector<segment::Key>& completions);

  void start_anew();  // puts a damaged store aside, in the place of one put aside before
  void close();

 private:
  SegmentIndex& index();
  void open_directory();
  void remove_files(const std::vector<std::string>& except_for);

  const std::string path_;
  const wire::NodeId node_;
  const wire::Keyring& keyring_;
  const bool durable_;
  Fd directory_;
  std::unique_ptr<SegmentIndex> index_;
};

}  // namespace speed::fs
