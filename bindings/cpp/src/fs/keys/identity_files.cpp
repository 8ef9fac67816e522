#include "fs/keys/identity_files.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <sstream>

#include "fs/files.hpp"
#include "fs/keys/secret_file.hpp"
#include "speed/error.hpp"
#include "wire/names/names.hpp"

namespace speed::fs {

namespace {

constexpr std::size_t max_identity_bytes = 4096;
constexpr std::size_t max_known_bytes = 1 << 20;
constexpr std::string_view known_line = "SPEED-KNOWN-V1";
constexpr mode_t group_bit = 0040;

}  // namespace

wire::NodeIdentity read_identity(const std::string& path) {
  const SecretFile file = read_secret(path, max_identity_bytes);
  if ((file.mode & group_bit) != 0) {
    throw KeyFileError("a group can read " + path + ", and an identity is of one node: run `chmod 600 " + path + "`");
  }
  return wire::NodeIdentity::parse(file.text);
}

IdentitySource::IdentitySource(const std::string& path)
    : path_(std::filesystem::absolute(path).string()),
      now_(std::make_shared<const wire::NodeIdentity>(read_identity(path_))) {}

IdentityPtr IdentitySource::now() const {
  const MutexLock guard(lock_);
  return now_;
}

std::string IdentitySource::look() {
  try {
    auto found = std::make_shared<const wire::NodeIdentity>(read_identity(path_));
    const MutexLock guard(lock_);
    if (found->fingerprint() != now_->fingerprint()) return path_ + " has another identity: start the node anew for it";
    if (found->renewed() == now_->renewed() && found->owners() == now_->owners()) return {};
    now_ = std::move(found);
    changes_.fetch_add(1, std::memory_order_release);
    return {};
  } catch (const KeyFileError& error) {
    return error.what();
  } catch (const std::system_error& error) {
    return "cannot read the identity file " + path_ + ": " + error.code().message();
  }
}

std::optional<wire::Statement> statement_of(const std::string& root, const std::string& name,
                                            const std::vector<std::string>& owners) {
  const std::string path = wire::statement_path(root, name);
  const Fd fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd) return std::nullopt;
  try {
    Bytes data(wire::statement_bytes + 1);
    data.resize(read_at(fd.get(), data, 0));
    return wire::read_statement(data, wire::node_id(name), owners);
  } catch (const WireError&) {
    return std::nullopt;
  } catch (const std::system_error&) {
    return std::nullopt;
  }
}

// --- names that the node met ---

KnownIdentities::KnownIdentities(const std::string& identity_file)
    : path_(wire::known_path(identity_file)), known_(read(path_)) {}

namespace {

std::optional<std::pair<std::string, wire::KnownIdentity>> row_of(const std::string& line) {
  std::istringstream words(line);
  std::string name, issued, revoked, rest;
  wire::KnownIdentity known;
  words >> name >> known.fingerprint >> issued >> revoked >> rest;
  const auto [end, error] = std::from_chars(issued.data(), issued.data() + issued.size(), known.issued);
  known.is_revoked = revoked == "revoked";
  const bool is_row = wire::is_node_name(name) && wire::is_fingerprint(known.fingerprint) && error == std::errc{} &&
                      end == issued.data() + issued.size() && (revoked.empty() || known.is_revoked) && rest.empty();
  return is_row ? std::optional(std::pair(name, known)) : std::nullopt;
}

}  // namespace

KnownIdentities::Names KnownIdentities::read(const std::string& path) {
  if (!is_taken(path)) return {};
  std::istringstream lines(read_secret(path, max_known_bytes).text);
  Names names;
  std::string line;
  bool is_sound = std::getline(lines, line) && line == known_line;
  while (is_sound && std::getline(lines, line)) {
    if (line.empty()) continue;
    const auto row = row_of(line);
    is_sound = row.has_value();
    if (is_sound) names.insert(*row);
  }
  if (!is_sound) throw KeyFileError(path + " was damaged: restore it, or remove it to meet all nodes anew");
  return names;
}

std::string KnownIdentities::text_of(const Names& names) {
  std::string text = std::string(known_line) + "\n";
  for (const auto& [name, one] : names) {
    text += name + " " + one.fingerprint + " " + std::to_string(one.issued) + (one.is_revoked ? " revoked\n" : "\n");
  }
  return text;
}

std::optional<wire::KnownIdentity> KnownIdentities::of(const std::string& name) const {
  const MutexLock guard(lock_);
  const auto found = known_.find(name);
  return found == known_.end() ? std::nullopt : std::optional(found->second);
}

bool KnownIdentities::remember(const std::string& name, const wire::KnownIdentity& known) {
  const MutexLock guard(lock_);
  const auto found = known_.find(name);
  if (found == known_.end() && known_.size() >= max_known_identities) return false;
  if (found != known_.end() && found->second == known) return true;
  Names changed = known_;
  changed[name] = known;
  replace_secret(path_, text_of(changed));
  known_ = std::move(changed);
  return true;
}

}  // namespace speed::fs
