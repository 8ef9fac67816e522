// Keys of OpenSSL, and what it does with them, freed by their owner.
#pragma once

#include <openssl/evp.h>

#include <memory>

namespace speed::message::openssl {

struct FreeKey {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
struct FreeContext {
  void operator()(EVP_PKEY_CTX* context) const { EVP_PKEY_CTX_free(context); }
};
using Key = std::unique_ptr<EVP_PKEY, FreeKey>;
using KeyContext = std::unique_ptr<EVP_PKEY_CTX, FreeContext>;

}  // namespace speed::message::openssl
