#include "engine/sweeper.hpp"

#include <random>

#include "core/counters.hpp"
#include "fs/clock.hpp"
#include "fs/registry/claim.hpp"

namespace speed::engine {

namespace {

constexpr Duration first_round = 1s;
constexpr Duration longest_turn = 100ms;     // how long is swept at most before the lease is looked after again
constexpr Duration untouched_time = 10s;  // an entry that was written since is left to the next round
constexpr double crowd = 32;  // so many live nodes make everyone's pause one longer: the root is swept as often
constexpr std::size_t max_gone = 65'536;

double uniform(double least, double most) {
  std::random_device source;
  return std::uniform_real_distribution(least, most)(source);
}

Duration times(double factor, Duration span) { return saturated(factor * Seconds(span)); }

}  // namespace

Sweeper::Sweeper(Context& context, Duration lease, bool ephemeral, std::function<void()> each_lease)
    : context_(context),
      lease_(lease),
      each_lease_(std::move(each_lease)),
      next_lease_(fs::monotonic_now() + lease),
      next_round_(fs::monotonic_now() + times(uniform(0, 1), ephemeral ? lease : std::min(first_round, lease))),
      leftovers_(*context.registry, untouched_time) {}

void Sweeper::note_gone(const std::string& name) {
  const MutexLock guard(lock_);
  if (gone_.size() < max_gone) gone_.insert(name);
}

void Sweeper::turn() {
  const TimePoint now = fs::monotonic_now();
  try {
    look_after_own(now);
    while (sweep_one() && fs::monotonic_now() < now + longest_turn) {
    }
  } catch (const std::exception& error) {
    context_.stats.count(core::counters::sweeps_failed);
    context_.log.limited(LogLevel::warning, "speed.registry", "sweeps_failed",
                         std::string("sweeping the root failed: ") + error.what());
  }
}

void Sweeper::look_after_own(TimePoint now) {
  if (now < next_lease_) return;
  next_lease_ = now + lease_;
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
  if (fs::monotonic_now() < next_round_) return;
  const Duration pause = times(uniform(0.5, 1), lease_);
  next_round_ = fs::monotonic_now() + pause;  // also if this one fails
  const double crowds = static_cast<double>(fs::written_within(*context_.registry, lease_)) / crowd;
  next_round_ += times(crowds, pause);
  // Of many that start together enough look at what the others just wrote.
  if (std::exchange(is_first_, false) && uniform(0, crowds) > 1) return;
  fs::seal_floor_anew(context_.root, context_.keyring());
  leftovers_.begin_round();
}

}  // namespace speed::engine
