/*
 * command_token.c - `holdfast token`: a bearer token for scripts and first steps.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "commands.h"
#include "holdfast/token.h"

#define TTL_MAX_S (10LL * 365 * 86400)

struct token_words {
    const char *org, *user, *role, *ttl, *kid;
};

static int
complain(const char *what, const char *value)
{
    return command_complain("token", what, value);
}

static bool
read_words(int argc, char **argv, struct token_words *words)
{
    static const struct option options[] = {
        { "org", required_argument, NULL, 'o' },  { "user", required_argument, NULL, 'u' },
        { "role", required_argument, NULL, 'r' }, { "ttl", required_argument, NULL, 't' },
        { "kid", required_argument, NULL, 'k' },  { NULL, 0, NULL, 0 },
    };
    int option;

    *words = (struct token_words){ .org = "", .user = "", .role = "user", .ttl = "1h", .kid = "" };
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'o':
            words->org = optarg;
            break;
        case 'u':
            words->user = optarg;
            break;
        case 'r':
            words->role = optarg;
            break;
        case 't':
            words->ttl = optarg;
            break;
        case 'k':
            words->kid = optarg;
            break;
        default:
            return false; /* getopt has said what is wrong */
        }
    }
    if (optind < argc) {
        complain("a word that it doesn't take", argv[optind]);
        return false;
    }
    return true;
}

/* "90s", "15m", "1h", "7d"; a bare number means seconds. 0: none of these. */
static int64_t
read_ttl_s(const char *text)
{
    static const struct {
        const char *unit;
        int64_t seconds;
    } units[] = {
        { "", 1 }, { "s", 1 }, { "m", 60 }, { "h", 3600 }, { "d", 86400 },
    };
    size_t digits = strspn(text, "0123456789");

    if (digits == 0 || digits > 10)
        return 0;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(text + digits, units[i].unit) != 0)
            continue;
        int64_t seconds = atoll(text) * units[i].seconds;
        return seconds <= TTL_MAX_S ? seconds : 0;
    }
    return 0;
}

static int
read_claims(const struct token_words *words, struct token_claims *claims)
{
    int64_t ttl_s = read_ttl_s(words->ttl);

    *claims = (struct token_claims){ 0 };
    if (!id_is_valid(slice_of(words->org)))
        return complain("--org is not 1-64 characters of [A-Za-z0-9._-]", words->org);
    if (!id_is_valid(slice_of(words->user)))
        return complain("--user is not 1-64 characters of [A-Za-z0-9._-]", words->user);
    if (!token_role_parse(slice_of(words->role), &claims->role))
        return complain("--role is none of user, agent, admin, service", words->role);
    if (ttl_s == 0)
        return complain("--ttl is no duration of 1s to 3650d", words->ttl);
    snprintf(claims->org, sizeof(claims->org), "%s", words->org);
    snprintf(claims->user, sizeof(claims->user), "%s", words->user);
    claims->exp_unix_s = (int64_t)time(NULL) + ttl_s;
    return EXIT_DONE;
}

/* The secret of `kid` in "kid:secret,kid:secret". */
static bool
find_secret(const char *pairs, const char *kid, struct slice *secret)
{
    size_t kid_len = strlen(kid);

    while (*pairs != '\0') {
        size_t len = strcspn(pairs, ",");
        if (len > kid_len + 1 && strncmp(pairs, kid, kid_len) == 0 && pairs[kid_len] == ':') {
            *secret = (struct slice){ pairs + kid_len + 1, len - kid_len - 1 };
            return true;
        }
        pairs += len + (pairs[len] == ',');
    }
    return false;
}

static bool
mint(const struct config *config, const char *kid, const struct token_claims *claims,
     struct buf *out, char *error, size_t error_bytes)
{
    struct slice secret;

    if (kid[0] == '\0')
        return token_mint(config, claims, out, error, error_bytes);
    if (!find_secret(config->jwt_secret, kid, &secret)) {
        snprintf(error, error_bytes, "jwt_secret has no key '%s'", kid);
        return false;
    }
    snprintf(error, error_bytes, "the token could not be signed");
    return token_sign_hs256(secret, slice_of(kid), claims, out);
}

int
command_token(const struct config *config, int argc, char **argv)
{
    struct token_words words;
    struct token_claims claims;
    struct buf token = { 0 };
    char error[256];
    int status = EXIT_FAILED;

    if (!read_words(argc, argv, &words) || read_claims(&words, &claims) != EXIT_DONE)
        return EXIT_USAGE;
    if (mint(config, words.kid, &claims, &token, error, sizeof(error))) {
        printf("%s\n", token.data);
        status = EXIT_DONE;
    } else {
        fprintf(stderr, "holdfast token: %s\n", error);
    }
    buf_fini(&token);
    return status;
}
