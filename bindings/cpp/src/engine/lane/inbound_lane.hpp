// One lane being read, as the holder of the reader's role and those who finish envelopes share it (L-15, L-19).
// Threads: all methods may be called from any thread; `read` only by the holder of the role.
#pragma once

#include <functional>
#include <memory>

#include "engine/stats.hpp"
#include "fs/lane/lane_reader.hpp"
#include "fs/process.hpp"
#include "wire/mutex.hpp"
#include "wire/time.hpp"

namespace speed::engine {

// Where an envelope came from, for those who finish it.
class Lane {
 public:
  explicit Lane(std::string source) : source_(std::move(source)) {}
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  virtual ~Lane() = default;

  // Commits that these envelopes are done. A failing filesystem is counted: they may be redelivered.
  virtual void finish(std::span<const std::uint64_t> sequences) = 0;
  using Begun = fs::LaneReader::Begun;
  // Commits that this request is begun; only where that is `written` it is (S-8).
  virtual Begun begin(std::uint64_t sequence, bool may_run_again) = 0;
  // Before a request for another generation is finished; false: that it is cannot be told to its caller (L-31).
  virtual bool keep_start() { return true; }
  virtual bool is_closed() const = 0;  // nothing of it can be committed any more: it is read again elsewhere
  // How often a message that came again was begun before, and that it is begun once more (L-25).
  virtual unsigned deliveries(std::uint64_t) const { return 1; }
  virtual void begin_again(std::uint64_t, unsigned) {}
  virtual bool is_dead_letter() const { return false; }  // what comes from here was one, and is one again if it fails
  virtual void failed(std::uint64_t) {}
  // Of the identity that sealed with this key; empty for none (I-5).
  virtual std::string fingerprint(const wire::KeyId&) { return {}; }
  virtual void drop(std::uint64_t sequence) = 0;  // a refused envelope is done; it is committed with the next ones

  const std::string& source() const { return source_; }

  // Where what comes from here is counted, once something did that may; for the holder of the role.
  Traffic* traffic = nullptr;

 private:
  const std::string source_;
};

// At rest it holds no file open: what is finished meanwhile opens them for that long only (L-26).
class InboundLane : public Lane {
 public:
  // `resume(id)` has a paused lane read again. A forked copy commits nothing.
  InboundLane(std::string source, std::unique_ptr<fs::LaneReader> reader,
              std::function<void(const wire::NodeId&)> resume, std::shared_ptr<const fs::ForkMark> mark);

  // As LaneReader::read; nothing while too much is unfinished. Types that no handler finishes are done when read.
  bool read(std::vector<fs::Received>& received, std::size_t most, TimePoint now, bool scan);

  void finish(std::span<const std::uint64_t> sequences) override;
  Begun begin(std::uint64_t sequence, bool may_run_again) override;
  bool keep_start() override;
  bool is_closed() const override;
  unsigned deliveries(std::uint64_t sequence) const override;
  void begin_again(std::uint64_t sequence, unsigned count) override;
  std::string fingerprint(const wire::KeyId& key_id) override;
  void drop(std::uint64_t sequence) override;
  bool has_more() const;  // the last read left something, or was not made because too much is unfinished
  bool is_read() const;  // nothing of it is unread or unfinished
  std::size_t unfinished() const;
  bool grew() const;  // bytes lie behind what was read; cheap enough to ask often
  void rest();  // holds no file open until it is read again
  void close(bool clean);  // with `clean` its position is committed

  // When its directory was changed last, if its sender was gone before a scan read it; -1: just now. For the holder of
  // the role.
  std::optional<std::int64_t> ended_at;

  const wire::NodeId& id() const { return id_; }
  std::map<std::string, std::uint64_t> counts() const;

 private:
  void stay_at_rest() SPEED_REQUIRES(lock_);

  const wire::NodeId id_;
  mutable Mutex lock_;
  std::unique_ptr<fs::LaneReader> reader_ SPEED_GUARDED_BY(lock_);  // null once closed
  std::map<std::string, std::uint64_t> last_counts_ SPEED_GUARDED_BY(lock_);
  std::function<void(const wire::NodeId&)> resume_;
  const std::shared_ptr<const fs::ForkMark> mark_;
  bool rests_ SPEED_GUARDED_BY(lock_) = false;
  bool paused_ SPEED_GUARDED_BY(lock_) = false;
  bool more_ SPEED_GUARDED_BY(lock_) = false;  // what the last read said
};

using LanePtr = std::shared_ptr<Lane>;
using InboundLanePtr = std::shared_ptr<InboundLane>;

}  // namespace speed::engine
