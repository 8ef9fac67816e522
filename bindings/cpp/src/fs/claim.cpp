#include "fs/claim.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "fs/entry_file.hpp"
#include "fs/files.hpp"
#include "wire/entry.hpp"
#include "wire/json.hpp"
#include "wire/names.hpp"

namespace speed::fs {

namespace {

using wire::Json;
constexpr std::size_t max_claim_bytes = 4096;

// All claimed generations of a name. Other names are passed by unparsed: there may be thousands.
std::vector<std::uint32_t> generations_of(const std::string& root, const std::string& name) {
  const Fd directory = open_directory(wire::claims_dir(root));
  std::vector<std::uint32_t> generations;
  for_each_name(directory.get(), [&](std::string_view file) {
    if (!file.starts_with(name)) return;
    const auto claim = wire::parse_claim(file);
    if (claim && claim->first == name) generations.push_back(claim->second);
  });
  return generations;
}

// A whole number; the library alone would take fractions and booleans too. Json::exception.
std::int64_t whole(const Json& value) {
  if (!value.is_number_integer()) value.get_ref<const Json::number_integer_t&>();  // throws what it is instead
  return value.get<std::int64_t>();
}

std::optional<std::int64_t> told(const Json& values, const char* what) {
  const auto said = values.find(what);
  return said == values.end() || said->is_null() ? std::nullopt : std::optional(whole(*said));
}

Claimant maker_of(const Json& values) {
  Claimant claimant;
  claimant.identity.pid = whole(values.at("pid"));
  claimant.identity.pid_start = whole(values.at("pid_start"));
  values.at("pid_namespace").get_to(claimant.identity.pid_namespace);
  values.at("host").get_to(claimant.identity.host);
  values.at("boot_id").get_to(claimant.identity.boot_id);
  claimant.lease_ms = whole(values.at("lease"));
  claimant.made_ms = told(values, "made_monotonic_ms");
  return claimant;
}

bool says(const Json& values, const char* what) {
  const auto said = values.find(what);
  return said != values.end() && *said == true;
}

}  // namespace

std::string encode_claim(const Claimant& claimant, const wire::Key& registry_key) {
  const Identity& maker = claimant.identity;
  Json values{{"pid", maker.pid},   {"pid_start", maker.pid_start}, {"pid_namespace", maker.pid_namespace},
              {"host", maker.host}, {"boot_id", maker.boot_id},     {"lease", claimant.lease_ms}};
  if (claimant.made_ms) values["made_monotonic_ms"] = *claimant.made_ms;
  if (claimant.above) values["above"] = *claimant.above;
  if (claimant.ephemeral) values["ephemeral"] = true;
  if (claimant.sweeps) values["sweeps"] = true;
  const std::string line = values.dump(-1, ' ', true, Json::error_handler_t::replace);
  return line + "\n" + wire::entry_mac(registry_key, line) + "\n";
}

std::optional<Claimant> decode_claim(std::string_view text, const std::vector<wire::Key>& registry_keys) {
  const std::string_view line = text.substr(0, text.find('\n'));
  const std::string_view rest = text.substr(std::min(line.size() + 1, text.size()));
  const std::optional<Json> values = wire::parse_json(line, wire::limits::max_value_depth);
  if (!values || !values->is_object()) return std::nullopt;
  try {
    Claimant claimant = maker_of(*values);
    claimant.sweeps = says(*values, "sweeps");
    if (!wire::has_mac(line, rest.substr(0, rest.find('\n')), registry_keys)) return claimant;
    claimant.ephemeral = says(*values, "ephemeral");
    if (const auto above = told(*values, "above")) claimant.above = static_cast<std::uint32_t>(*above);
    return claimant;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

std::unordered_map<std::string, std::uint32_t> newest_claims(const std::string& root) {
  std::unordered_map<std::string, std::uint32_t> newest;
  const Fd directory = open_directory(wire::claims_dir(root));
  for_each_name(directory.get(), [&](const char* file) {
    const auto claim = wire::parse_claim(file);
    if (!claim) return;
    std::uint32_t& most = newest[claim->first];
    most = std::max(most, claim->second);
  });
  return newest;
}

std::uint32_t Claims::newest() const {
  const std::vector<std::uint32_t> all = generations_of(root_, name_);
  return all.empty() ? 0 : *std::ranges::max_element(all);
}

bool Claims::take(std::uint32_t generation, const Claimant& claimant) const {
  const std::string path = wire::claim_path(root_, name_, generation);
  Fd fd;
  try {
    fd = open_or_make(AT_FDCWD, path, O_WRONLY | O_EXCL);
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::file_exists) return false;
    throw;
  }
  try {
    write_all(fd.get(), wire::view(encode_claim(claimant, keyring_.registry_keys().front())));
    if (claimant.sweeps) return true;
    if (fsync(fd.get()) != 0) throw_errno(path);  // after a power cut no generation may be used again
    for (const std::string& place : {wire::claims_dir(root_), wire::registry_dir(root_), root_}) sync_directory(place);
  } catch (const std::system_error&) {
    release(generation);  // no entry will follow it
    throw;
  }
  return true;
}

std::optional<Claimant> Claims::read(std::uint32_t generation) const {
  try {
    return look(generation);
  } catch (const std::system_error&) {
    return std::nullopt;
  }
}

std::optional<Claimant> Claims::newest_told() const {
  std::vector<std::uint32_t> generations = generations_of(root_, name_);
  std::ranges::sort(generations, std::ranges::greater());
  for (const std::uint32_t generation : generations) {
    if (std::optional<Claimant> claimant = look(generation)) return claimant;
  }
  return std::nullopt;
}

// Null as well for what was just removed, or is none; std::system_error where the system fails.
std::optional<Claimant> Claims::look(std::uint32_t generation) const {
  const std::string path = wire::claim_path(root_, name_, generation);
  const Fd fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd && is_failure(errno)) throw_errno(path);
  if (!fd) return std::nullopt;
  Bytes data(max_claim_bytes);
  data.resize(read_at(fd.get(), data, 0));
  return decode_claim(wire::text(data), keyring_.registry_keys());
}

bool Claims::is_ephemeral(std::uint32_t generation) const {
  const std::optional<Claimant> claimant = generation > 0 ? read(generation) : std::nullopt;
  return claimant && claimant->ephemeral;
}

bool Claims::may_be_ephemeral(std::uint32_t newest) const {
  if (newest == 0) return false;
  try {
    const std::optional<Claimant> claimant = read(newest);
    return !claimant || claimant->ephemeral;
  } catch (const std::system_error&) {
    return true;
  }
}

void Claims::release(std::uint32_t generation) const noexcept {
  const std::string path = wire::claim_path(root_, name_, generation);
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return;
  // It fails only where a newer claim replaced this one. In the root of a group its members still read it.
  [[maybe_unused]] const int failed = chmod(path.c_str(), status.st_mode & 0440);
}

std::optional<bool> Claims::is_released(std::uint32_t generation) const {
  struct stat status {};
  const std::string path = wire::claim_path(root_, name_, generation);
  if (::stat(path.c_str(), &status) != 0) {
    if (errno != ENOENT) throw_errno(path);
    return std::nullopt;
  }
  return (status.st_mode & S_IWUSR) == 0;
}

bool Claims::exists(std::uint32_t generation) const {
  return access(wire::claim_path(root_, name_, generation).c_str(), F_OK) == 0 || errno != ENOENT;
}

void Claims::remove(std::uint32_t generation) const {
  const std::string path = wire::claim_path(root_, name_, generation);
  if (unlink(path.c_str()) != 0 && errno != ENOENT) throw_errno(path);
}

void Claims::remove_older(std::uint32_t generation) const {
  if (generation <= 1) return;
  try {
    for (const std::uint32_t older : generations_of(root_, name_)) {
      if (older < generation) unlink(wire::claim_path(root_, name_, older).c_str());
    }
  } catch (const std::system_error&) {
    return;  // lower claims mean nothing
  }
}

}  // namespace speed::fs
