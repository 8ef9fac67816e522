#include "fs/floor.hpp"

#include "fs/claim.hpp"
#include "fs/files.hpp"
#include "fs/lock.hpp"
#include "speed/error.hpp"
#include "wire/floor.hpp"

namespace speed::fs {

namespace {

wire::Floors read_floors(const std::string& root, const std::vector<wire::Key>& registry_keys) {
  Bytes data;
  try {
    const Fd directory = open_directory(wire::claims_dir(root));
    data = read_small(directory.get(), wire::floor_name, owners_of(directory.get()), wire::floor_bytes + 1);
  } catch (const std::system_error& error) {
    if (error.code().value() == ENOENT) return {};
    throw;
  }
  return wire::decode_floors(data, registry_keys);
}

// The lock is held.
void write_floors(const std::string& root, const wire::Floors& floors, const wire::Key& registry_key) {
  const Fd directory = open_directory(wire::claims_dir(root));
  replace_file(directory.get(), wire::floor_name, wire::encode_floors(floors, registry_key), true);
}

std::size_t bucket_of(const std::string& name) { return std::to_integer<std::size_t>(wire::node_id(name)[0]); }

}  // namespace

std::uint32_t floor_of(const std::string& root, const std::string& name, const wire::Keyring& keyring) {
  return read_floors(root, keyring.registry_keys())[bucket_of(name)];
}

std::uint32_t forgotten_up_to(const std::string& root, const std::string& name, const wire::Keyring& keyring) {
  std::optional<Claimant> claimant;
  try {
    claimant = Claims(root, name, keyring).newest_told();
  } catch (const std::system_error& error) {
    if (error.code().value() == ENOENT) return 0;  // nobody ever registered here
    throw;
  }
  return claimant && claimant->above ? *claimant->above : floor_of(root, name, keyring);
}

void raise_floor(const std::string& root, const std::string& name, std::uint32_t generation,
                 const wire::Keyring& keyring, double seconds) {
  const std::string path = wire::floor_lock_path(root);
  const std::optional<Lock> lock = Lock::take(path, seconds);
  if (!lock) throw StorageError(path + " is held by another process: nothing was forgotten");
  wire::Floors floors = read_floors(root, keyring.registry_keys());
  std::uint32_t& floor = floors[bucket_of(name)];
  if (floor >= generation) return;
  floor = generation;
  write_floors(root, floors, keyring.registry_keys().front());
}

void seal_floor_anew(const std::string& root, const wire::Keyring& keyring) {
  try {
    read_floors(root, {keyring.registry_keys().front()});
  } catch (const WireError&) {
    if (const std::optional<Lock> lock = Lock::take(wire::floor_lock_path(root), floor_lock_seconds)) {
      write_floors(root, read_floors(root, keyring.registry_keys()), keyring.registry_keys().front());
    }
  }
}

}  // namespace speed::fs
