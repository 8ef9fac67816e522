// Names across hosts: `billing@hostb`, and patterns such as `etl.*@hosta` (H-1, H-9).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace speed::wire {

inline constexpr char gateway_node[] = "speedd.hosts";  // carries to other hosts
inline constexpr std::size_t max_host_characters = 32;

inline bool is_remote(std::string_view target) { return target.find('@') != std::string_view::npos; }

bool is_host_name(std::string_view name);

// Both halves of `node@host`; InvalidNameError.
void check_remote(std::string_view target);

// A grant as nodes of this root know it: `etl.*@hosta` is about stand-ins. InvalidNameError for no pattern of a host.
std::string local_grant(const std::string& pattern);
std::vector<std::string> local_grants(const std::vector<std::string>& patterns);

}  // namespace speed::wire
