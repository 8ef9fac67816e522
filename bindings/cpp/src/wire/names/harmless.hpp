// Text of others as a terminal or a log may have it: what would act there is shown by its number (W-19).
#pragma once

#include <string>
#include <string_view>

namespace speed::wire {

// `text` with escapes such as \x1b and \u202e for what acts, on one line; cut behind `max_characters` of it.
std::string harmless(std::string_view text, std::size_t max_characters = std::string_view::npos);

}  // namespace speed::wire
