// Who may see what: classification and clearance (M-28).
#pragma once

#include "speed/message_security.hpp"
#include "wire/message.hpp"

namespace speed::message {

std::string_view name_of(Classification level);

// Of the highest level: who is handed it is written down (M-31).
bool is_restricted(std::string_view classification);

// NotEncryptedError for a confidential or restricted message in the clear; both sides ask this.
void check_sensitivity(std::string_view classification, bool is_encrypted);

// ClearanceError for a message above the clearance; none is cleared for all.
void check_clearance(std::string_view classification, const std::optional<Classification>& clearance);

}  // namespace speed::message
