/*
 * token.c - judges bearer tokens: header value, memory, signature, claims, times.
 *
 * What is remembered. A rightly signed token with good claims is kept with them;
 * its times are judged at each use, since they change the answer. A token whose
 * signature was computed and found wrong is kept as a fingerprint. What is cheap
 * to refuse (no token, no key that fits) is refused anew each time.
 */
#include "holdfast/token.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <cjson/cJSON.h>

#include "holdfast/json.h"
#include "holdfast/metrics.h"
#include "jws.h"
#include "token_cache.h"
#include "token_keys.h"

#define UNIX_S_MAX 9007199254740991.0 /* 2^53 - 1: whole as a JSON number */

struct token_verifier {
    struct token_keys keys; /* fixed after start */
    struct token_cache *cache;
};

/* --- roles ------------------------------------------------------------- */

const char *
token_role_word(enum token_role role)
{
    switch (role) {
    case ROLE_USER:
        return "user";
    case ROLE_AGENT:
        return "agent";
    case ROLE_ADMIN:
        return "admin";
    case ROLE_SERVICE:
        return "service";
    }
    return "";
}

bool
token_role_parse(struct slice word, enum token_role *role)
{
    static const enum token_role roles[] = { ROLE_USER, ROLE_AGENT, ROLE_ADMIN, ROLE_SERVICE };

    for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++) {
        if (slice_is(word, token_role_word(roles[i]))) {
            *role = roles[i];
            return true;
        }
    }
    return false;
}

/* --- life -------------------------------------------------------------- */

struct token_verifier *
token_verifier_new(const struct config *config, char *error, size_t error_bytes)
{
    struct token_verifier *verifier = calloc(1, sizeof(*verifier));

    if (verifier == NULL || (verifier->cache = token_cache_new()) == NULL) {
        snprintf(error, error_bytes, "no memory for the table of tokens");
        token_verifier_free(&verifier);
        return NULL;
    }
    if (!token_keys_read(&verifier->keys, config, error, error_bytes))
        token_verifier_free(&verifier);
    return verifier;
}

void
token_verifier_free(struct token_verifier **verifier)
{
    if (*verifier == NULL)
        return;
    token_keys_fini(&(*verifier)->keys);
    token_cache_free(&(*verifier)->cache);
    free(*verifier);
    *verifier = NULL;
}

/* --- claims ------------------------------------------------------------ */

static bool
read_id(const cJSON *claims, const char *name, char id[ID_BYTES_MAX + 1])
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(claims, name));

    if (text == NULL || !id_is_valid(slice_of(text)))
        return false;
    memcpy(id, text, strlen(text) + 1);
    return true;
}

static bool
read_role(const cJSON *claims, enum token_role *role)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(claims, "role");

    *role = ROLE_USER;
    if (item == NULL)
        return true;
    return cJSON_IsString(item) && token_role_parse(slice_of(item->valuestring), role);
}

/* A NumericDate may have a fraction (RFC 7519, 2). */
static bool
is_date(const cJSON *item)
{
    return cJSON_IsNumber(item) && item->valuedouble >= 0 && item->valuedouble <= UNIX_S_MAX;
}

/* Fractions are rounded towards the shorter life. */
static bool
read_times(const cJSON *root, struct token_claims *claims)
{
    const cJSON *exp = cJSON_GetObjectItemCaseSensitive(root, "exp");
    const cJSON *nbf = cJSON_GetObjectItemCaseSensitive(root, "nbf");

    if (!is_date(exp) || (nbf != NULL && !is_date(nbf)))
        return false;
    claims->exp_unix_s = (int64_t)floor(exp->valuedouble);
    claims->nbf_unix_s = nbf != NULL ? (int64_t)ceil(nbf->valuedouble) : 0;
    return true;
}

/* A bound token is a passenger's; one for an agent would bind nobody. */
static bool
read_bounds(const cJSON *root, struct token_claims *claims)
{
    const cJSON *event = cJSON_GetObjectItemCaseSensitive(root, "event");
    const cJSON *checkin = cJSON_GetObjectItemCaseSensitive(root, "checkin");

    claims->has_checkin = checkin != NULL;
    if (event == NULL)
        return checkin == NULL;
    return claims->role == ROLE_USER && read_id(root, "event", claims->event) &&
           (checkin == NULL || (cJSON_IsString(checkin) &&
                                uuid_parse(slice_of(checkin->valuestring), &claims->checkin)));
}

static bool
read_claims(const struct jws *jws, struct token_claims *claims)
{
    struct slice text = { (const char *)jws->payload, jws->payload_len };
    struct json_error error;
    cJSON *root = json_parse(text, &error);
    bool good;

    memset(claims, 0, sizeof(*claims));
    good = cJSON_IsObject(root) && read_id(root, "org", claims->org) &&
           read_id(root, "sub", claims->user) && read_role(root, &claims->role) &&
           read_times(root, claims) && read_bounds(root, claims);
    cJSON_Delete(root);
    return good;
}

static enum hf_status
judge_times(const struct token_claims *claims, int64_t now_unix_s)
{
    if (now_unix_s >= claims->exp_unix_s)
        return HF_TOKEN_EXPIRED;
    return now_unix_s >= claims->nbf_unix_s ? HF_OK : HF_UNAUTHENTICATED;
}

/* --- verifying --------------------------------------------------------- */

/* What follows "Bearer " in any case (RFC 9110, 11.1). False: no such thing, or too much. */
static bool
bearer_token(struct slice authorization, struct slice *token)
{
    const size_t scheme_len = sizeof("Bearer") - 1;

    if (authorization.len <= scheme_len ||
        strncasecmp(authorization.ptr, "Bearer", scheme_len) != 0 ||
        authorization.ptr[scheme_len] != ' ')
        return false;
    token->ptr = authorization.ptr + scheme_len;
    token->len = authorization.len - scheme_len;
    while (token->len > 0 && token->ptr[0] == ' ') {
        token->ptr++;
        token->len--;
    }
    return token->len > 0 && token->len <= TOKEN_BYTES_MAX;
}

/*
 * Tries every key that fits. JWS_FORGED only if each of them said so: what could
 * not be judged with one key may have been signed with it.
 */
static enum jws_verdict
verify_with_keys(const struct token_keys *keys, const struct jws *jws)
{
    int fits = 0, forged = 0;

    for (int i = 0; i < keys->count; i++) {
        enum jws_verdict verdict;

        if (!jws_key_fits(&keys->keys[i], jws))
            continue;
        if (fits++ == 0)
            metric_add(METRIC_TOKENS_VERIFIED_TOTAL, 1);
        verdict = jws_verify(&keys->keys[i], jws);
        if (verdict == JWS_SIGNED)
            return JWS_SIGNED;
        forged += verdict == JWS_FORGED;
    }
    return fits > 0 && forged == fits ? JWS_FORGED : JWS_UNJUDGED;
}

/* The long way, for a token that is not remembered. */
static enum hf_status
verify_new(struct token_verifier *verifier, struct slice token, uint64_t hash, int64_t now_unix_s,
           struct token_claims *claims)
{
    struct jws jws;

    if (!jws_read(token, &jws))
        return HF_UNAUTHENTICATED;
    switch (verify_with_keys(&verifier->keys, &jws)) {
    case JWS_FORGED:
        token_cache_refuse(verifier->cache, hash);
        return HF_UNAUTHENTICATED;
    case JWS_UNJUDGED:
        return HF_UNAUTHENTICATED;
    case JWS_SIGNED:
        break;
    }
    if (!read_claims(&jws, claims))
        return HF_UNAUTHENTICATED;
    token_cache_add(verifier->cache, hash, token, claims, now_unix_s);
    return judge_times(claims, now_unix_s);
}

static enum hf_status
judge(struct token_verifier *verifier, struct slice authorization, int64_t now_unix_s,
      struct token_claims *claims)
{
    struct slice token;
    uint64_t hash;

    if (!bearer_token(authorization, &token))
        return HF_UNAUTHENTICATED;
    hash = hash_seeded(token.ptr, token.len);
    switch (token_cache_find(verifier->cache, hash, token, claims)) {
    case TOKEN_KNOWN:
        metric_add(METRIC_TOKENS_CACHED_TOTAL, 1);
        return judge_times(claims, now_unix_s);
    case TOKEN_REFUSED:
        return HF_UNAUTHENTICATED;
    case TOKEN_NEW:
        break;
    }
    return verify_new(verifier, token, hash, now_unix_s, claims);
}

enum hf_status
token_verify(struct token_verifier *verifier, struct slice authorization, int64_t now_unix_s,
             struct token_claims *claims)
{
    enum hf_status status = judge(verifier, authorization, now_unix_s, claims);

    if (status != HF_OK)
        metric_add(METRIC_TOKENS_REFUSED_TOTAL, 1);
    return status;
}

/* --- signing ----------------------------------------------------------- */

static void
write_header(struct slice kid, struct buf *json)
{
    struct json_writer w;

    json_writer_init(&w, json);
    json_object_begin(&w);
    json_field_text(&w, "alg", SLICE_LITERAL("HS256"));
    json_field_text(&w, "typ", SLICE_LITERAL("JWT"));
    if (kid.len > 0)
        json_field_text(&w, "kid", kid);
    json_object_end(&w);
}

static void
write_claims(const struct token_claims *claims, struct buf *json)
{
    struct json_writer w;

    json_writer_init(&w, json);
    json_object_begin(&w);
    json_field_text(&w, "org", slice_of(claims->org));
    json_field_text(&w, "sub", slice_of(claims->user));
    json_field_text(&w, "role", slice_of(token_role_word(claims->role)));
    json_field_int(&w, "exp", claims->exp_unix_s);
    if (claims->nbf_unix_s != 0)
        json_field_int(&w, "nbf", claims->nbf_unix_s);
    if (claims->event[0] != '\0')
        json_field_text(&w, "event", slice_of(claims->event));
    if (claims->has_checkin)
        json_field_uuid(&w, "checkin", &claims->checkin);
    json_object_end(&w);
}

bool
token_sign_hs256(struct slice secret, struct slice kid, const struct token_claims *claims,
                 struct buf *out)
{
    struct buf json = { 0 }, token = { 0 };
    unsigned char mac[32];
    bool good;

    write_header(kid, &json);
    base64url_append(&token, json.data, json.len);
    buf_append_char(&token, '.');
    good = !json.failed;
    buf_clear(&json);
    write_claims(claims, &json);
    base64url_append(&token, json.data, json.len);
    good = good && !json.failed && !token.failed && jws_hmac(secret, buf_slice(&token), mac);
    if (good) {
        buf_append_char(&token, '.');
        base64url_append(&token, mac, sizeof(mac));
        buf_append_slice(out, buf_slice(&token));
        good = !token.failed && !out->failed;
    }
    buf_fini(&json);
    buf_fini(&token);
    return good;
}

bool
token_mint(const struct config *config, const struct token_claims *claims, struct buf *out,
           char *error, size_t error_bytes)
{
    struct slice kid, secret;

    if (!token_keys_first_secret(config->jwt_secret, &kid, &secret, error, error_bytes))
        return false;
    if (!token_sign_hs256(secret, kid, claims, out)) {
        snprintf(error, error_bytes, "the token could not be signed");
        return false;
    }
    return true;
}
