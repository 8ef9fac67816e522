// Schemas that the program brings: what is asked of them, and what harms nobody (M-28, M-29, M-31).
#include <gtest/gtest.h>

#include <system_error>

#include "audited.hpp"

namespace speed::message {
namespace {

using test::Audited;
using Told = std::vector<std::string>;

constexpr std::string_view schema_hash = "sha256:0f";

wire::MessageFields naming(const std::string& name, const std::string& version, std::string_view hash = schema_hash) {
  wire::MessageFields fields = Audited::fields();
  fields.schema = wire::SchemaFields();
  fields.schema->name = name;
  fields.schema->version = version;
  fields.schema->hash = hash;
  return fields;
}

wire::MessageFields order_v1() { return naming("order", "v1"); }

PayloadSchema fitting() {
  return {std::string(schema_hash), false, [](std::string_view, ByteView) { return std::vector<std::string>(); }};
}

PayloadSchema marking() {
  PayloadSchema schema = fitting();
  schema.marks_personal_data = true;
  return schema;
}

template <class Error>
PayloadSchema failing(const Error& error) {
  PayloadSchema schema = fitting();
  schema.check = [error](std::string_view, ByteView) -> std::vector<std::string> { throw error; };
  return schema;
}

// All of them, under the name and version of order_v1.
Schemas having(const PayloadSchema& schema) {
  return [schema](std::string_view name, std::string_view version) {
    return name == "order" && version == "v1" ? std::optional(schema) : std::nullopt;
  };
}

// What is refused, in the words of the refusal.
std::string misfit(const auto& attempt) {
  try {
    attempt();
    return "OK";
  } catch (const SchemaError& error) {
    return error.what();
  }
}

// --- what is received ---

TEST(Schemas, a_payload_that_fits_is_handed_out_m_29) {
  Audited reader;
  reader.security.schemas = having(fitting());
  EXPECT_EQ(misfit([&] { reader.opened(Audited().quietly({}, order_v1())); }), "OK");
}

TEST(Schemas, a_payload_that_does_not_fit_is_refused_with_what_the_check_said_m_29) {
  Audited reader;
  reader.security.schemas = having(failing(SchemaError("amount: is missing")));
  EXPECT_EQ(misfit([&] { reader.opened(Audited().quietly({}, order_v1())); }), "amount: is missing");
}

TEST(Schemas, another_hash_is_refused_before_the_payload_is_opened_m_25_m_29) {
  const MessageKey key = MessageKey::generate("k", "chacha20-poly1305");
  Protection asked;
  asked.encrypt_to = {"k"};
  Audited reader({key});
  const wire::MessageView view = reader.quietly(asked, naming("order", "v1", "sha256:another"));
  reader.security.schemas = having(fitting());
  EXPECT_EQ(misfit([&] { reader.opened(view); }), "schema_hash: is not that of 'order' of version 'v1' here");
  EXPECT_EQ(reader.told(), Told{"receive BAD_SCHEMA"});
}

TEST(Schemas, a_message_that_says_no_hash_is_refused_where_the_schema_is_m_29) {
  Audited reader;
  reader.security.schemas = having(fitting());
  EXPECT_THROW(reader.opened(Audited().quietly({}, naming("order", "v1", ""))), SchemaError);
}

TEST(Schemas, a_schema_that_is_not_here_holds_nothing_m_29) {
  Audited reader;
  reader.security.schemas = having(failing(SchemaError("amount: is missing")));
  EXPECT_NO_THROW(reader.opened(Audited().quietly({}, naming("order", "v2"))));
}

TEST(Schemas, nobody_is_asked_for_a_message_that_names_none_m_29) {
  Audited reader;
  reader.security.schemas = [](std::string_view, std::string_view) -> std::optional<PayloadSchema> {
    throw SchemaError("asked");
  };
  for (const wire::MessageFields& fields : {Audited::fields(), naming("order", ""), naming("", "v1")}) {
    EXPECT_NO_THROW(reader.opened(Audited().quietly({}, fields)));
  }
}

TEST(Schemas, nobody_is_asked_for_names_that_could_lead_elsewhere_m_29) {
  Audited reader;
  bool asked = false;
  reader.security.schemas = [&](std::string_view, std::string_view) {
    asked = true;
    return std::optional<PayloadSchema>();
  };
  for (const std::string& name : {std::string("../etc"), std::string("a/b"), std::string("a..b"), std::string("-a"),
                                  std::string("a\nb"), std::string(129, 'a')}) {
    EXPECT_THROW(reader.opened(Audited().quietly({}, naming(name, "v1"))), SchemaError) << name;
    EXPECT_THROW(reader.opened(Audited().quietly({}, naming("order", name))), SchemaError) << name;
  }
  EXPECT_FALSE(asked);
}

TEST(Schemas, the_check_sees_the_payload_decrypted_and_decompressed_m_25_m_29) {
  Audited both({MessageKey::generate("k", "chacha20-poly1305")});
  Protection asked;
  asked.encrypt_to = {"k"};
  asked.compression = "zstd";
  PayloadSchema schema = fitting();
  std::string seen;
  schema.check = [&](std::string_view content_type, ByteView payload) {
    seen = std::string(content_type) + " " + std::string(wire::text(payload));
    return std::vector<std::string>();
  };
  const wire::MessageView view = both.quietly(asked, order_v1());
  both.security.schemas = having(schema);
  both.opened(view);
  EXPECT_TRUE(seen.starts_with("application/msgpack ")) << seen;
  EXPECT_NE(seen.find("4111-1111"), std::string::npos);
}

TEST(Schemas, what_is_in_an_encoding_that_is_not_read_here_does_not_fit_m_29) {
  Audited reader;
  reader.security.schemas = having(fitting());
  wire::MessageFields fields = order_v1();
  fields.content_encoding = 5;  // deflate
  fields.uncompressed_bytes = 20;
  EXPECT_NE(misfit([&] { reader.opened(Audited().quietly({}, fields)); }).find("content_encoding"), std::string::npos);
}

TEST(Schemas, one_that_marks_personal_data_makes_the_message_one_with_it_m_29_m_31) {
  Audited reader;
  reader.security.schemas = having(marking());
  EXPECT_TRUE(reader.opened(Audited().quietly({}, order_v1())).marks_personal_data);
  EXPECT_EQ(reader.told(), Told{"access ok"});
  EXPECT_EQ(reader.lines()[0]["contains_pii"], true);
}

TEST(Schemas, a_refusal_is_told_to_the_audit_m_31) {
  Audited reader;
  reader.security.schemas = having(failing(SchemaError("amount: is missing")));
  EXPECT_THROW(reader.opened(Audited().quietly({}, order_v1())), SchemaError);
  EXPECT_EQ(reader.told(), Told{"receive BAD_SCHEMA"});
  EXPECT_EQ(reader.lines()[0]["schema"], "order/v1");
}

TEST(Schemas, whatever_a_check_throws_is_a_misfit_whose_text_is_not_told_m_26_m_29) {
  Audited reader;
  const std::vector<PayloadSchema> checks{failing(std::runtime_error("4111-1111")),
                                          failing(std::system_error(EIO, std::generic_category())), failing(7),
                                          PayloadSchema{std::string(schema_hash), false, {}}};
  for (const PayloadSchema& schema : checks) {
    reader.security.schemas = having(schema);
    EXPECT_EQ(misfit([&] { reader.opened(Audited().quietly({}, order_v1())); }), "the payload could not be checked");
  }
}

TEST(Schemas, whatever_else_a_lookup_throws_refuses_the_message_m_29) {
  Audited reader;
  const auto throwing = [](const auto& what) {
    return [what](std::string_view, std::string_view) -> std::optional<PayloadSchema> { throw what; };
  };
  for (const Schemas& schemas : {Schemas(throwing(std::runtime_error("secret"))), Schemas(throwing(7))}) {
    reader.security.schemas = schemas;
    EXPECT_EQ(misfit([&] { reader.opened(Audited().quietly({}, order_v1())); }),
              "schema 'order' of version 'v1' could not be looked up");
  }
}

TEST(Schemas, a_message_whose_schema_cannot_be_reached_is_not_refused_m_31) {
  Audited reader;
  reader.security.schemas = [](std::string_view, std::string_view) -> std::optional<PayloadSchema> {
    throw std::system_error(ETIMEDOUT, std::generic_category());
  };
  EXPECT_THROW(reader.opened(Audited().quietly({}, order_v1())), SchemasAway);
  EXPECT_EQ(reader.told(), Told());
}

// --- what is sent ---

TEST(Schemas, a_payload_that_does_not_fit_is_not_written_m_29) {
  Audited writer;
  writer.security.schemas = having(failing(SchemaError("amount: is missing")));
  EXPECT_EQ(misfit([&] { writer.written({}, order_v1()); }), "amount: is missing");
  EXPECT_EQ(writer.told(), Told{"send BAD_SCHEMA"});
}

TEST(Schemas, hash_deprecated_fields_and_personal_data_come_from_the_schema_m_29) {
  Audited writer;
  PayloadSchema schema = marking();
  schema.check = [](std::string_view, ByteView) { return std::vector<std::string>{"card", "items.*.sum"}; };
  writer.security.schemas = having(schema);
  const wire::MessageView view = writer.written({}, naming("order", "v1", "sha256:another"));
  EXPECT_EQ(view.schema().hash, schema_hash);
  EXPECT_TRUE(view.security().contains_pii);
  EXPECT_NE(wire::text(view.bytes()).find("items.*.sum"), std::string_view::npos);
}

TEST(Schemas, one_that_cannot_be_reached_keeps_back_what_was_to_be_written_m_29) {
  Audited writer;
  writer.security.schemas = [](std::string_view, std::string_view) -> std::optional<PayloadSchema> {
    throw std::system_error(ETIMEDOUT, std::generic_category());
  };
  EXPECT_NE(misfit([&] { writer.written({}, order_v1()); }).find("cannot be reached"), std::string::npos);
}

TEST(Schemas, a_reference_to_one_that_is_not_among_those_here_is_not_written_m_29) {
  Audited writer;
  writer.security.schemas = having(fitting());
  const auto written = [&](const wire::MessageFields& fields) { return misfit([&] { writer.written({}, fields); }); };
  EXPECT_EQ(written(naming("stock", "v7")), "there is no schema 'stock' of version 'v7' here");
  EXPECT_EQ(written(naming("order", "v2")), "there is no schema 'order' of version 'v2' here");
  EXPECT_EQ(written(naming("stock", "")), "OK");
}

TEST(Schemas, a_reference_is_written_as_it_is_where_there_are_no_schemas_m_29) {
  const Audited writer;
  wire::MessageFields fields = naming("stock", "v7", "sha256:77");
  fields.schema->url = "https://schemas.example/stock";
  fields.schema->format = "avro";
  fields.schema->compatibility_mode = "full";
  const wire::MessageView view = writer.written({}, fields);
  const wire::Schema& said = view.schema();
  EXPECT_EQ(said.name, "stock");
  EXPECT_EQ(said.version, "v7");
  EXPECT_EQ(said.hash, "sha256:77");
  EXPECT_EQ(said.url, "https://schemas.example/stock");
  EXPECT_EQ(said.format, "avro");
  EXPECT_EQ(said.compatibility_mode, "full");
}

}  // namespace
}  // namespace speed::message
