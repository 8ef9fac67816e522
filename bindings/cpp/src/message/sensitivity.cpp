#include "message/sensitivity.hpp"

#include <algorithm>
#include <array>

namespace speed::message {

namespace {

constexpr std::array<std::string_view, 4> names{"public", "internal", "confidential", "restricted"};

// Absent is internal; a text of a later version counts as the highest.
Classification level_of(std::string_view classification) {
  if (classification.empty()) return Classification::internal;
  const auto* const found = std::ranges::find(names, classification);
  return found == names.end() ? Classification::restricted : static_cast<Classification>(found - names.begin());
}

}  // namespace

std::string_view name_of(Classification level) { return names[static_cast<std::size_t>(level)]; }

bool is_restricted(std::string_view classification) { return level_of(classification) == Classification::restricted; }

void check_sensitivity(std::string_view classification, bool is_encrypted) {
  const Classification level = level_of(classification);
  if (level < Classification::confidential || is_encrypted) return;
  throw NotEncryptedError("data_classification: a " + std::string(name_of(level)) +
                          " message must be encrypted: give `encrypt_to`");
}

void check_clearance(std::string_view classification, const std::optional<Classification>& clearance) {
  const Classification level = level_of(classification);
  if (!clearance || level <= *clearance) return;
  throw ClearanceError("data_classification: is " + std::string(name_of(level)) + ", and this node is cleared for " +
                       std::string(name_of(*clearance)));
}

}  // namespace speed::message
