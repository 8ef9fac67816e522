#include "fs/store/segment_index.hpp"

#include <fcntl.h>
#include <sodium.h>
#include <sqlite3.h>

#include <bit>

#include "fs/files.hpp"

namespace speed::fs {

namespace {

constexpr std::int64_t version = 1;

constexpr char tables[] = R"(
CREATE TABLE IF NOT EXISTS setting(name TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS payload(id BLOB PRIMARY KEY, head BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS shard(id BLOB PRIMARY KEY, payload BLOB NOT NULL, head BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS shard_of ON shard(payload);
CREATE TABLE IF NOT EXISTS complete(id BLOB PRIMARY KEY, head BLOB NOT NULL);
)";

[[noreturn]] void fail(sqlite3* database, int code) {
  const std::string why = database == nullptr ? sqlite3_errstr(code) : sqlite3_errmsg(database);
  const int kind = code & 0xff;
  if (kind == SQLITE_CORRUPT || kind == SQLITE_NOTADB || kind == SQLITE_SCHEMA || kind == SQLITE_CONSTRAINT) {
    throw StoreDamagedError("the segment store is damaged: " + why);
  }
  throw SegmentStoreError("the segment store cannot be used now: " + why);
}

[[noreturn]] void refuse_row() { throw StoreDamagedError("a row of the segment store is not authentic"); }

// Big-endian fields, one behind the other.
class Packer {
 public:
  template <std::unsigned_integral T>
  Packer& put(T number) {
    const std::size_t at = bytes_.size();
    bytes_.resize(at + sizeof(T));
    wire::store(bytes_.data() + at, number);
    return *this;
  }
  Packer& put(WallTime time) { return put(std::bit_cast<std::uint64_t>(in_seconds(time.time_since_epoch()))); }
  Packer& put(ByteView bytes) {
    wire::append(bytes_, bytes);
    return *this;
  }
  const Bytes& bytes() const { return bytes_; }

 private:
  Bytes bytes_;
};

class Unpacker {
 public:
  explicit Unpacker(ByteView bytes) : left_(bytes) {}

  template <class T>
  T number() {
    return wire::load<T>(take(sizeof(T)).data());
  }
  WallTime time() {
    const Seconds written(std::bit_cast<double>(number<std::uint64_t>()));
    return WallTime(std::max(Duration::zero(), saturated(written)));
  }
  segment::Hash hash() {
    segment::Hash hash;
    wire::copy_to(hash.data(), take(hash.size()));
    return hash;
  }
  std::string rest() { return std::string(wire::text(take(left_.size()))); }

 private:
  ByteView take(std::size_t size) {
    if (left_.size() < size) refuse_row();
    const ByteView taken = left_.first(size);
    left_ = left_.subspan(size);
    return taken;
  }
  ByteView left_;
};

PayloadId id_in(ByteView column) {
  PayloadId id;
  if (column.size() != id.size()) refuse_row();
  wire::copy_to(id.data(), column);
  return id;
}

}  // namespace

// A prepared statement; `row` steps it.
class SegmentIndex::Statement {
 public:
  Statement(const SegmentIndex& index, const char* sql, std::initializer_list<ByteView> values = {})
      : database_(index.database_.get()) {
    check(sqlite3_prepare_v2(database_, sql, -1, &statement_, nullptr));
    int place = 0;
    for (const ByteView value : values) {
      check(sqlite3_bind_blob(statement_, ++place, value.data(), static_cast<int>(value.size()), SQLITE_TRANSIENT));
    }
  }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  ~Statement() { sqlite3_finalize(statement_); }

  bool row() {
    const int code = sqlite3_step(statement_);
    if (code != SQLITE_ROW && code != SQLITE_DONE) fail(database_, code);
    return code == SQLITE_ROW;
  }
  ByteView bytes(int column) const {
    const auto* const data = static_cast<const std::byte*>(sqlite3_column_blob(statement_, column));
    return {data, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
  }
  std::int64_t number(int column) const { return sqlite3_column_int64(statement_, column); }

 private:
  void check(int code) const {
    if (code != SQLITE_OK) fail(database_, code);
  }
  sqlite3* database_;
  sqlite3_stmt* statement_ = nullptr;
};

void SegmentIndex::CloseDatabase::operator()(sqlite3* database) const { sqlite3_close_v2(database); }

SegmentIndex::SegmentIndex(const std::string& path, const wire::NodeId& node, const wire::Keyring& keyring,
                           bool durable)
    : node_(node), keyring_(keyring.frozen()) {
  try {
    open_or_make(AT_FDCWD, path, O_RDWR | O_NONBLOCK);
  } catch (const std::system_error& error) {
    throw SegmentStoreError("the segment store cannot be opened: " + error.code().message());
  }
  sqlite3* opened = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &opened, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOFOLLOW, nullptr);
  database_.reset(opened);
  if (code != SQLITE_OK) fail(opened, code);
  prepare(durable);
}

SegmentIndex::~SegmentIndex() { sodium_memzero(key_.data(), key_.size()); }

void SegmentIndex::prepare(bool durable) {
  run("PRAGMA locking_mode=EXCLUSIVE");
  // No write-ahead log: a forked child that closes its copy would write it back under the parent's feet.
  run("PRAGMA journal_mode=PERSIST");
  run(durable ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=OFF");
  {
    Statement statement(*this, "PRAGMA user_version");
    const std::int64_t found = statement.row() ? statement.number(0) : 0;
    if (found != 0 && found != version) {
      throw StoreDamagedError("the segment store has version " + std::to_string(found) + "; this is version " +
                              std::to_string(version));
    }
  }
  write([&] {
    run(tables);
    Statement(*this, "INSERT OR IGNORE INTO setting VALUES ('key', ?)", {keyring_.key_id()}).row();
    run("PRAGMA user_version=1");
  });
  Statement statement(*this, "SELECT value FROM setting WHERE name='key'");
  if (!statement.row() || statement.bytes(0).size() != key_id_.size()) refuse_row();
  wire::copy_to(key_id_.data(), statement.bytes(0));
  try {
    key_ = keyring_.segments_key(key_id_, node_);
  } catch (const WireError& error) {
    throw StoreDamagedError(std::string("the segment store was sealed with another key: ") + error.what());
  }
}

void SegmentIndex::run(const char* sql) const {
  const int code = sqlite3_exec(database_.get(), sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) fail(database_.get(), code);
}

template <class Change>
void SegmentIndex::write(const Change& change) {
  run("BEGIN IMMEDIATE");
  try {
    change();
    run("COMMIT");
  } catch (...) {
    sqlite3_exec(database_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
    throw;
  }
}

PayloadId SegmentIndex::id_of(const segment::Key& key) const {
  const Packer name = Packer().put(static_cast<std::uint8_t>(key.kind)).put(key.hash).put(wire::view(key.sender));
  return keyring_.segments_name(key_id_, name.bytes());
}

wire::Key SegmentIndex::key_of(const PayloadId& payload) const {
  return keyring_.segments_key(key_id_, Packer().put(node_).put(payload).bytes());
}

void SegmentIndex::add(const Listed& payload, const Place& place) {
  const PayloadId id = id_of(payload.key);
  const auto slot = static_cast<std::uint8_t>(place.slot);
  const PayloadId shard = keyring_.segments_name(key_id_, Packer().put(id).put(slot).bytes());
  const Packer head = Packer()
                          .put(static_cast<std::uint8_t>(payload.key.kind))
                          .put(static_cast<std::uint8_t>(payload.data_count))
                          .put(static_cast<std::uint8_t>(payload.parity_count))
                          .put(payload.begun)
                          .put(payload.key.hash)
                          .put(wire::view(payload.key.sender));
  const Packer where = Packer().put(slot).put(static_cast<std::uint32_t>(place.size)).put(place.offset).put(place.at);
  write([&] {
    Statement(*this, "INSERT OR IGNORE INTO payload VALUES (?, ?)", {id, seal(head.bytes(), id)}).row();
    Statement(*this, "INSERT OR REPLACE INTO shard VALUES (?, ?, ?)", {shard, id, seal(where.bytes(), shard)}).row();
  });
}

void SegmentIndex::remove(const segment::Key& key) {
  write([&] { remove_rows(id_of(key)); });
}

void SegmentIndex::complete(const Completion& completion, const std::vector<segment::Key>& forgotten) {
  const PayloadId id = id_of(completion.key);
  const Packer head = Packer()
                          .put(static_cast<std::uint8_t>(completion.key.kind))
                          .put(completion.at)
                          .put(completion.key.hash)
                          .put(wire::view(completion.key.sender));
  write([&] {
    remove_rows(id);
    Statement(*this, "INSERT OR REPLACE INTO complete VALUES (?, ?)", {id, seal(head.bytes(), id)}).row();
    forget_rows(forgotten);
  });
}

void SegmentIndex::forget(const std::vector<segment::Key>& completions) {
  write([&] { forget_rows(completions); });
}

std::vector<Listed> SegmentIndex::payloads() const {
  std::vector<Listed> found;
  Statement rows(*this, "SELECT id, head FROM payload");
  while (rows.row()) found.push_back(listed(id_in(rows.bytes(0)), rows.bytes(1)));
  return found;
}

std::optional<Listed> SegmentIndex::payload(const segment::Key& key) const {
  const PayloadId id = id_of(key);
  Statement rows(*this, "SELECT head FROM payload WHERE id=?", {id});
  if (!rows.row()) return std::nullopt;
  return listed(id, rows.bytes(0));
}

std::vector<Completion> SegmentIndex::completions() const {
  std::vector<Completion> found;
  Statement rows(*this, "SELECT id, head FROM complete");
  while (rows.row()) {
    const Bytes head = open(rows.bytes(1), id_in(rows.bytes(0)));
    Unpacker fields(head);
    Completion& one = found.emplace_back();
    one.key.kind = fields.number<std::uint8_t>();
    one.at = fields.time();
    one.key.hash = fields.hash();
    one.key.sender = fields.rest();
  }
  return found;
}

Listed SegmentIndex::listed(const PayloadId& payload, ByteView sealed) const {
  const Bytes head = open(sealed, payload);
  Unpacker fields(head);
  Listed one;
  one.key.kind = fields.number<std::uint8_t>();
  one.data_count = fields.number<std::uint8_t>();
  one.parity_count = fields.number<std::uint8_t>();
  one.begun = fields.time();
  one.key.hash = fields.hash();
  one.key.sender = fields.rest();
  Statement rows(*this, "SELECT id, head FROM shard WHERE payload=?", {payload});
  while (rows.row()) {
    const Bytes where = open(rows.bytes(1), id_in(rows.bytes(0)));
    Unpacker place(where);
    Place& held = one.places.emplace_back();
    held.slot = place.number<std::uint8_t>();
    held.size = place.number<std::uint32_t>();
    held.offset = place.number<std::uint64_t>();
    held.at = place.time();
  }
  return one;
}

void SegmentIndex::remove_rows(const PayloadId& payload) {
  Statement(*this, "DELETE FROM shard WHERE payload=?", {payload}).row();
  Statement(*this, "DELETE FROM payload WHERE id=?", {payload}).row();
}

void SegmentIndex::forget_rows(const std::vector<segment::Key>& completions) {
  for (const segment::Key& key : completions) Statement(*this, "DELETE FROM complete WHERE id=?", {id_of(key)}).row();
}

Bytes SegmentIndex::seal(ByteView head, const PayloadId& name) {
  wire::Nonce nonce;
  randombytes_buf(nonce.data(), nonce.size());
  Bytes sealed(nonce.begin(), nonce.end());
  sealed.resize(nonce.size() + head.size() + wire::limits::tag_bytes);
  wire::Aead(key_, wire::Aead::Direction::seal).seal(nonce, name, head, std::span(sealed).subspan(nonce.size()));
  return sealed;
}

Bytes SegmentIndex::open(ByteView sealed, const PayloadId& name) const {
  wire::Nonce nonce;
  if (sealed.size() < nonce.size() + wire::limits::tag_bytes) refuse_row();
  wire::copy_to(nonce.data(), sealed.first(nonce.size()));
  Bytes head(sealed.size() - nonce.size() - wire::limits::tag_bytes);
  wire::Aead aead(key_, wire::Aead::Direction::open);
  if (!aead.open(nonce, name, sealed.subspan(nonce.size()), head)) refuse_row();
  return head;
}

}  // namespace speed::fs
