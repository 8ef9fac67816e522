#include "core/slots.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "wire/limits.hpp"

namespace speed::core {

namespace {

constexpr std::uint64_t most_times = 2;  // a slot is used as it is for a payload that needs one in so many of its bytes

std::uint64_t bytes_of(const std::vector<KnownSlot>& slots) {
  return std::accumulate(slots.begin(), slots.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const KnownSlot& slot) { return sum + slot.file_bytes; });
}

std::uint32_t unused_number(const std::vector<KnownSlot>& known) {
  for (std::uint32_t number = 1; number <= wire::limits::max_slots; ++number) {
    if (std::ranges::find(known, number, &KnownSlot::number) == known.end()) return number;
  }
  return 0;
}

// How long it is to be then; number 0: there is none. `free` stands in the order of sizes, of equal ones in that of numbers.
KnownSlot best_of(const std::vector<KnownSlot>& free, const std::vector<KnownSlot>& known, std::uint64_t needed) {
  const auto long_enough = std::ranges::find_if(free, [&](const KnownSlot& one) { return one.file_bytes >= needed; });
  if (long_enough != free.end() && long_enough->file_bytes <= most_times * needed) return *long_enough;
  if (long_enough != free.begin()) {
    const std::uint64_t longest = std::prev(long_enough)->file_bytes;
    return {std::ranges::find(free, longest, &KnownSlot::file_bytes)->number, needed, true};
  }
  if (const std::uint32_t number = unused_number(known); number != 0) return {number, needed, true};
  return free.empty() ? KnownSlot{} : KnownSlot{free.front().number, needed, true};
}

}  // namespace

SlotChoice choose_slot(const std::vector<KnownSlot>& known, std::uint64_t needed, std::uint64_t room) {
  std::vector<KnownSlot> free;
  std::ranges::copy_if(known, std::back_inserter(free), &KnownSlot::is_free);
  std::ranges::sort(free, {}, [](const KnownSlot& one) { return std::pair(one.file_bytes, one.number); });
  const KnownSlot best = best_of(free, known, needed);
  if (best.number == 0) return {};
  std::erase_if(free, [&](const KnownSlot& one) { return one.number == best.number; });
  SlotChoice choice{best.number, best.file_bytes, excess(free, room - std::min(room, best.file_bytes))};
  const auto goes = [&](const KnownSlot& one) {
    return std::ranges::find(choice.removed, one.number) != choice.removed.end();
  };
  std::erase_if(free, goes);
  if (best.file_bytes + bytes_of(free) > room) choice.file_bytes = needed;
  return choice;
}

std::vector<std::uint32_t> excess(std::vector<KnownSlot> free, std::uint64_t room) {
  std::ranges::sort(free, {}, [](const KnownSlot& one) { return std::pair(~one.file_bytes, one.number); });
  std::uint64_t total = bytes_of(free);
  std::vector<std::uint32_t> removed;
  for (const KnownSlot& one : free) {
    if (total <= room) break;
    removed.push_back(one.number);
    total -= one.file_bytes;
  }
  return removed;
}

}  // namespace speed::core
