#include "message/trail.hpp"

#include <algorithm>

#include "wire/value/json.hpp"

namespace speed::message {

namespace {

using Told = std::vector<std::pair<std::string_view, std::string>>;

constexpr std::size_t max_text = 128;
constexpr std::size_t max_algorithm = 64;

// So many characters, none of them halved.
std::string cut(std::string_view text, std::size_t most) {
  const auto is_first = [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; };
  std::size_t characters = 0;
  const auto* const end = std::ranges::find_if(text, [&](char byte) { return is_first(byte) && ++characters > most; });
  return {text.begin(), end};
}

void tell(Told& told, std::string_view name, std::string_view text) {
  if (!text.empty()) told.emplace_back(name, cut(text, max_text));
}

void add(std::string& list, std::string_view text) {
  if (!list.empty()) list += ',';
  list += text;
}

std::string ids_of(const std::vector<MessageKey>& keys) {
  std::string ids;
  for (const MessageKey& key : keys) add(ids, key.id());
  return ids;
}

// Each name once, as they come.
std::string algorithms_of(const std::vector<MessageKey>& keys) {
  std::vector<std::string_view> names;
  std::string list;
  for (const MessageKey& key : keys) {
    if (std::ranges::find(names, key.algorithm()) != names.end()) continue;
    names.push_back(key.algorithm());
    add(list, key.algorithm());
  }
  return list;
}

}  // namespace

Trail::Trail(AuditLog* log, const wire::MessageFields& fields, std::string_view classification)
    : log_(log), refuses_("send"), message_id_(fields.message_id) {
  if (log_ == nullptr) return;
  tell(told_, "source", fields.publisher_id.value_or(""));
  tell(told_, "topic", fields.topic);
  tell(told_, "namespace", fields.name_space);
  tell(told_, "classification", classification);
}

Trail::Trail(AuditLog* log, const wire::MessageView& view, std::string_view source, std::string_view reader)
    : log_(log), refuses_("receive"), message_id_(view.message_id()), contains_pii_(view.security().contains_pii) {
  if (log_ == nullptr) return;
  const wire::Schema& schema = view.schema();
  tell(told_, "source", source);
  tell(told_, "reader", reader);
  tell(told_, "topic", view.topic());
  tell(told_, "namespace", view.name_space());
  tell(told_, "publisher", view.publisher_id().value_or(""));
  tell(told_, "classification", view.security().data_classification);
  if (!schema.name.empty()) tell(told_, "schema", std::string(schema.name) + "/" + std::string(schema.version));
  tell(told_, "trace", view.traceparent().value_or(""));
}

void Trail::begins(std::string_view operation, std::string algorithm, std::string key_id) {
  operation_ = operation;
  algorithm_ = std::move(algorithm);
  key_id_ = std::move(key_id);
}

void Trail::begins_sending(const std::vector<MessageKey>& readers, const std::optional<MessageKey>& signer) {
  if (log_ == nullptr) return;
  std::vector<MessageKey> keys = readers;
  if (signer) keys.push_back(*signer);
  begins(refuses_, algorithms_of(keys), ids_of(keys));
}

void Trail::begins_verifying(const wire::Security& said) {
  if (log_ == nullptr) return;
  begins("verify", std::string(said.signature_algorithm), std::string(said.signature_key_id));
}

// Of a message that is only compressed, there is neither.
void Trail::begins_opening(const wire::Security& said) {
  if (log_ == nullptr) return;
  if (!said.encryption) return begins("decrypt", {}, {});
  std::string ids;
  for (const wire::Recipient& one : said.encryption->recipients) add(ids, one.key_id);
  if (ids.empty()) ids = said.encryption->key_id;
  begins("decrypt", std::string(said.encryption->algorithm), std::move(ids));
}

void Trail::ends() { begins(refuses_, {}, {}); }

void Trail::sent(const std::vector<MessageKey>& readers, const std::optional<MessageKey>& signer) {
  if (log_ == nullptr) return;
  if (!readers.empty()) write("encrypt", "ok", readers[0].algorithm(), ids_of(readers));
  if (signer) write("sign", "ok", signer->algorithm(), signer->id());
}

void Trail::done(const std::string& key_id) {
  write(operation_, "ok", algorithm_, key_id);
  ends();
}

void Trail::accessed(bool contains_pii) {
  contains_pii_ |= contains_pii;
  write("access", "ok", {}, {});
}

void Trail::refused(std::string_view code) { write(operation_, code, algorithm_, key_id_); }

void Trail::write(std::string_view operation, std::string_view outcome, std::string_view algorithm,
                  std::string_view key_id) {
  if (log_ == nullptr) return;
  wire::Json line{{"operation", operation},
                  {"outcome", outcome},
                  {"algorithm", cut(algorithm, max_algorithm)},
                  {"key_id", cut(key_id, max_text)},
                  {"message_id", cut(message_id_, max_text)}};
  for (const auto& [name, text] : told_) line[std::string(name)] = text;
  if (contains_pii_) line["contains_pii"] = true;
  log_->write(line.dump(-1, ' ', true, wire::Json::error_handler_t::replace));
}

}  // namespace speed::message
