#include "fs/claim.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "fs/files.hpp"
#include "wire/names.hpp"

namespace speed::fs {

namespace {

using Json = nlohmann::ordered_json;
constexpr std::size_t max_claim_bytes = 4096;

// All claimed generations of a name.
std::vector<std::uint32_t> generations_of(const std::string& root, const std::string& name) {
  const Fd directory = open_directory(wire::claims_dir(root));
  std::vector<std::uint32_t> generations;
  for_each_name(directory.get(), [&](const char* file) {
    const auto claim = wire::parse_claim(file);
    if (claim && claim->first == name) generations.push_back(claim->second);
  });
  return generations;
}

std::string encode(const Claimant& claimant) {
  const Identity& maker = claimant.identity;
  Json values{{"pid", maker.pid},   {"pid_start", maker.pid_start}, {"pid_namespace", maker.pid_namespace},
              {"host", maker.host}, {"boot_id", maker.boot_id},     {"lease", claimant.lease_ms}};
  if (claimant.made_ms) values["made_monotonic_ms"] = *claimant.made_ms;
  return values.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
}

std::optional<Claimant> decode(std::string_view text) {
  const Json values = Json::parse(text, nullptr, false);
  if (!values.is_object()) return std::nullopt;
  try {
    Claimant claimant;
    values.at("pid").get_to(claimant.identity.pid);
    values.at("pid_start").get_to(claimant.identity.pid_start);
    values.at("pid_namespace").get_to(claimant.identity.pid_namespace);
    values.at("host").get_to(claimant.identity.host);
    values.at("boot_id").get_to(claimant.identity.boot_id);
    values.at("lease").get_to(claimant.lease_ms);
    const auto made = values.find("made_monotonic_ms");
    if (made != values.end() && made->is_number_integer()) claimant.made_ms = made->get<std::int64_t>();
    return claimant;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

}  // namespace

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
    write_all(fd.get(), wire::view(encode(claimant)));
    if (fsync(fd.get()) != 0) throw_errno(path);  // after a power cut no generation may be used again
    for (const std::string& place : {wire::claims_dir(root_), wire::registry_dir(root_), root_}) sync_directory(place);
  } catch (const std::system_error&) {
    release(generation);  // no entry will follow it
    throw;
  }
  return true;
}

std::optional<Claimant> Claims::read(std::uint32_t generation) const {
  const std::string path = wire::claim_path(root_, name_, generation);
  const Fd fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd) return std::nullopt;
  Bytes data(max_claim_bytes);
  const ssize_t size = ::read(fd.get(), data.data(), data.size());
  if (size <= 0) return std::nullopt;
  return decode(wire::text(ByteView(data).first(static_cast<std::size_t>(size))));
}

void Claims::release(std::uint32_t generation) const noexcept {
  const std::string path = wire::claim_path(root_, name_, generation);
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return;
  // It fails only where a newer claim replaced this one. In the root of a group its members still read it.
  [[maybe_unused]] const int failed = chmod(path.c_str(), status.st_mode & 0440);
}

bool Claims::is_released(std::uint32_t generation) const {
  struct stat status {};
  const std::string path = wire::claim_path(root_, name_, generation);
  if (::stat(path.c_str(), &status) != 0) {
    if (errno != ENOENT) throw_errno(path);
    return true;
  }
  return (status.st_mode & S_IWUSR) == 0;
}

void Claims::remove_older(std::uint32_t generation) const {
  try {
    for (const std::uint32_t older : generations_of(root_, name_)) {
      if (older < generation) unlink(wire::claim_path(root_, name_, older).c_str());
    }
  } catch (const std::system_error&) {
    return;  // lower claims mean nothing
  }
}

}  // namespace speed::fs
