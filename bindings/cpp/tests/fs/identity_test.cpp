// Which processes are gone, and of which nobody can tell.
#include "fs/process.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <string>
#include <thread>

#include "few_files.hpp"

namespace speed::fs {
namespace {

char state_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  return line.at(line.rfind(')') + 2);
}

TEST(Identities, of_a_process_that_cannot_be_looked_at_nobody_can_tell_r_6) {
  const Identity own = own_identity();
  EXPECT_EQ(process_alive(own, own), true);
  const test::FewFiles none;
  EXPECT_EQ(process_alive(own, own), std::nullopt);
}

TEST(Identities, a_zombie_is_gone_r_6) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(pipe2(pipe.data(), O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    const std::int64_t start = own_identity().pid_start;
    if (write(pipe[1], &start, sizeof start) == sizeof start) pause();
    _exit(1);
  }
  Identity its = own_identity();
  const Identity own = its;
  its.pid = child;
  ASSERT_EQ(read(pipe[0], &its.pid_start, sizeof its.pid_start), static_cast<ssize_t>(sizeof its.pid_start));
  EXPECT_EQ(process_alive(its, own), true);
  kill(child, SIGKILL);
  siginfo_t ended{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(process_alive(its, own), false);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(process_alive(its, own), false);
  for (const int fd : pipe) close(fd);
}

TEST(Identities, a_process_whose_main_thread_ended_lives_while_another_thread_does_r_6) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(pipe2(pipe.data(), O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    std::thread([&] {
      const std::int64_t start = own_identity().pid_start;
      while (state_of(getpid()) != 'Z') std::this_thread::yield();
      if (write(pipe[1], &start, sizeof start) == sizeof start) pause();
      _exit(1);
    }).detach();
    syscall(SYS_exit, 0);
  }
  const Identity own = own_identity();
  Identity its = own;
  its.pid = child;
  ASSERT_EQ(read(pipe[0], &its.pid_start, sizeof its.pid_start), static_cast<ssize_t>(sizeof its.pid_start));
  EXPECT_EQ(process_alive(its, own), true);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(process_alive(its, own), false);
  for (const int fd : pipe) close(fd);
}

}  // namespace
}  // namespace speed::fs
