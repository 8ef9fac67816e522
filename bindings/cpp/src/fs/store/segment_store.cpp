#include "fs/store/segment_store.hpp"

#include <fcntl.h>
#include <sodium.h>
#include <unistd.h>

#include <algorithm>

#include "segment/parity.hpp"
#include "wire/names/names.hpp"

namespace speed::fs {

namespace {

constexpr std::size_t block_bytes = segment::column_unit;
constexpr std::size_t seal_bytes = wire::limits::nonce_bytes + wire::limits::tag_bytes;
constexpr std::size_t sealed_block_bytes = block_bytes + seal_bytes;
constexpr std::size_t most_files = 1 << 16;

std::uint64_t end_of(const Place& place) {
  return place.offset + place.size + (place.size + block_bytes - 1) / block_bytes * seal_bytes;
}

// What a block is bound to: slot and number.
wire::Block<5> name_of(unsigned slot, std::size_t block) {
  wire::Block<5> name;
  name[0] = static_cast<std::byte>(slot);
  wire::store(name.data() + 1, static_cast<std::uint32_t>(block));
  return name;
}

[[noreturn]] void refuse(const char* what, int error) {
  throw SegmentStoreError(std::string(what) + ": " + std::generic_category().message(error));
}

void write_shard_at(int fd, ByteView data, std::uint64_t offset) {
  while (!data.empty()) {
    const ssize_t written = pwrite(fd, data.data(), data.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) refuse("a segment cannot be kept", errno);
    data = data.subspan(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
}

// Nonce and sealed bytes of each block in turn, the first of which has the number `first`.
void seal_at(int fd, const wire::Key& key, unsigned slot, std::size_t first, ByteView data, std::uint64_t offset) {
  wire::Aead aead(key, wire::Aead::Direction::seal);
  Bytes sealed(sealed_block_bytes);
  for (std::size_t block = first; !data.empty(); ++block) {
    const ByteView plain = data.first(std::min(block_bytes, data.size()));
    wire::Nonce nonce;
    randombytes_buf(nonce.data(), nonce.size());
    const std::span<std::byte> whole = std::span(sealed).first(plain.size() + seal_bytes);
    wire::copy_to(whole.data(), nonce);
    aead.seal(nonce, name_of(slot, block), plain, whole.subspan(nonce.size()));
    write_shard_at(fd, whole, offset);
    offset += whole.size();
    data = data.subspan(plain.size());
  }
}

Fd open_shards(int directory, const std::string& name, bool make) {
  try {
    if (make) return open_or_make(directory, name, O_RDWR | O_NONBLOCK);
  } catch (const std::system_error& error) {
    refuse("the segments of a payload cannot be opened", error.code().value());
  }
  Fd file(openat(directory, name.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file) refuse("the segments of a payload cannot be opened", errno);
  return file;
}

}  // namespace

StoredShards::StoredShards(Fd file, const wire::Key& key, const Listed& listed)
    : file_(std::move(file)),
      key_(key),
      opener_(key, wire::Aead::Direction::open),
      data_count_(listed.data_count),
      parity_count_(listed.parity_count) {
  for (const Place& place : listed.places) {
    places_[place.slot] = place;
    if (place.slot + 1 != data_count_ || data_count_ == 1) segment_size_ = place.size;
  }
}

StoredShards::~StoredShards() { sodium_memzero(key_.data(), key_.size()); }

ByteView StoredShards::read(unsigned slot, std::size_t begin, std::size_t end, Bytes& room) const {
  const MutexLock guard(lock_);
  if (!file_) throw SegmentStoreError("the payload can be read until its handler returned, and is closed");
  const Place& place = places_.at(slot);
  const std::size_t first = begin / block_bytes * block_bytes;
  const std::size_t last = std::min((end + block_bytes - 1) / block_bytes * block_bytes, place.size);
  room.resize(end > begin ? last - first : 0);
  if (room.empty()) return {};
  for (std::size_t at = first; at < last; at += block_bytes) {
    open_block(place, at / block_bytes, std::span(room).subspan(at - first, std::min(block_bytes, last - at)));
  }
  return ByteView(room).subspan(begin - first, end - begin);
}

void StoredShards::open_block(const Place& place, std::size_t block, std::span<std::byte> to) const {
  Bytes sealed(to.size() + seal_bytes);
  wire::Nonce nonce;
  bool authentic = read_at(file_.get(), sealed, place.offset + block * sealed_block_bytes) == sealed.size();
  wire::copy_to(nonce.data(), ByteView(sealed).first(nonce.size()));
  authentic = authentic && opener_.open(nonce, name_of(place.slot, block), ByteView(sealed).subspan(nonce.size()), to);
  if (!authentic) throw SegmentStoreError("a segment that was kept is not authentic any more");
}

void StoredShards::write(unsigned slot, std::size_t begin, ByteView data) {
  const MutexLock guard(lock_);
  auto found = places_.find(slot);
  if (found == places_.end()) {
    std::uint64_t end = 0;
    for (const auto& [other, place] : places_) end = std::max(end, end_of(place));
    found = places_.emplace(slot, Place{slot, segment_size_, end, {}}).first;
  }
  const std::size_t first = begin / block_bytes;
  seal_at(file_.get(), key_, slot, first, data, found->second.offset + first * sealed_block_bytes);
}

void StoredShards::close() {
  const MutexLock guard(lock_);
  file_.close();
}

SegmentStore::SegmentStore(const std::string& root, const std::string& name, const wire::Keyring& keyring, bool durable)
    : path_(wire::segments_dir(root, name)), node_(wire::node_id(name)), keyring_(keyring), durable_(durable) {}

bool SegmentStore::exists() const {
  struct stat status{};
  return lstat(path_.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

SegmentStore::Contents SegmentStore::load() {
  Contents contents;
  try {
    contents = {index().payloads(), index().completions()};
  } catch (const StoreDamagedError&) {
    start_anew();
    return {};
  }
  std::vector<std::string> named;
  for (const Listed& payload : contents.payloads) named.push_back(wire::shards_name(index().id_of(payload.key)));
  remove_files(named);
  return contents;
}

void SegmentStore::put(const Listed& payload, const segment::Segment& segment, WallTime at) {
  const PayloadId id = index().id_of(payload.key);
  const Fd file = open_shards(directory_.get(), wire::shards_name(id), true);
  const off_t end = lseek(file.get(), 0, SEEK_END);
  if (end < 0) refuse("a segment cannot be kept", errno);
  const Place place{segment.slot(), segment.payload.size(), static_cast<std::uint64_t>(end), at};
  seal_at(file.get(), index().key_of(id), place.slot, 0, segment.payload, place.offset);
  if (durable_ && fdatasync(file.get()) != 0) refuse("a segment cannot be kept", errno);
  index().add(payload, place);
}

std::shared_ptr<StoredShards> SegmentStore::shards(const segment::Key& key) {
  const std::optional<Listed> listed = index().payload(key);
  if (!listed) throw SegmentStoreError("segments that were kept are not there any more");
  const PayloadId id = index().id_of(key);
  return std::make_shared<StoredShards>(open_shards(directory_.get(), wire::shards_name(id), false), index().key_of(id),
                                        *listed);
}

void SegmentStore::remove(const std::vector<segment::Key>& keys) {
  for (const segment::Key& key : keys) {
    index().remove(key);
    unlink_quietly(directory_.get(), wire::shards_name(index().id_of(key)));
  }
}

void SegmentStore::complete(const Completion& completion, const std::vector<segment::Key>& forgotten) {
  index().complete(completion, forgotten);
  unlink_quietly(directory_.get(), wire::shards_name(index().id_of(completion.key)));
}

void SegmentStore::forget(const std::vector<segment::Key>& completions) {
  if (!completions.empty()) index().forget(completions);
}

void SegmentStore::start_anew() {
  index_.reset();
  open_directory();
  const std::string name(wire::segment_index_name);
  if (renameat(directory_.get(), name.c_str(), directory_.get(), (name + ".damaged").c_str()) != 0) {
    unlink_quietly(directory_.get(), name);
  }
  for (const char* const ending : {"-wal", "-shm", "-journal"}) unlink_quietly(directory_.get(), name + ending);
  remove_files({});
}

void SegmentStore::close() {
  index_.reset();
  directory_.close();
}

SegmentIndex& SegmentStore::index() {
  if (index_ != nullptr) return *index_;
  open_directory();
  const auto open = [&] {
    return std::make_unique<SegmentIndex>(wire::child_path(path_, wire::segment_index_name), node_, keyring_, durable_);
  };
  try {
    index_ = open();
  } catch (const StoreDamagedError&) {
    start_anew();
    index_ = open();
  }
  return *index_;
}

void SegmentStore::open_directory() {
  if (directory_) return;
  try {
    ensure_directory(path_);
    directory_ = fs::open_directory(path_);
  } catch (const std::exception& error) {
    throw SegmentStoreError(std::string("the segment store cannot be opened: ") + error.what());
  }
}

void SegmentStore::remove_files(const std::vector<std::string>& except_for) {
  std::vector<DirectoryEntry> entries;
  try {
    entries = list_directory(directory_.get(), most_files);
  } catch (const std::system_error& error) {
    throw SegmentStoreError(std::string("the segment store cannot be listed: ") + error.what());
  }
  for (const DirectoryEntry& entry : entries) {
    if (wire::is_shards(entry.name) && std::ranges::find(except_for, entry.name) == except_for.end()) {
      unlink_quietly(directory_.get(), entry.name);
    }
  }
}

}  // namespace speed::fs
