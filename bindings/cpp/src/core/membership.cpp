#include "core/membership.hpp"

#include "speed/error.hpp"

namespace speed::core {

LeaseVerdict judge(const Tenure& tenure, const std::string& observer_boot_id, std::int64_t monotonic_ms,
                   std::optional<bool> process_alive, std::int64_t unchanged_ms) {
  if (!tenure.boot_id.empty() && tenure.boot_id == observer_boot_id) {
    if (process_alive == false) return LeaseVerdict::stale;
    const std::int64_t age = monotonic_ms - tenure.heartbeat_monotonic_ms;
    if (age >= 0) return age > tenure.lease ? LeaseVerdict::stale : LeaseVerdict::live;
  }
  return unchanged_ms > tenure.lease ? LeaseVerdict::stale : LeaseVerdict::watch;
}

void check_lease(std::int64_t lease_ms, std::int64_t heartbeat_ms, std::int64_t late_ms) {
  if (heartbeat_ms <= 0)
    throw ConfigurationError("the heartbeat interval must be positive, not " + std::to_string(heartbeat_ms) + " ms");
  if (lease_ms <= 3 * heartbeat_ms) {
    throw ConfigurationError("the lease (" + std::to_string(lease_ms) + " ms) must exceed three heartbeats (3 x " +
                             std::to_string(heartbeat_ms) +
                             " ms): one late heartbeat must not cost the name; make the lease longer, or " +
                             "the heartbeat shorter");
  }
  if (lease_ms <= 3 * heartbeat_ms + late_ms) {
    throw ConfigurationError(
        "the lease (" + std::to_string(lease_ms) + " ms) must exceed three heartbeats (3 x " +
        std::to_string(heartbeat_ms) + " ms) and the " + std::to_string(late_ms) +
        " ms after which other hosts may see them on this mount; make the lease longer, or mount with " +
        "a smaller actimeo");
  }
}

}  // namespace speed::core
