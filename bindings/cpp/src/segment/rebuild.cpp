#include "segment/rebuild.hpp"

#include <algorithm>

#include "segment/keccak.hpp"
#include "segment/parity.hpp"
#include "speed/error.hpp"
#include "wire/limits.hpp"

namespace speed::segment {

namespace {

constexpr std::size_t bytes_a_trial = 128;  // of the payload, for each further length that is tried

void hash_slot(Keccak& state, const Shards& shards, unsigned slot, std::size_t begin, std::size_t end) {
  hash_steps(state, begin, end,
             [&](std::size_t from, std::size_t to, Bytes& room) { return shards.read(slot, from, to, room); });
}

void hash_zeros(Keccak& state, std::size_t count) {
  const Bytes zeros(std::min(count, step_bytes));
  const auto read = [&](std::size_t from, std::size_t to, Bytes&) { return ByteView(zeros).first(to - from); };
  hash_steps(state, 0, count, read);
}

// The position behind the last byte that is not zero.
std::size_t end_of_bytes(const Shards& shards, unsigned slot) {
  Bytes room;
  const std::size_t size = shards.segment_size();
  for (std::size_t begin = (size + step_bytes - 1) / step_bytes * step_bytes; begin > 0;) {
    begin -= step_bytes;
    const ByteView part = shards.read(slot, begin, std::min(begin + step_bytes, size), room);
    const auto last = std::find_if(part.rbegin(), part.rend(), [](std::byte byte) { return byte != std::byte{0}; });
    if (last != part.rend()) return begin + static_cast<std::size_t>(part.rend() - last);
  }
  return 0;
}

// The length of the last data segment that the hash proves; `state` has all before it.
std::size_t recovered_length(Keccak& state, const Shards& shards, const Hash& hash) {
  const unsigned last = shards.data_count() - 1;
  const std::size_t size = shards.segment_size();
  const std::size_t trials = wire::limits::min_length_trials + shards.data_count() * size / bytes_a_trial;
  const std::size_t shortest = std::max<std::size_t>(end_of_bytes(shards, last), last == 0 ? 0 : 1);
  const std::size_t end = std::min(size, shortest + trials);
  hash_slot(state, shards, last, 0, shortest);
  constexpr std::byte zero{0};
  for (std::size_t length = shortest; length < end; ++length) {
    if (state.digest() == hash) return length;
    state.update({&zero, 1});
  }
  hash_zeros(state, size - end);
  if (state.digest() == hash) return size;
  throw WireError("SEGMENT_HASH", "no length of the lost last segment has this hash");
}

// Which data shards are missing, and which parity shards stand for them.
struct Loss {
  std::vector<unsigned> missing;
  std::vector<unsigned> parity;

  explicit Loss(const Shards& shards) {
    for (unsigned index = 0; index < shards.data_count(); ++index) {
      if (!shards.has(index)) missing.push_back(index);
    }
    for (unsigned index = 0; index < shards.parity_count() && parity.size() < missing.size(); ++index) {
      if (shards.has(shards.data_count() + index)) parity.push_back(index);
    }
  }
};

void add_slot(Columns& columns, const Shards& shards, unsigned slot, std::size_t begin, std::size_t width) {
  const std::size_t held = shards.size_of(slot);
  columns.add(width, [&](Bytes& room) {
    return shards.read(slot, std::min(begin, held), std::min(begin + width, held), room);
  });
}

// Writes the missing data shards, each in full length.
void recover(Shards& shards) {
  const Loss loss(shards);
  if (loss.missing.empty()) return;
  const unsigned count = shards.data_count();
  const std::size_t most = column_width(count, shards.segment_size());
  Decoder decoder(count, shards.parity_count(), loss.missing, loss.parity);
  Columns data(count);
  Columns parity(loss.parity.size());
  std::vector<Bytes> found(loss.missing.size(), Bytes(most));
  std::vector<std::byte*> rows;
  for (Bytes& row : found) rows.push_back(row.data());
  for (std::size_t begin = 0; begin < shards.segment_size(); begin += most) {
    const std::size_t width = std::min(most, shards.segment_size() - begin);
    data.clear();
    parity.clear();
    for (unsigned slot = 0; slot < count; ++slot) {
      const bool is_missing = std::ranges::binary_search(loss.missing, slot);
      is_missing ? data.add_missing() : add_slot(data, shards, slot, begin, width);
    }
    for (const unsigned index : loss.parity) add_slot(parity, shards, count + index, begin, width);
    decoder.decode(data.views(), parity.views(), rows, width);
    for (std::size_t at = 0; at < rows.size(); ++at) {
      shards.write(loss.missing[at], begin, ByteView(found[at]).first(width));
    }
  }
}

}  // namespace

std::size_t rebuild(Shards& shards, const Hash& hash) {
  const unsigned last = shards.data_count() - 1;
  const bool is_length_known = shards.has(last);
  recover(shards);
  Keccak state;
  for (unsigned index = 0; index < last; ++index) hash_slot(state, shards, index, 0, shards.segment_size());
  const std::size_t before = last * shards.segment_size();
  if (!is_length_known) return before + recovered_length(state, shards, hash);
  const std::size_t size = shards.size_of(last);
  hash_slot(state, shards, last, 0, size);
  if (state.digest() != hash) throw WireError("SEGMENT_HASH", "what was put together is not what its hash says");
  return before + size;
}

}  // namespace speed::segment
