// Messages that a node could not handle: kept, and handed to the program again when somebody asks for it (S-18).
// Threads: all methods may be called from any thread.
#pragma once

#include "engine/context.hpp"
#include "engine/deliver/message_state.hpp"
#include "engine/threads/workers.hpp"
#include "fs/store/dead_letters.hpp"
#include "wire/mutex.hpp"

namespace speed::engine {

class DeadLetters : public std::enable_shared_from_this<DeadLetters> {
 public:
  using Deliver = std::function<void(const LanePtr& lane, const fs::Received& received)>;

  DeadLetters(Context& context, Workers& workers);
  void deliver_to(Deliver deliver) { deliver_ = std::move(deliver); }  // before the first look

  // False where there is no room, or it cannot be written now.
  bool add(const Message::State& message, std::string_view code, const std::string& text);
  // Hands on what is asked for again; for whoever reads, at each scan.
  void look();

 private:
  class Lane;
  void start() SPEED_REQUIRES(lock_);
  void hand_on(std::uint64_t number) SPEED_EXCLUDES(lock_);
  void ended(std::uint64_t number, bool handled) SPEED_EXCLUDES(lock_);

  Context& context_;
  Workers& workers_;
  Deliver deliver_;
  Mutex lock_;
  fs::DeadLetterFiles files_ SPEED_GUARDED_BY(lock_);
  bool started_ SPEED_GUARDED_BY(lock_) = false;
};

}  // namespace speed::engine
