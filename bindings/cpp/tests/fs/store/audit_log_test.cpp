// The file of an audit: private, one line in one write, and never too large (M-31).
#include "speed/audit_log.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <fstream>
#include <regex>
#include <thread>

#include "fabric.hpp"
#include "fs/files.hpp"

namespace speed {
namespace {

namespace files = std::filesystem;

class AuditFile : public testing::Test {
 protected:
  static std::vector<std::string> lines_of(const std::string& path) {
    std::ifstream file(path);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }

  // What the log says when it cannot be opened.
  std::string problem() const {
    try {
      const AuditLog log(path_);
      return {};
    } catch (const StorageError& error) {
      return error.what();
    }
  }

  test::TestRoot root_;
  const std::string path_ = root_.path + "/audit.jsonl";
};

TEST_F(AuditFile, a_line_is_json_that_begins_with_its_time_in_utc) {
  AuditLog(path_).write(R"({"operation":"sign"})");
  ASSERT_EQ(lines_of(path_).size(), 1U);
  const std::regex form(R"re(\{"time":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00","operation":"sign"\})re");
  EXPECT_TRUE(std::regex_match(lines_of(path_)[0], form)) << lines_of(path_)[0];
}

TEST_F(AuditFile, the_file_is_private_and_added_to) {
  for (int opened = 0; opened < 2; ++opened) AuditLog(path_).write(R"({"n":1})");
  EXPECT_EQ(lines_of(path_).size(), 2U);
  EXPECT_EQ(files::status(path_).permissions(), files::perms::owner_read | files::perms::owner_write);
}

TEST_F(AuditFile, a_full_file_gets_another_name_and_the_oldest_goes) {
  AuditLog log(path_, 60, 2);
  for (const char* const number : {"1", "2", "3", "4"}) log.write(std::string(R"({"number":)") + number + "}");
  const auto has = [](const std::string& path, const std::string& number) {
    const std::vector<std::string> lines = lines_of(path);
    return lines.size() == 1 && lines[0].ends_with("\"number\":" + number + "}");
  };
  EXPECT_TRUE(has(path_, "4"));
  EXPECT_TRUE(has(path_ + ".1", "3"));
  EXPECT_TRUE(has(path_ + ".2", "2"));
  EXPECT_FALSE(files::exists(path_ + ".3"));
  EXPECT_EQ(files::status(path_).permissions(), files::perms::owner_read | files::perms::owner_write);
}

TEST_F(AuditFile, lines_of_several_threads_stand_whole_beside_each_other) {
  AuditLog log(path_, 4096, 100);
  std::vector<std::thread> writers;
  for (int writer = 0; writer < 4; ++writer) {
    writers.emplace_back([&] {
      for (int line = 0; line < 100; ++line) log.write(R"({"n":1})");
    });
  }
  for (std::thread& writer : writers) writer.join();
  std::size_t whole = 0;
  for (const auto& file : files::directory_iterator(root_.path)) {
    if (file.path().filename().string().starts_with("audit")) {
      for (const std::string& line : lines_of(file.path())) whole += nlohmann::json::accept(line) ? 1 : 0;
    }
  }
  EXPECT_EQ(whole, 400U);
}

TEST_F(AuditFile, a_link_is_refused) {
  std::ofstream(root_.path + "/elsewhere").close();
  files::create_symlink(root_.path + "/elsewhere", path_);
  EXPECT_NE(problem().find("nothing was done"), std::string::npos);
}

TEST_F(AuditFile, a_directory_is_refused) {
  files::create_directory(path_);
  EXPECT_NE(problem(), "");
}

TEST_F(AuditFile, a_fifo_is_refused_and_not_waited_for) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_NE(problem(), "");
  const fs::Fd reader(::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  EXPECT_NE(problem().find("no regular file"), std::string::npos);
}

TEST_F(AuditFile, a_file_that_others_may_write_is_refused) {
  std::ofstream(path_).close();
  files::permissions(path_, files::perms::owner_all | files::perms::others_write);
  EXPECT_NE(problem().find("nobody else may write"), std::string::npos);
}

TEST_F(AuditFile, a_file_without_its_directory_is_refused) {
  EXPECT_THROW(AuditLog(root_.path + "/none/audit.jsonl"), StorageError);
}

TEST_F(AuditFile, a_log_of_nothing_is_refused) {
  EXPECT_THROW(AuditLog(path_, 0), ConfigurationError);
  EXPECT_THROW(AuditLog(path_, 60, 0), ConfigurationError);
}

TEST_F(AuditFile, a_rename_that_fails_is_said_and_the_next_line_tries_again) {
  AuditLog log(path_, 60, 1);
  log.write(R"({"number":1})");
  files::create_directories(path_ + ".1/taken");
  EXPECT_THROW(log.write(R"({"number":2})"), StorageError);
  files::remove_all(path_ + ".1");
  log.write(R"({"number":3})");
  EXPECT_EQ(lines_of(path_ + ".1").size(), 1U);
  EXPECT_EQ(lines_of(path_).size(), 1U);
}

// In a process of its own, whose files may not grow.
TEST_F(AuditFile, a_line_that_broke_off_is_said_and_does_not_spoil_the_next_one) {
  const auto writes = [&] {
    AuditLog log(path_);
    signal(SIGXFSZ, SIG_IGN);
    const rlimit little{20, RLIM_INFINITY};
    const rlimit plenty{RLIM_INFINITY, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &little);
    bool failed = false;
    try {
      log.write(R"({"number":1})");
    } catch (const StorageError&) {
      failed = true;
    }
    setrlimit(RLIMIT_FSIZE, &plenty);
    log.write(R"({"number":2})");
    std::_Exit(failed ? 0 : 1);
  };
  EXPECT_EXIT(writes(), testing::ExitedWithCode(0), "");
  ASSERT_EQ(lines_of(path_).size(), 2U);
  EXPECT_TRUE(lines_of(path_)[1].ends_with("\"number\":2}"));
}

}  // namespace
}  // namespace speed
