// Sets of keys, read from files and from the environment (M-26).
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "fabric.hpp"

namespace speed {
namespace {

class KeySet : public testing::Test {
 protected:
  std::string put(const std::string& text, mode_t mode = 0600) const {
    std::ofstream(path_) << text;
    chmod(path_.c_str(), mode);
    return "file://" + path_;
  }

  std::string refusal(const std::string& uri) const {
    try {
      read_key_set(uri);
      return "OK";
    } catch (const Error& error) {
      return std::string(error.code()) + ": " + error.what();
    }
  }

  bool is_refused(const std::string& uri, const std::string& why) const {
    const std::string said = refusal(uri);
    const bool is = said.starts_with("KEY_REFUSED: key set ") && said.find(why) != std::string::npos;
    if (!is) ADD_FAILURE() << said;
    return is;
  }

  std::string list_of(const std::vector<std::string>& records) const {
    std::string list;
    for (const std::string& record : records) list += (list.empty() ? "[" : ",") + record;
    return list + "]";
  }

  test::TestRoot root_;
  const std::string path_ = root_.path + "/keys.json";
  const MessageKey key_ = MessageKey::generate("k-1", "ed25519");
  const MessageKey next_ = MessageKey::generate("k-2", "ed25519");
};

TEST_F(KeySet, one_record_or_a_list_of_them_is_read_m_26) {
  EXPECT_EQ(read_key_set(put(key_.to_json())).at(0).to_json(), key_.to_json());
  const std::vector<MessageKey> both = read_key_set(put(list_of({key_.to_json(), next_.to_json()})));
  ASSERT_EQ(both.size(), 2U);
  EXPECT_EQ(both[1].id(), "k-2");
}

TEST_F(KeySet, a_variable_is_read_m_26) {
  setenv("SPEED_TEST_KEYS", key_.to_json().c_str(), 1);
  EXPECT_EQ(read_key_set("env://SPEED_TEST_KEYS").at(0).id(), "k-1");
  setenv("SPEED_TEST_KEYS", "{", 1);
  EXPECT_TRUE(is_refused("env://SPEED_TEST_KEYS", "env://SPEED_TEST_KEYS: is not JSON"));
  unsetenv("SPEED_TEST_KEYS");
  EXPECT_THROW(read_key_set("env://SPEED_TEST_KEYS"), KeyUnavailableError);
}

TEST_F(KeySet, a_secret_that_others_reach_is_refused_with_what_to_do_m_26) {
  for (const mode_t mode : {0640U, 0604U, 0620U, 0602U, 0610U}) {
    EXPECT_TRUE(is_refused(put(key_.to_json(), mode), "chmod 600 " + path_)) << mode;
  }
}

TEST_F(KeySet, public_parts_may_be_read_by_others_and_not_written_m_26) {
  const std::string shown = key_.public_part().to_json();
  EXPECT_EQ(read_key_set(put(shown, 0644)).size(), 1U);
  EXPECT_TRUE(is_refused(put(shown, 0664), "others may read or write it"));
}

TEST_F(KeySet, a_link_is_refused_m_26) {
  put(key_.to_json());
  std::filesystem::create_symlink(path_, root_.path + "/link");
  EXPECT_TRUE(is_refused("file://" + root_.path + "/link", ""));
}

TEST_F(KeySet, a_directory_and_a_fifo_are_refused_and_not_waited_for_m_26) {
  EXPECT_TRUE(is_refused("file://" + root_.path, "no regular file"));
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_TRUE(is_refused("file://" + path_, "no regular file"));
}

TEST_F(KeySet, a_file_of_another_user_is_refused_m_26) {
  if (geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  const std::string uri = put(key_.to_json());
  ASSERT_EQ(chown(path_.c_str(), 12345, 12345), 0);
  EXPECT_TRUE(is_refused(uri, "no regular file of this user"));
}

TEST_F(KeySet, a_file_that_is_not_there_is_unavailable_m_26) {
  EXPECT_THROW(read_key_set("file://" + path_), KeyUnavailableError);
}

TEST_F(KeySet, a_file_of_more_than_a_mebibyte_is_refused_m_26) {
  EXPECT_TRUE(is_refused(put(std::string((1 << 20) + 1, ' ')), "larger than 1048576 bytes"));
}

TEST_F(KeySet, what_is_no_set_is_refused_m_26) {
  EXPECT_TRUE(is_refused(put("garbage"), "is not JSON"));
  EXPECT_TRUE(is_refused(put("\xff\xfe"), "is not JSON"));
  EXPECT_TRUE(is_refused(put(std::string(100'000, '[')), "is not JSON"));
  for (const char* const text : {"[]", "7", "\"text\"", "[7]", "null"}) {
    EXPECT_TRUE(is_refused(put(text), "is no record nor a list of 1 to 64")) << text;
  }
  EXPECT_TRUE(is_refused(put("{}"), "that is no key id"));
  EXPECT_TRUE(is_refused(put(R"({"id":"k","color":"red"})"), "a key has no field 'color'"));
}

TEST_F(KeySet, a_set_has_at_most_64_keys_each_with_an_id_of_its_own_m_26) {
  std::vector<std::string> records;
  for (int number = 0; number < 64; ++number) {
    records.push_back(MessageKey::generate("k-" + std::to_string(number), "hmac-sha256").to_json());
  }
  EXPECT_EQ(read_key_set(put(list_of(records))).size(), 64U);
  records.push_back(next_.to_json());
  EXPECT_TRUE(is_refused(put(list_of(records)), "is no record nor a list of 1 to 64"));
  EXPECT_TRUE(is_refused(put(list_of({key_.to_json(), key_.to_json()})), "a key id stands there twice"));
}

TEST_F(KeySet, a_weak_algorithm_is_named_m_24_m_26) {
  EXPECT_THROW(read_key_set(put(R"({"id":"k","algorithm":"aes-128-gcm","secret":"AAAA"})")), WeakAlgorithmError);
}

TEST_F(KeySet, letters_of_a_path_may_be_escaped_m_26) {
  put(key_.to_json());
  for (const char* const dot : {"%2E", "%2e"}) {
    std::string uri = "file://" + path_;
    uri.replace(uri.find(".json"), 1, dot);
    EXPECT_EQ(read_key_set(uri).size(), 1U);
  }
}

TEST_F(KeySet, other_providers_are_refused_with_those_that_there_are_m_26) {
  EXPECT_EQ(refusal("vault://secret/orders"), "CONFIGURATION: no key provider for 'vault://'; there are file, env");
}

TEST_F(KeySet, what_is_no_uri_is_refused_and_not_shown_m_26) {
  for (const std::string& uri : {key_.to_json(), std::string(), std::string("/etc/keys.json"), std::string("://x"),
                                 std::string("file:/etc/keys.json")}) {
    const std::string said = refusal(uri);
    EXPECT_TRUE(said.starts_with("CONFIGURATION: where keys are is no URI")) << said;
  }
}

TEST_F(KeySet, a_uri_without_a_place_is_refused_m_26) {
  for (const char* const uri :
       {"file://", "file://host/keys.json", "file://keys.json", "file:///a?b", "file:///a#b", "file:///a%",
        "file:///a%2", "file:///a%zz", "file:///a%00", "env://", "env://A/b", "env://A?b"}) {
    EXPECT_THROW(read_key_set(uri), ConfigurationError) << uri;
  }
}

}  // namespace
}  // namespace speed
