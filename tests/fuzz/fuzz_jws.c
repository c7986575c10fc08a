/*
 * fuzz_jws.c - tokens, keys and addresses of strangers.
 *
 * The first byte chooses: a compact JWS as it is; a header and a payload that
 * are signed rightly first, so that what is behind the signature is reached; a
 * JSON Web Key; X-Forwarded-For. Beside not crashing: nobody is let in by a
 * token whose signature was not made with the secret.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "address.h"
#include "holdfast/assert.h"
#include "holdfast/json.h"
#include "holdfast/token.h"
#include "jwk.h"
#include "jws.h"

#define SECRET "a secret that the fuzzer can't guess, of more than 32 bytes"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct token_verifier *verifier;
static struct proxy_list *proxies;

static void
start(void)
{
    struct config config;
    char error[256];

    memset(&config, 0, sizeof(config));
    config.jwt_secret = (char *)(uintptr_t)SECRET;
    config.jwt_keys_file = (char *)(uintptr_t) "";
    verifier = token_verifier_new(&config, error, sizeof(error));
    proxies = proxy_list_new("10.0.0.0/8, 2001:db8::/32", error, sizeof(error));
    hf_assert(verifier != NULL && proxies != NULL);
}

static void
fuzz_token(struct slice text)
{
    static struct jws jws;
    struct token_claims claims;
    struct buf header = { 0 };

    if (jws_read(text, &jws))
        hf_assert(jws.payload_len <= sizeof(jws.payload) && jws.signature_len > 0);
    buf_append_text(&header, "Bearer ");
    buf_append_slice(&header, text);
    hf_assert(token_verify(verifier, buf_slice(&header), 0, &claims) != HF_OK);
    buf_fini(&header);
}

/* The text up to the first NUL is the header, what follows the payload. */
static void
fuzz_signed(struct slice text)
{
    const char *nul = text.len > 0 ? memchr(text.ptr, '\0', text.len) : NULL;
    size_t header_len = nul != NULL ? (size_t)(nul - text.ptr) : text.len;
    size_t payload_len = nul != NULL ? text.len - header_len - 1 : 0;
    struct buf token = { 0 };
    unsigned char mac[32];
    struct token_claims claims;

    buf_append_text(&token, "Bearer ");
    base64url_append(&token, text.ptr, header_len);
    buf_append_char(&token, '.');
    base64url_append(&token, text.ptr + text.len - payload_len, payload_len);
    hf_assert(!token.failed && jws_hmac(SLICE_LITERAL(SECRET),
                                        (struct slice){ token.data + 7, token.len - 7 }, mac));
    buf_append_char(&token, '.');
    base64url_append(&token, mac, sizeof(mac));
    if (token_verify(verifier, buf_slice(&token), 1, &claims) == HF_OK) {
        hf_assert(id_is_valid(slice_of(claims.org)) && id_is_valid(slice_of(claims.user)));
        hf_assert(claims.exp_unix_s > 1 && claims.nbf_unix_s <= 1);
    }
    buf_fini(&token);
}

static void
fuzz_jwk(struct slice text)
{
    struct json_error error;
    struct jws_key key;
    const char *reason = NULL;
    cJSON *jwk = json_parse(text, &error);

    if (jwk == NULL)
        return;
    if (jwk_read(jwk, &key, &reason) == JWK_TAKEN)
        jws_key_fini(&key);
    else
        hf_assert(reason != NULL);
    cJSON_Delete(jwk);
}

static void
fuzz_address(struct slice text)
{
    char client[ADDRESS_TEXT_BYTES], error[256];
    struct address address, again;
    struct proxy_list *list;
    char *copy = malloc(text.len + 1);

    client_address(proxies, "10.0.0.1", text, client);
    hf_assert(address_parse(slice_of(client), &address));
    if (address_parse(text, &address)) {
        address_format(&address, client);
        hf_assert(address_parse(slice_of(client), &again));
        hf_assert(memcmp(&address, &again, sizeof(address)) == 0);
    }
    hf_assert(copy != NULL);
    memcpy(copy, text.ptr, text.len);
    copy[text.len] = '\0';
    list = proxy_list_new(copy, error, sizeof(error));
    proxy_list_free(&list);
    free(copy);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice text;

    if (verifier == NULL)
        start();
    if (size == 0)
        return 0;
    text = (struct slice){ (const char *)data + 1, size - 1 };
    switch (data[0] & 3) {
    case 0:
        fuzz_token(text);
        break;
    case 1:
        fuzz_signed(text);
        break;
    case 2:
        fuzz_jwk(text);
        break;
    default:
        fuzz_address(text);
    }
    return 0;
}
