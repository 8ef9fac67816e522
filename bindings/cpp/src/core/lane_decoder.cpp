#include "core/lane_decoder.hpp"

#include <algorithm>
#include <cstring>

namespace speed::core {

using wire::Refusal;

namespace {

constexpr std::size_t ids_offset = 32;
constexpr std::size_t header_tail = 63;  // that many last bytes may begin a header whose ids are not yet visible

// Places per search and searches per scan: they bound the work that a hostile lane can cause (L-16).
constexpr int max_places = 16;
constexpr int max_searches = 4;

// Joins neighbouring damage, so that one accident counts once however the bytes arrived.
void add_damage(std::vector<Item>& items, Refusal reason, std::uint64_t start, std::uint64_t end) {
  if (!items.empty() && items.back().is_damage() && items.back().end == start) {
    items.back().end = end;
    return;
  }
  Item damage;
  damage.refusal = reason;
  damage.start = start;
  damage.end = end;
  items.push_back(damage);
}

}  // namespace

LaneDecoder::LaneDecoder(const wire::NodeId& source, const wire::NodeId& target, wire::LinkOpener& opener)
    : source_(source), target_(target), pattern_{}, opener_(opener) {
  std::ranges::copy(source, pattern_.begin());
  std::ranges::copy(target, pattern_.begin() + source.size());
}

Scan LaneDecoder::scan(const Window& window, std::size_t limit) {
  Scan scan;
  scan.items.reserve(std::min(limit, window.bytes.size() / wire::envelope_overhead + 1));
  std::size_t at = 0;
  int searches = 0;
  while (at < window.bytes.size()) {
    if (scan.items.size() >= limit || searches >= max_searches) {
      scan.more = true;
      break;
    }
    Look found = look(window, at);
    if (found.kind == Look::Kind::whole) {
      at = static_cast<std::size_t>(found.item.end - window.base);
      scan.items.push_back(found.item);
      // Its payload is waited for before anything behind it counts.
      scan.more = (found.item.header.flags & wire::flag_slotted) != 0;
      if (scan.more) break;
      continue;
    }
    const bool incomplete = found.kind == Look::Kind::incomplete;
    if (incomplete && !window.final && !window.suspicious) {
      scan.needed = found.needed;
      break;
    }
    ++searches;
    const std::size_t end = end_of_damage(window, at);
    if (incomplete && !window.final && peek(window, end).kind != Look::Kind::whole) {
      scan.needed = found.needed;
      break;
    }
    add_damage(scan.items, incomplete ? Refusal::truncated : found.item.refusal, window.base + at, window.base + end);
    at = end;
  }
  scan.consumed = at;
  return scan;
}

LaneDecoder::Look LaneDecoder::look(const Window& window, std::size_t at) {
  Look found = inspect(window, at);
  if (found.kind != Look::Kind::whole) return found;
  const std::span<std::byte> envelope = window.bytes.subspan(at, found.needed);
  found.item.refusal = opener_.open(found.item.header, envelope);
  found.item.payload = wire::payload_in(envelope);
  if (found.item.is_damage()) found.kind = Look::Kind::refused;
  return found;
}

LaneDecoder::Look LaneDecoder::peek(const Window& window, std::size_t at) {
  Look found = inspect(window, at);
  if (found.kind != Look::Kind::whole) return found;
  found.item.refusal = opener_.check(found.item.header, window.bytes.subspan(at, found.needed));
  if (found.item.is_damage()) found.kind = Look::Kind::refused;
  return found;
}

LaneDecoder::Look LaneDecoder::inspect(const Window& window, std::size_t at) const {
  Look look{Look::Kind::refused, 0, {}};
  const ByteView rest = window.bytes.subspan(at);
  if (rest.size() < wire::limits::aad_bytes) return {Look::Kind::incomplete, wire::envelope_overhead, {}};
  Item& item = look.item;
  item.refusal = wire::read_headers(rest, item.header);
  if (item.refusal == Refusal::ok) item.refusal = misplaced(item.header, window.generation);
  if (item.refusal != Refusal::ok) return look;
  const auto size = static_cast<std::size_t>(item.header.payload_bytes);
  const std::size_t total = wire::envelope_overhead + size;
  if (rest.size() < total) return {Look::Kind::incomplete, total, {}};
  item.start = window.base + at;
  item.end = item.start + total;
  look.kind = Look::Kind::whole;
  look.needed = total;
  return look;
}

Refusal LaneDecoder::misplaced(const wire::Header& header, std::uint32_t generation) const {
  if (header.source != source_) return Refusal::wrong_source;
  if (header.target != target_) return Refusal::wrong_target;
  return wire::generation_of(header.sequence) == generation ? Refusal::ok : Refusal::bad_sequence;
}

// The next place that may hold an envelope (L-16). A complete one must authenticate; an incomplete one ends the damage
// as well: it is judged when its bytes are there. Without any, all bytes that cannot begin a header are damage.
std::size_t LaneDecoder::end_of_damage(const Window& window, std::size_t at) {
  const std::size_t length = window.bytes.size();
  std::size_t place = at + 1;
  for (int tries = 0; tries < max_places; ++tries) {
    const std::size_t from = std::min(place + ids_offset, length);
    const void* const found = memmem(window.bytes.data() + from, length - from, pattern_.data(), pattern_.size());
    if (found == nullptr) return window.final ? length : std::max(at, length - std::min(length, header_tail));
    place = static_cast<std::size_t>(static_cast<const std::byte*>(found) - window.bytes.data()) - ids_offset;
    if (peek(window, place).kind != Look::Kind::refused) return place;
    ++place;
  }
  return place;
}

}  // namespace speed::core
