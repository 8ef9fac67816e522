// Who may take a name: the vectors, with real claims and entries of processes that live or are gone.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "fs/clock.hpp"
#include "fs/registry/claim.hpp"
#include "one_lane.hpp"
#include "speed/error.hpp"
#include "vectors.hpp"
#include "wire/envelope/entry.hpp"

namespace speed::fs {
namespace {

using test::Json;

constexpr const char* the_claimed = "billing";

class ClaimVectors : public testing::Test {
 protected:
  // A root in the state of a case.
  struct Laid {
    Laid(const wire::Keyring& ring, const Json& item) : registry(root.path, ring) {
      registry.prepare();
      for (const Json& made : item.at("claims")) lay_claim(made);
      if (!item.at("entry").is_null()) lay_entry(item.at("entry"));
      if (item.contains("floor")) raise_floor(root.path, the_claimed, item.at("floor"), ring);
      if (item.contains("lane")) lay_lane(item.at("lane").at("cursor"));
      for (const Json& file : item.value("left", Json::array())) {
        const std::filesystem::path path = root.path + "/" + file.get<std::string>();
        std::filesystem::create_directories(path.parent_path());
        test::put(path, "");
      }
    }

    void lay_lane(const Json& cursor) const {
      const std::string lane = wire::lane_dir(root.path, "analytics", the_claimed);
      Inbox::prepare(root.path, "analytics");
      std::filesystem::create_directory(lane);
      if (!cursor.is_null())
        test::put(lane + "/" + wire::cursor_name(1), std::string(wire::text(test::bytes_of(cursor))));
    }

    Identity maker(const std::string& kind) const {
      Identity maker = registry.observer();
      if (kind == "gone") maker.pid_start = 1;
      if (kind == "unseen") maker.pid_namespace = "pid:[1]";
      if (kind == "elsewhere") maker.boot_id = "another boot";
      return maker;
    }

    Claimant claimant(const Json& made) const {
      Claimant claimant{.identity = maker(made.at("maker")), .lease_ms = made.at("lease_ms")};
      if (!made.at("age_ms").is_null()) claimant.made_ms = monotonic_ms() - made.at("age_ms").get<std::int64_t>();
      if (!made.at("above").is_null()) claimant.above = made.at("above").get<std::uint32_t>();
      claimant.ephemeral = made.at("ephemeral");
      claimant.sweeps = made.at("sweeps");
      return claimant;
    }

    void lay_claim(const Json& made) const {
      const std::string path = wire::claim_path(root.path, the_claimed, made.at("generation").get<std::uint32_t>());
      const wire::Key key = registry.keyring().registry_keys().front();
      test::put(path, made.at("maker").is_null() ? std::string() : encode_claim(claimant(made), key));
      if (made.value("read_only", false)) chmod(path.c_str(), 0400);
    }

    void lay_entry(const Json& made) const {
      const Identity owner = maker(made.at("maker"));
      wire::Entry entry;
      entry.name = the_claimed;
      entry.generation = made.at("generation");
      entry.pid = owner.pid;
      entry.pid_start = owner.pid_start;
      entry.pid_namespace = owner.pid_namespace;
      entry.host = owner.host;
      entry.boot_id = owner.boot_id;
      entry.heartbeat_monotonic_ms = monotonic_ms() - made.at("age_ms").get<std::int64_t>();
      entry.lease = made.at("lease_ms");
      entry.heartbeat_interval = std::max<std::int64_t>(1, entry.lease / 6);
      entry.status = made.at("status");
      const wire::Keyring foreign({wire::Key{}});
      const wire::Keyring& ring = made.at("key") == "ours" ? registry.keyring() : foreign;
      test::put(wire::entry_path(root.path, the_claimed), wire::encode_entry(entry, ring.registry_keys().front()));
    }

    Won start(bool waits) {
      return win(registry, the_claimed, {.identity = registry.observer(), .lease_ms = 30'000}, {.allowed = waits});
    }

    test::TestRoot root;
    Registry registry;
  };

  static Json said(const Claimant& claimant) {
    const Identity& maker = claimant.identity;
    Json said{{"pid", maker.pid},   {"pid_start", maker.pid_start}, {"pid_namespace", maker.pid_namespace},
              {"host", maker.host}, {"boot_id", maker.boot_id},     {"lease", claimant.lease_ms}};
    said["made_monotonic_ms"] = claimant.made_ms ? Json(*claimant.made_ms) : Json();
    said["above"] = claimant.above ? Json(*claimant.above) : Json();
    said["ephemeral"] = claimant.ephemeral;
    said["sweeps"] = claimant.sweeps;
    return said;
  }

  wire::Keyring ring_{{test::block_of<32>(test::vectors("claims").at("key"))}};
};

TEST_F(ClaimVectors, a_claim_says_what_the_contract_says_r_4) {
  const wire::Keyring accepted(test::keys_of(test::vectors("claims").at("accepted_keys")));
  for (const Json& item : test::cases("claims", "files")) {
    const Bytes data = test::bytes_of(item.at("hex"));
    const std::optional<Claimant> read = decode_claim(wire::text(data), accepted.registry_keys());
    EXPECT_EQ(read ? said(*read) : Json(), item.at("claim")) << test::what(item);
  }
}

TEST_F(ClaimVectors, a_name_is_free_held_or_waited_for_r_5) {
  for (const Json& item : test::cases("claims", "states")) {
    SCOPED_TRACE(test::what(item));
    Laid laid(ring_, item);
    if (item.at("verdict") == "free") {
      const Won won = laid.start(false);
      EXPECT_EQ(Json(won.generation), item.at("generation"));
      EXPECT_EQ(Json(won.claimant.above.value()), item.at("above"));
      continue;
    }
    EXPECT_THROW(laid.start(false), NameTakenError);
    if (item.at("verdict") == "held") {
      EXPECT_THROW(laid.start(true), NameTakenError);
    } else if (!item.at("wait_ms").is_null()) {
      const std::int64_t began = monotonic_ms();
      EXPECT_EQ(Json(laid.start(true).generation), item.at("generation"));
      EXPECT_GE(monotonic_ms() - began, item.at("wait_ms").get<std::int64_t>());
    }
  }
}

}  // namespace
}  // namespace speed::fs
