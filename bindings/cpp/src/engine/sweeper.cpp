#include "engine/sweeper.hpp"

#include <random>

#include "core/counters.hpp"
#include "fs/clock.hpp"
#include "fs/registry/claim.hpp"

namespace speed::engine {

namespace {

constexpr double first_seconds = 1.0;
constexpr double turn_seconds = 0.1;        // how long is swept at most before the lease is looked after again
constexpr double untouched_seconds = 10.0;  // an entry that was written since is left to the next round
constexpr double crowd = 32;  // so many live nodes make everyone's pause one longer: the root is swept as often
constexpr std::size_t max_gone = 65'536;

double uniform(double least, double most) {
  std::random_device source;
  return std::uniform_real_distribution(least, most)(source);
}

}  // namespace

Sweeper::Sweeper(Context& context, double lease_seconds, bool ephemeral, std::function<void()> each_lease)
    : context_(context),
      lease_seconds_(lease_seconds),
      each_lease_(std::move(each_lease)),
      next_lease_(fs::monotonic_seconds() + lease_seconds),
      next_round_(fs::monotonic_seconds() +
                  uniform(0, ephemeral ? lease_seconds : std::min(first_seconds, lease_seconds))),
      leftovers_(*context.registry, untouched_seconds) {}

void Sweeper::heard(const std::string& name) {
  const MutexLock guard(lock_);
  if (gone_.size() < max_gone) gone_.insert(name);
}

void Sweeper::turn() {
  const double now = fs::monotonic_seconds();
  try {
    look_after_own(now);
    while (sweep_one() && fs::monotonic_seconds() < now + turn_seconds) {
    }
  } catch (const std::exception& error) {
    context_.stats.count(core::counters::sweeps_failed);
    context_.log.limited(LogLevel::warning, "speed.registry", "sweeps_failed",
                         std::string("sweeping the root failed: ") + error.what());
  }
}

void Sweeper::look_after_own(double now) {
  if (now < next_lease_) return;
  next_lease_ = now + lease_seconds_;
  each_lease_();
}

// False if there is nothing to look at for now.
bool Sweeper::sweep_one() {
  if (const std::optional<std::string> name = next_gone()) {
    fs::sweep(*context_.registry, *name);
    return true;
  }
  begin_round_if_due();
  return leftovers_.sweep_next();
}

std::optional<std::string> Sweeper::next_gone() {
  const MutexLock guard(lock_);
  if (gone_.empty()) return std::nullopt;
  return std::move(gone_.extract(gone_.begin()).value());
}

void Sweeper::begin_round_if_due() {
  if (fs::monotonic_seconds() < next_round_) return;
  const double pause = uniform(0.5, 1.0) * lease_seconds_;
  next_round_ = fs::monotonic_seconds() + pause;  // also if this one fails
  const double crowds = static_cast<double>(fs::written_within(*context_.registry, lease_seconds_)) / crowd;
  next_round_ += pause * crowds;
  // Of many that start together enough look at what the others just wrote.
  if (std::exchange(is_first_, false) && uniform(0, crowds) > 1) return;
  fs::seal_floor_anew(context_.root, context_.keyring());
  leftovers_.begin_round();
}

}  // namespace speed::engine
