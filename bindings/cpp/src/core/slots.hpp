// Which slot a large payload goes into, and which ones are given back for it (L-29).
#pragma once

#include <cstdint>
#include <vector>

namespace speed::core {

struct KnownSlot {
  std::uint32_t number = 0;
  std::uint64_t file_bytes = 0;
  bool is_free = false;
};

struct SlotChoice {
  std::uint32_t number = 0;  // 0: all are in use
  std::uint64_t file_bytes = 0;  // how long it has to be
  std::vector<std::uint32_t> removed;  // free ones that go before
};

// The slot for a payload that needs so many bytes. `room`: what the window leaves for all free slots with the one that is
// taken.
SlotChoice choose_slot(const std::vector<KnownSlot>& known, std::uint64_t needed, std::uint64_t room);

// The free slots to remove until the others take no more than `room` bytes: the longest first.
std::vector<std::uint32_t> excess(std::vector<KnownSlot> free, std::uint64_t room);

}  // namespace speed::core
