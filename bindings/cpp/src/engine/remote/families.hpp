// Families of nodes that offer one service: one of them does what a program asks of `pricing.*` (S-40).
// Threads: all methods may be called from any thread; the node outlives it.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/family.hpp"
#include "engine/context.hpp"
#include "engine/registrar.hpp"
#include "fs/registry/registry.hpp"
#include "speed/node.hpp"
#include "wire/mutex.hpp"
#include "wire/time.hpp"

namespace speed::engine {

class Runtime;

// Who is there, and what each has under way.
class Families {
 public:
  // `registrar` is there by the first call.
  Families(Context& context, const std::unique_ptr<Registrar>& registrar) : context_(context), registrar_(registrar) {}

  // The member to ask now: it was tried, and has one call more under way, until `ended`. One that is starting, where no
  // other one is there. UnknownNodeError and AccessDeniedError, both not begun, where there is none.
  std::string take(const std::string& family, const std::optional<std::string>& key,
                   std::set<core::FamilyMember>& tried);
  void ended(const std::string& member);
  // It was found gone: no call asks it for a while, whatever its entry says.
  void left(const core::FamilyMember& member);

  std::vector<core::FamilyMember> able(const std::string& family);  // the members that may be asked
  [[noreturn]] void throw_nobody(const std::string& family);

 private:
  std::vector<wire::Entry> members(const std::string& family, std::string_view status = "online");
  std::vector<core::FamilyMember> starting(const std::string& family);
  std::vector<core::FamilyMember> untried(std::vector<core::FamilyMember> found,
                                          const std::set<core::FamilyMember>& tried);
  void look(bool again = false);

  Context& context_;
  const std::unique_ptr<Registrar>& registrar_;
  std::atomic<bool> changed_ = true;
  Mutex lock_;
  bool watches_ SPEED_GUARDED_BY(lock_) = false;
  TimePoint looked_at_ SPEED_GUARDED_BY(lock_) = {};
  std::vector<wire::Entry> entries_ SPEED_GUARDED_BY(lock_);
  core::CallsByMember under_way_ SPEED_GUARDED_BY(lock_);
  std::map<std::string, std::string> last_ SPEED_GUARDED_BY(lock_);  // of each family, who was chosen last
  std::map<core::FamilyMember, TimePoint> left_ SPEED_GUARDED_BY(lock_);  // who was found gone, until when that is kept
};

// The members that one call asks, one after the other.
// Threads: one at a time.
class Walk {
 public:
  Walk(Families& families, std::string family, std::optional<std::string> key)
      : families_(families), family_(std::move(family)), key_(std::move(key)) {}

  std::string take();  // throws the error of the last one where there is no other
  // That member did not begin it. Throws `error` where it is final.
  void failed(const std::exception_ptr& error, const std::string& member);

 private:
  Families& families_;
  std::string family_;
  std::optional<std::string> key_;
  std::set<core::FamilyMember> tried_;
  std::exception_ptr error_;
};

// What a stream asks for.
struct StreamRequest {
  std::string service;
  Map arguments;
  CallOptions options;
  StreamOffer offer;
};

// The channel of a stream that goes from member to member until one begins it; it throws what no other one could change.
std::shared_ptr<StreamChannel> family_stream(Runtime& node, Walk walk, StreamRequest request);

}  // namespace speed::engine
