#include "fs/probe.hpp"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "wire/names.hpp"

namespace speed::fs {

namespace {

// Numbers of statfs(2); those that <linux/magic.h> lacks are named here.
constexpr long smb2 = 0xFE534D42;
constexpr long lustre = 0x0BD00BD0;
constexpr long gpfs = 0x47504653;
constexpr std::array<long, 2> memory{TMPFS_MAGIC, RAMFS_MAGIC};
constexpr std::array<long, 10> remote{NFS_SUPER_MAGIC,  SMB_SUPER_MAGIC, CIFS_SUPER_MAGIC, smb2,        V9FS_MAGIC,
                                      CEPH_SUPER_MAGIC, AFS_SUPER_MAGIC, FUSE_SUPER_MAGIC, lustre, gpfs};

bool fifo_works(const std::string& path) {
  const std::string name = wire::child_path(path, wire::temporary_name("fifo." + std::to_string(getpid())));
  unlink(name.c_str());
  if (mkfifo(name.c_str(), 0600) != 0) return false;
  unlink(name.c_str());
  return true;
}

}  // namespace

Filesystem filesystem_of(const std::string& path) {
  struct statfs status {};
  const long kind = statfs(path.c_str(), &status) == 0 ? static_cast<long>(status.f_type) : 0;
  return {std::ranges::find(memory, kind) != memory.end(), std::ranges::find(remote, kind) != remote.end(),
          fifo_works(path)};
}

}  // namespace speed::fs
