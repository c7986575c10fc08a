/* Bytes in, requests or refusals out, without a socket. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "holdfast/ids.h"
#include "outbox.h"
#include "parser.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define HEADER_MAX   1024
#define URI_MAX      256
#define BODY_MAX     4096

static size_t
body_max(void *context, enum http_method method, struct slice path)
{
    (void)context;
    (void)method;
    assert_true(path.len > 0);
    return slice_is(path, "/tiny") ? 4 : BODY_MAX;
}

static const struct http_handler handler = { .body_max = body_max };
static const struct parser_rules rules = { HEADER_MAX, URI_MAX, &handler };

/* What came of some bytes: the requests in order, then a refusal or hunger. */
struct outcome {
    struct exchange *requests[8];
    size_t count;
    enum parser_event last;
    enum hf_status refusal;
    const char *detail;
    size_t used;
    bool wanted_continue;
};

struct bench {
    struct memory_budget budget;
    struct outbox outbox;
    struct exchange_pool pool;
    struct outcome outcome;
};

static struct bench bench;

static void
bench_clear(void)
{
    for (size_t i = 0; i < bench.outcome.count; i++)
        exchange_put(&bench.pool, bench.outcome.requests[i]);
    bench.outcome = (struct outcome){ 0 };
    assert_int_equal(bench.budget.used, 0);
    assert_int_equal(bench.pool.live, 0);
}

/* Feeds in pieces of `step` bytes; each piece lies in memory of its own, for ASan. */
static struct outcome *
feed_steps(const char *bytes, size_t len, size_t step)
{
    struct parser parser;
    struct outcome *outcome = &bench.outcome;
    struct exchange *exchange = NULL;

    bench_clear();
    parser_init(&parser, &rules);
    outcome->last = PARSER_MORE;
    while (outcome->used < len && outcome->last != PARSER_REFUSED) {
        size_t piece = len - outcome->used < step ? len - outcome->used : step;
        char *copy = malloc(piece);
        assert_non_null(copy);
        memcpy(copy, bytes + outcome->used, piece);
        size_t at = 0;
        while (at < piece && outcome->last != PARSER_REFUSED) {
            if (exchange == NULL) {
                exchange = exchange_get(&bench.pool);
                assert_non_null(exchange);
                parser_begin(&parser, exchange);
            }
            at += parser_feed(&parser, copy + at, piece - at, &outcome->last);
            outcome->wanted_continue |= parser.head_done && parser.wants_continue;
            if (outcome->last == PARSER_REQUEST) {
                assert_true(outcome->count < COUNT(outcome->requests));
                outcome->requests[outcome->count++] = exchange;
                exchange = NULL;
            }
        }
        outcome->used += at;
        free(copy);
    }
    if (outcome->last == PARSER_REFUSED) {
        outcome->refusal = parser.refusal;
        outcome->detail = parser.detail;
        assert_non_null(parser.detail);
        assert_true(exchange->public.request.request_id[0] != '\0');
    }
    if (exchange != NULL)
        exchange_put(&bench.pool, exchange);
    return outcome;
}

static struct outcome *
feed(const char *text)
{
    return feed_steps(text, strlen(text), SIZE_MAX);
}

static struct http_request *
only_request(struct outcome *outcome)
{
    if (outcome->last == PARSER_REFUSED)
        fail_msg("refused: %s", outcome->detail);
    assert_int_equal(outcome->last, PARSER_REQUEST);
    assert_int_equal(outcome->count, 1);
    return &outcome->requests[0]->public.request;
}

#define assert_slice(slice_, text_)                                                                \
    do {                                                                                           \
        struct slice got_ = (slice_);                                                              \
        if (!slice_is(got_, text_))                                                                \
            fail_msg("'%.*s' is not '%s'", SLICE_ARG(got_), text_);                                \
    } while (0)

/* Refused in every cut of the bytes, with the same status. */
static void
assert_refused(const char *text, size_t len, enum hf_status status)
{
    for (size_t step = 1; step <= len; step = step < 64 ? step + 1 : step * 2) {
        struct outcome *outcome = feed_steps(text, len, step);
        if (outcome->last != PARSER_REFUSED || outcome->refusal != status)
            fail_msg("in pieces of %zu: %s instead of %s: %.60s", step,
                     outcome->last == PARSER_REFUSED ? status_code(outcome->refusal) : "accepted",
                     status_code(status), text);
    }
}

static void
a_request_has_its_parts_in_any_pieces(void **state)
{
    static const char text[] = "POST /api/holds?x=1&y=2 HTTP/1.1\r\n"
                               "HOST: example.org:8080\r\n"
                               "authorization: Bearer a.b.c\r\n"
                               "Content-Type:  application/json \t\r\n"
                               "Idempotency-Key: \"k1\"\r\n"
                               "Traceparent: 00-1-2-01\r\n"
                               "If-None-Match: W/\"e-1\"\r\n"
                               "Accept-Encoding: gzip, br\r\n"
                               "X-Forwarded-For: 10.0.0.1\r\n"
                               "User-Agent: test\r\n"
                               "Last-Event-ID: 7\r\n"
                               "X-Api-Key: key\r\n"
                               "Holdfast-Signature: t=1,v1=ab\r\n"
                               "X-Request-Id: my.id-1\r\n"
                               "X-Unknown: is left alone\r\n"
                               "Content-Length: 11\r\n\r\n"
                               "hello world";
    (void)state;
    for (size_t step = 1; step < sizeof(text); step++) {
        struct outcome *outcome = feed_steps(text, sizeof(text) - 1, step);
        struct http_request *request = only_request(outcome);
        assert_int_equal(request->method, HTTP_METHOD_POST);
        assert_slice(request->target, "/api/holds?x=1&y=2");
        assert_slice(request->path, "/api/holds");
        assert_slice(request->query, "x=1&y=2");
        assert_slice(request->body, "hello world");
        assert_slice(request->authorization, "Bearer a.b.c");
        assert_slice(request->content_type, "application/json");
        assert_slice(request->idempotency_key, "\"k1\"");
        assert_slice(request->traceparent, "00-1-2-01");
        assert_slice(request->if_none_match, "W/\"e-1\"");
        assert_slice(request->accept_encoding, "gzip, br");
        assert_slice(request->forwarded_for, "10.0.0.1");
        assert_slice(request->user_agent, "test");
        assert_slice(request->last_event_id, "7");
        assert_slice(request->api_key, "key");
        assert_slice(request->signature, "t=1,v1=ab");
        assert_string_equal(request->request_id, "my.id-1");
        assert_true(outcome->requests[0]->keep_alive);
    }
}

static void
pipelined_requests_are_cut_apart_in_any_pieces(void **state)
{
    static const char text[] =
        "GET /1 HTTP/1.1\r\nHost: a\r\n\r\n"
        "POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"
        "\r\nPUT /3 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        "2\r\nab\r\n3;x=\"y z\"\r\ncde\r\n0\r\nTrailer: t\r\n\r\n"
        "POST /4 HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"
        "HEAD /5 HTTP/1.0\r\n\r\n";
    (void)state;
    for (size_t step = 1; step < sizeof(text); step++) {
        struct outcome *outcome = feed_steps(text, sizeof(text) - 1, step);
        if (outcome->last == PARSER_REFUSED)
            fail_msg("in pieces of %zu: %s", step, outcome->detail);
        assert_int_equal(outcome->count, 5);
        static const char *paths[] = { "/1", "/2", "/3", "/4", "/5" };
        static const char *bodies[] = { "", "abc", "abcde", "", "" };
        for (size_t i = 0; i < 5; i++) {
            assert_slice(outcome->requests[i]->public.request.path, paths[i]);
            assert_slice(outcome->requests[i]->public.request.body, bodies[i]);
        }
        assert_true(outcome->requests[4]->head_only);
        assert_false(outcome->requests[4]->keep_alive);
    }
}

static void
a_body_larger_than_the_arena_arrives_whole(void **state)
{
    static char text[8192];
    (void)state;
    for (int chunked = 0; chunked < 2; chunked++) {
        size_t len =
            (size_t)snprintf(text, sizeof(text), "PUT / HTTP/1.1\r\nHost: a\r\n%s\r\n\r\n%s",
                             chunked ? "Transfer-Encoding: chunked" : "Content-Length: 4096",
                             chunked ? "1000\r\n" : "");
        for (size_t i = 0; i < BODY_MAX; i++)
            text[len + i] = (char)('a' + i % 26);
        len += BODY_MAX;
        memcpy(text + len, "\r\n0\r\n\r\n", 8);
        len += chunked ? 7 : 0;
        for (size_t step = 1; step < 6000; step += 97) {
            struct http_request *request = only_request(feed_steps(text, len, step));
            assert_int_equal(request->body.len, BODY_MAX);
            for (size_t i = 0; i < BODY_MAX; i++)
                assert_int_equal(request->body.ptr[i], 'a' + i % 26);
        }
    }
}

static void
llhttp_is_built_strict(void **state)
{
    /* Lax, llhttp takes the CR for the end of a line, and sees a chunked body. */
    static const char text[] = "GET / HTTP/1.1\r\nX: \rTransfer-Encoding: chunked\r\n\r\n";
    static const char chunk[] = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n";
    llhttp_settings_t settings;
    llhttp_t llhttp;
    (void)state;
    llhttp_settings_init(&settings);
    llhttp_init(&llhttp, HTTP_REQUEST, &settings);
    assert_int_not_equal(llhttp_execute(&llhttp, text, sizeof(text) - 1), HPE_OK);
    llhttp_init(&llhttp, HTTP_REQUEST, &settings);
    assert_int_not_equal(llhttp_execute(&llhttp, chunk, sizeof(chunk) - 1), HPE_OK);
}

#define H "Host: a\r\n"
#define REFUSED(literal)                                                                           \
    {                                                                                              \
        literal, sizeof(literal) - 1                                                               \
    }

static void
what_could_smuggle_a_request_is_400(void **state)
{
    static const struct {
        const char *text;
        size_t len;
    } cases[] = {
        /* lines and names */
        REFUSED("GET / HTTP/1.1\r\n" H "X: \rTransfer-Encoding: chunked\r\n\r\n"),
        REFUSED("GET / HTTP/1.1\n" H "\r\n"),
        REFUSED("GET / HTTP/1.1\r\n" H "X: a\r\n b\r\n\r\n"),
        REFUSED("GET / HTTP/1.1\r\n" H ": a\r\n\r\n"),
        REFUSED("GET / HTTP/1.1\r\n" H "Content-Length : 3\r\n\r\nabc"),
        REFUSED("GET / HTTP/1.1\r\n" H "X: a\0b\r\n\r\n"),
        REFUSED("\rGET / HTTP/1.1\r\n" H "\r\n"),
        REFUSED("\nGET / HTTP/1.1\r\n" H "\r\n"),
        /* Host */
        REFUSED("GET / HTTP/1.1\r\n\r\n"),
        REFUSED("GET / HTTP/1.1\r\n" H H "\r\n"),
        REFUSED("GET / HTTP/1.1\r\n" H "Host: b\r\n\r\n"),
        REFUSED("GET / HTTP/1.1\r\nHost: a b\r\n\r\n"),
        REFUSED("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"),
        REFUSED("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n"),
        REFUSED("GET / HTTP/1.0\r\n" H H "\r\n"),
        /* versions and the request line */
        REFUSED("GET /\r\n\r\n"),
        REFUSED("GET / HTTP/0.9\r\n" H "\r\n"),
        REFUSED("GET / HTTP/1.2\r\n" H "\r\n"),
        REFUSED("GET / HTTP/2.0\r\n" H "\r\n"),
        REFUSED("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        REFUSED("GET / http/1.1\r\n" H "\r\n"),
        REFUSED("GET  / HTTP/1.1\r\n" H "\r\n"),
        REFUSED("GET /  HTTP/1.1\r\n" H "\r\n"),
        REFUSED("GET / HTTP/1.1 \r\n" H "\r\n"),
        REFUSED(" GET / HTTP/1.1\r\n" H "\r\n"),
        REFUSED("GET /a b HTTP/1.1\r\n" H "\r\n"),
        REFUSED("GET x HTTP/1.1\r\n" H "\r\n"),
        REFUSED("GET * HTTP/1.1\r\n" H "\r\n"),
        REFUSED("GET /a#b HTTP/1.1\r\n" H "\r\n"),
        REFUSED("GET http:// HTTP/1.1\r\n" H "\r\n"),
        REFUSED("G@T / HTTP/1.1\r\n" H "\r\n"),
        REFUSED("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"), /* a TLS client */
        /* Content-Length */
        REFUSED("POST / HTTP/1.1\r\n" H "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"),
        REFUSED("POST / HTTP/1.1\r\n" H "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc"),
        REFUSED("POST / HTTP/1.1\r\n" H "Content-Length: 3, 3\r\n\r\nabc"),
        REFUSED("POST / HTTP/1.1\r\n" H "Content-Length: +3\r\n\r\nabc"),
        REFUSED("POST / HTTP/1.1\r\n" H "Content-Length: -3\r\n\r\nabc"),
        REFUSED("POST / HTTP/1.1\r\n" H "Content-Length: 0x3\r\n\r\nabc"),
        REFUSED("POST / HTTP/1.1\r\n" H "Content-Length: 3 3\r\n\r\nabc"),
        REFUSED("POST / HTTP/1.1\r\n" H "Content-Length:\r\n\r\n"),
        REFUSED("POST / HTTP/1.1\r\n" H "Content-Length: 99999999999999999999\r\n\r\n"),
        /* Transfer-Encoding */
        REFUSED("POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n"),
        REFUSED("POST / HTTP/1.1\r\n" H "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"),
        REFUSED("POST / HTTP/1.1\r\n" H "Transfer-Encoding: gzip, chunked\r\n\r\n"),
        REFUSED("POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked, identity\r\n\r\n"),
        REFUSED("POST / HTTP/1.1\r\n" H "Transfer-Encoding: identity\r\n\r\n"),
        REFUSED("POST / HTTP/1.1\r\n" H "Transfer-Encoding: xchunked\r\n\r\n"),
        REFUSED("POST / HTTP/1.1\r\n" H "Transfer-Encoding: \"chunked\"\r\n\r\n"),
        REFUSED("POST / HTTP/1.1\r\n" H "Transfer-Encoding:\r\nContent-Length: 3\r\n\r\nabc"),
        REFUSED("POST / HTTP/1.1\r\n" H "Transfer-Encoding: \x0b"
                "chunked\r\n\r\n"),
        REFUSED("POST / HTTP/1.1\r\n" H
                "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"),
        REFUSED("POST / HTTP/1.1\r\n" H
                "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n"),
        REFUSED("POST / HTTP/1.0\r\n" H "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        /* what may come only once */
        REFUSED("GET / HTTP/1.1\r\n" H "Authorization: a\r\nAuthorization: b\r\n\r\n"),
        REFUSED("GET / HTTP/1.1\r\n" H "Idempotency-Key: a\r\nIdempotency-Key: b\r\n\r\n"),
        REFUSED("GET / HTTP/1.1\r\n" H "X-Api-Key: a\r\nX-Api-Key: b\r\n\r\n"),
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_refused(cases[i].text, cases[i].len, HF_BAD_REQUEST);
}

#define CHUNKED "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n"

static void
chunks_that_two_readers_could_read_differently_are_400(void **state)
{
    static const struct {
        const char *text;
        size_t len;
    } cases[] = {
        REFUSED(CHUNKED "3\nabc\r\n0\r\n\r\n"),
        REFUSED(CHUNKED "3\rabc\r\n0\r\n\r\n"),
        REFUSED(CHUNKED "3\r\nabc0\r\n\r\n"),
        REFUSED(CHUNKED "3\r\nabcd\r\n0\r\n\r\n"),
        REFUSED(CHUNKED "3\r\nabc\n0\r\n\r\n"),
        REFUSED(CHUNKED "3\r\nabc\r0\r\n\r\n"),
        REFUSED(CHUNKED "x\r\nabc\r\n0\r\n\r\n"),
        REFUSED(CHUNKED "-3\r\nabc\r\n0\r\n\r\n"),
        REFUSED(CHUNKED "0x3\r\nabc\r\n0\r\n\r\n"),
        REFUSED(CHUNKED " 3\r\nabc\r\n0\r\n\r\n"),
        REFUSED(CHUNKED "\r\nabc\r\n0\r\n\r\n"),
        REFUSED(CHUNKED ";x\r\nabc\r\n0\r\n\r\n"),
        REFUSED(CHUNKED "3;a\nb\r\nabc\r\n0\r\n\r\n"),
        REFUSED(CHUNKED "3;a\0b\r\nabc\r\n0\r\n\r\n"),
        REFUSED(CHUNKED "3;a=\"b\rc\"\r\nabc\r\n0\r\n\r\n"),
        REFUSED(CHUNKED "11111111111111111\r\nabc\r\n0\r\n\r\n"),
        REFUSED(CHUNKED "3\r\nabc\r\n0\r\nA b: c\r\n\r\n"),
        REFUSED(CHUNKED "3\r\nabc\r\n0\r\nA: b\n\r\n"),
        REFUSED(CHUNKED "3\r\nabc\r\n0\r\n fold\r\n\r\n"),
        REFUSED(CHUNKED "3\r\nabc\r\n0\r\nX\r\n"),
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_refused(cases[i].text, cases[i].len, HF_BAD_REQUEST);
}

static void
nothing_in_a_trailer_is_taken_for_a_header(void **state)
{
    struct http_request *request = only_request(feed(
        CHUNKED "1\r\na\r\n0\r\nAuthorization: Bearer x\r\nX-Request-Id: no\r\nHost: b\r\n\r\n"));
    (void)state;
    assert_int_equal(request->authorization.len, 0);
    assert_string_not_equal(request->request_id, "no");
    assert_slice(request->body, "a");
}

static void
a_header_up_to_the_limit_is_taken_one_byte_more_is_431(void **state)
{
    char text[HEADER_MAX + 64];
    (void)state;
    for (int over = 0; over <= 1; over++) {
        size_t target = HEADER_MAX + (size_t)over;
        int start = snprintf(text, sizeof(text), "GET / HTTP/1.1\r\n" H "X: ");
        memset(text + start, 'x', target - (size_t)start - 4);
        memcpy(text + target - 4, "\r\n\r\n", 4);
        if (over == 0)
            only_request(feed_steps(text, target, 50));
        else
            assert_refused(text, target, HF_HEADERS_TOO_LARGE);
    }
    memset(text, 'x', sizeof(text));
    memcpy(text, "GET / HTTP/1.1\r\nX", 17); /* never ends: refused at the limit, not later */
    assert_refused(text, HEADER_MAX + 1, HF_HEADERS_TOO_LARGE);
}

static void
a_target_up_to_the_limit_is_taken_one_byte_more_is_414(void **state)
{
    char text[HEADER_MAX];
    (void)state;
    for (int over = 0; over <= 1; over++) {
        int len =
            snprintf(text, sizeof(text), "GET /%0*d HTTP/1.1\r\n" H "\r\n", URI_MAX - 1 + over, 0);
        if (over == 0)
            only_request(feed_steps(text, (size_t)len, 7));
        else
            assert_refused(text, (size_t)len, HF_URI_TOO_LONG);
    }
    memset(text, 'x', sizeof(text));
    memcpy(text, "GET /", 5); /* never ends: refused long before the header's limit */
    assert_refused(text, URI_MAX + 64, HF_URI_TOO_LONG);
}

static void
a_body_over_the_routes_limit_is_413_before_it_is_read(void **state)
{
    static const char length[] = "POST /tiny HTTP/1.1\r\n" H "Content-Length: 5\r\n\r\n";
    static const char chunks[] = "POST /tiny HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n"
                                 "3\r\nabc\r\n2\r\n";
    static const char huge[] = "POST /tiny HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n"
                               "ffffffffffffffff\r\n";
    (void)state;
    assert_refused(length, sizeof(length) - 1, HF_BODY_TOO_LARGE);
    assert_refused(chunks, sizeof(chunks) - 1, HF_BODY_TOO_LARGE);
    assert_refused(huge, sizeof(huge) - 1, HF_BODY_TOO_LARGE);
    assert_slice(
        only_request(feed("POST /tiny HTTP/1.1\r\n" H "Content-Length: 4\r\n\r\nabcd"))->body,
        "abcd");
    assert_slice(only_request(feed("POST /tiny HTTP/1.1\r\n" H "Transfer-Encoding: Chunked\r\n\r\n"
                                   "2\r\nab\r\n2\r\ncd\r\n0\r\n\r\n"))
                     ->body,
                 "abcd");
}

static void
a_body_without_a_length_is_411(void **state)
{
    static const char *methods[] = { "POST", "PUT", "PATCH" };
    char text[128];
    (void)state;
    for (size_t i = 0; i < COUNT(methods); i++) {
        int len = snprintf(text, sizeof(text), "%s / HTTP/1.1\r\n" H "\r\n", methods[i]);
        assert_refused(text, (size_t)len, HF_LENGTH_REQUIRED);
    }
    only_request(feed("POST / HTTP/1.1\r\n" H "Content-Length: 0\r\n\r\n"));
    only_request(feed("DELETE / HTTP/1.1\r\n" H "\r\n"));
    assert_slice(only_request(feed("DELETE / HTTP/1.1\r\n" H "Content-Length: 2\r\n\r\n{}"))->body,
                 "{}");
}

static void
other_methods_are_405_when_the_line_is_well_formed(void **state)
{
    static const char *methods[] = {
        "TRACE", "CONNECT", "PROPFIND", "BREW", "get", "M-SEARCH", "X"
    };
    char text[128];
    (void)state;
    for (size_t i = 0; i < COUNT(methods); i++) {
        int len = snprintf(text, sizeof(text), "%s / HTTP/1.1\r\n" H "\r\n", methods[i]);
        assert_refused(text, (size_t)len, HF_METHOD_NOT_ALLOWED);
    }
    only_request(feed("OPTIONS * HTTP/1.1\r\n" H "\r\n"));
}

static void
when_memory_is_used_up_a_body_is_503(void **state)
{
    static char text[] = "POST / HTTP/1.1\r\n" H "Content-Length: 4000\r\n\r\n";
    char bytes[sizeof(text) + 4000];
    (void)state;
    memset(bytes, 'x', sizeof(bytes));
    memcpy(bytes, text, sizeof(text) - 1);
    bench_clear();
    bench.budget.max = 1000;
    assert_refused(bytes, sizeof(text) - 1 + 4000, HF_OVERLOADED);
    bench_clear();
    bench.budget.max = SIZE_MAX;
    only_request(feed_steps(bytes, sizeof(text) - 1 + 4000, 1000));
}

static void
floods_of_chunk_extensions_and_trailers_are_refused(void **state)
{
    struct buf text = { 0 };
    (void)state;
    buf_append_text(&text, CHUNKED);
    for (int i = 0; i < 40; i++)
        buf_append_text(&text, "1;extension=that-nobody-reads-0123456789\r\nx\r\n");
    assert_false(text.failed);
    assert_refused(text.data, text.len, HF_HEADERS_TOO_LARGE);
    buf_clear(&text);
    buf_append_text(&text, CHUNKED "0\r\n");
    for (int i = 0; i < 40; i++)
        buf_append_text(&text, "X-Trailer: that-nobody-reads-0123456789\r\n");
    assert_refused(text.data, text.len, HF_HEADERS_TOO_LARGE);
    buf_clear(&text);
    buf_append_text(&text, CHUNKED "1;");
    for (int i = 0; i < 2000; i++)
        buf_append_char(&text, 'x');
    assert_refused(text.data, text.len, HF_BAD_REQUEST);
    buf_fini(&text);
}

static void
several_forwarded_lines_are_one_list(void **state)
{
    struct http_request *request = only_request(feed(
        "GET / HTTP/1.1\r\n" H "X-Forwarded-For: 1.1.1.1\r\nX-Forwarded-For: 2.2.2.2, 3.3.3.3\r\n"
        "X-Forwarded-For: 4.4.4.4\r\n\r\n"));
    (void)state;
    assert_slice(request->forwarded_for, "1.1.1.1, 2.2.2.2, 3.3.3.3, 4.4.4.4");
}

static void
a_request_id_that_is_not_sane_is_replaced(void **state)
{
    static const char *bad[] = {
        "", "a b", "a\"b", "a/b",
        "01234567890123456789012345678901234567890123456789012345678901234"
    };
    char text[256];
    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct uuid uuid;
        snprintf(text, sizeof(text), "GET / HTTP/1.1\r\n" H "X-Request-Id: %s\r\n\r\n", bad[i]);
        struct http_request *request = only_request(feed(text));
        assert_true(uuid_parse(slice_of(request->request_id), &uuid));
        assert_int_equal(uuid.bytes[6] >> 4, 7);
    }
    only_request(feed("GET / HTTP/1.1\r\n" H "X-Request-Id: "
                      "0123456789012345678901234567890123456789012345678901234567890123\r\n\r\n"));
    assert_int_equal(strlen(bench.outcome.requests[0]->public.request.request_id), 64);
}

static void
keep_alive_follows_version_and_connection(void **state)
{
    static const struct {
        const char *text;
        bool keep;
    } cases[] = {
        { "GET / HTTP/1.1\r\n" H "\r\n", true },
        { "GET / HTTP/1.1\r\n" H "Connection: keep-alive\r\n\r\n", true },
        { "GET / HTTP/1.1\r\n" H "Connection: close\r\n\r\n", false },
        { "GET / HTTP/1.1\r\n" H "Connection: foo, Close\r\n\r\n", false },
        { "GET / HTTP/1.0\r\n\r\n", false },
        { "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", true },
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        only_request(feed(cases[i].text));
        assert_int_equal(bench.outcome.requests[0]->keep_alive, cases[i].keep);
    }
}

static void
an_upgrade_is_a_plain_request(void **state)
{
    struct outcome *outcome =
        feed("GET /1 HTTP/1.1\r\n" H "Connection: upgrade\r\nUpgrade: websocket\r\n\r\n"
             "POST /2 HTTP/1.1\r\n" H "Connection: Upgrade, HTTP2-Settings\r\n"
             "Upgrade: h2c\r\nContent-Length: 1\r\n\r\nx"
             "GET /3 HTTP/1.1\r\n" H "\r\n");
    (void)state;
    assert_int_equal(outcome->last, PARSER_REQUEST);
    assert_int_equal(outcome->count, 3);
    assert_slice(outcome->requests[1]->public.request.body, "x");
    assert_slice(outcome->requests[2]->public.request.path, "/3");
}

static void
continue_is_wanted_only_before_a_body_of_http_1_1(void **state)
{
    (void)state;
#define EXPECT "Expect: 100-Continue\r\n"
    assert_true(feed("POST / HTTP/1.1\r\n" H EXPECT "Content-Length: 1\r\n\r\n")->wanted_continue);
    assert_true(
        feed("POST / HTTP/1.1\r\n" H EXPECT "Transfer-Encoding: chunked\r\n\r\n")->wanted_continue);
    assert_false(
        feed("POST / HTTP/1.1\r\n" H EXPECT "Content-Length: 1\r\n\r\nx")->wanted_continue);
    assert_false(feed("POST / HTTP/1.1\r\n" H EXPECT "Content-Length: 0\r\n\r\n")->wanted_continue);
    assert_false(feed("POST / HTTP/1.0\r\n" H EXPECT "Content-Length: 1\r\n\r\n")->wanted_continue);
    assert_false(feed("POST / HTTP/1.1\r\n" H "Content-Length: 1\r\n\r\n")->wanted_continue);
    assert_refused("POST /tiny HTTP/1.1\r\n" H EXPECT "Content-Length: 5\r\n\r\n",
                   sizeof("POST /tiny HTTP/1.1\r\n" H EXPECT "Content-Length: 5\r\n\r\n") - 1,
                   HF_BODY_TOO_LARGE);
}

static void
an_absolute_target_gives_its_path(void **state)
{
    static const struct {
        const char *target, *path, *query;
    } cases[] = {
        { "http://example.org/a/b?c=d", "/a/b", "c=d" },
        { "https://example.org", "/", "" },
        { "http://example.org?x", "/", "x" },
        { "/a?b?c", "/a", "b?c" },
        { "/a?", "/a", "" },
    };
    char text[256];
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\n" H "\r\n", cases[i].target);
        struct http_request *request = only_request(feed(text));
        assert_slice(request->path, cases[i].path);
        assert_slice(request->query, cases[i].query);
        assert_slice(request->target, cases[i].target);
    }
}

static int
set_up(void **state)
{
    (void)state;
    bench.budget.max = SIZE_MAX;
    exchange_pool_init(&bench.pool, &bench.budget, &bench.outbox);
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    bench_clear();
    exchange_pool_fini(&bench.pool);
    return 0;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_has_its_parts_in_any_pieces),
        cmocka_unit_test(pipelined_requests_are_cut_apart_in_any_pieces),
        cmocka_unit_test(a_body_larger_than_the_arena_arrives_whole),
        cmocka_unit_test(llhttp_is_built_strict),
        cmocka_unit_test(what_could_smuggle_a_request_is_400),
        cmocka_unit_test(chunks_that_two_readers_could_read_differently_are_400),
        cmocka_unit_test(nothing_in_a_trailer_is_taken_for_a_header),
        cmocka_unit_test(a_header_up_to_the_limit_is_taken_one_byte_more_is_431),
        cmocka_unit_test(a_target_up_to_the_limit_is_taken_one_byte_more_is_414),
        cmocka_unit_test(a_body_over_the_routes_limit_is_413_before_it_is_read),
        cmocka_unit_test(a_body_without_a_length_is_411),
        cmocka_unit_test(other_methods_are_405_when_the_line_is_well_formed),
        cmocka_unit_test(when_memory_is_used_up_a_body_is_503),
        cmocka_unit_test(floods_of_chunk_extensions_and_trailers_are_refused),
        cmocka_unit_test(several_forwarded_lines_are_one_list),
        cmocka_unit_test(a_request_id_that_is_not_sane_is_replaced),
        cmocka_unit_test(keep_alive_follows_version_and_connection),
        cmocka_unit_test(an_upgrade_is_a_plain_request),
        cmocka_unit_test(continue_is_wanted_only_before_a_body_of_http_1_1),
        cmocka_unit_test(an_absolute_target_gives_its_path),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
