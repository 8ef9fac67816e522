#include "fs/probe.hpp"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "fs/files.hpp"
#include "speed/error.hpp"
#include "wire/limits.hpp"
#include "wire/names/names.hpp"

namespace speed::fs {

namespace {

// Numbers of statfs(2); those that <linux/magic.h> lacks are named here.
constexpr long smb2 = 0xFE534D42;
constexpr long lustre = 0x0BD00BD0;
constexpr long gpfs = 0x47504653;
constexpr std::array<long, 2> memory{TMPFS_MAGIC, RAMFS_MAGIC};
constexpr std::array<long, 10> remote{NFS_SUPER_MAGIC,  SMB_SUPER_MAGIC, CIFS_SUPER_MAGIC, smb2,   V9FS_MAGIC,
                                      CEPH_SUPER_MAGIC, AFS_SUPER_MAGIC, FUSE_SUPER_MAGIC, lustre, gpfs};

// How long a mount with these options may keep what it knows of files and directories.
Duration late_with(std::istream&& options) {
  Duration file = wire::limits::remote_late;
  Duration directory = file;
  for (std::string option; std::getline(options, option, ',');) {
    if (option == "noac") return {};
    const std::string key = option.substr(0, option.find('='));
    const Duration value = saturated(Seconds(key == option ? 0 : std::atof(option.c_str() + key.size() + 1)));
    if (key == "acregmax" || key == "actimeo") file = value;
    if (key == "acdirmax" || key == "actimeo") directory = value;
  }
  return std::max(file, directory);
}

// By the options of the mount whose point is the longest prefix of the path; the last one mounted there wins.
Duration late(const std::string& path) {
  std::string best, found;
  std::ifstream table("/proc/self/mounts");
  for (std::string line; std::getline(table, line);) {
    std::istringstream fields(line);
    std::string device, point, kind, options;
    if (!(fields >> device >> point >> kind >> options)) continue;
    const bool inside = point == "/" || path == point || path.starts_with(point + "/");
    if (!inside || point.size() < best.size()) continue;
    best = point;
    found = options;
  }
  return late_with(std::istringstream(found));
}

// What a filesystem says that has none. Anything else that fails tells nothing of the filesystem, and a node must not
// poll for life because of it.
bool has_none(int error) { return error == EPERM || error == EOPNOTSUPP || error == ENOSYS; }

bool has_fifos(const std::string& path) {
  const std::string name = wire::child_path(path, unique_name("fifo"));
  if (mkfifo(name.c_str(), 0600) == 0) return unlink(name.c_str()), true;
  if (has_none(errno)) return false;
  throw RootError("cannot use the root " + path + ": " + std::generic_category().message(errno) +
                  "; choose another, or see `speed root doctor`");
}

}  // namespace

Filesystem filesystem_of(const std::string& path) {
  struct statfs status{};
  const long kind = statfs(path.c_str(), &status) == 0 ? static_cast<long>(status.f_type) : 0;
  const bool is_remote = std::ranges::find(remote, kind) != remote.end();
  if (is_remote) return {false, true, false, late(std::filesystem::canonical(path).string())};
  return {std::ranges::find(memory, kind) != memory.end(), false, has_fifos(path), {}};
}

}  // namespace speed::fs
