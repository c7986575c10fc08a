/*
 * answer.c - the answer's header, put together by copying: no printf on this path.
 */
#include "answer.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Everything of a header that doesn't depend on the reply; generous. */
#define HEAD_FIXED_BYTES 320

struct status_line {
    int status;
    const char *text;
};

static const struct status_line status_lines[] = {
    { 200, "OK" },
    { 201, "Created" },
    { 202, "Accepted" },
    { 204, "No Content" },
    { 301, "Moved Permanently" },
    { 302, "Found" },
    { 303, "See Other" },
    { 304, "Not Modified" },
    { 307, "Temporary Redirect" },
    { 308, "Permanent Redirect" },
    { 400, "Bad Request" },
    { 401, "Unauthorized" },
    { 402, "Payment Required" },
    { 403, "Forbidden" },
    { 404, "Not Found" },
    { 405, "Method Not Allowed" },
    { 406, "Not Acceptable" },
    { 409, "Conflict" },
    { 410, "Gone" },
    { 411, "Length Required" },
    { 412, "Precondition Failed" },
    { 413, "Content Too Large" },
    { 414, "URI Too Long" },
    { 415, "Unsupported Media Type" },
    { 422, "Unprocessable Content" },
    { 429, "Too Many Requests" },
    { 431, "Request Header Fields Too Large" },
    { 500, "Internal Server Error" },
    { 503, "Service Unavailable" },
};

static const char *
reason_phrase(int status)
{
    for (size_t i = 0; i < sizeof(status_lines) / sizeof(status_lines[0]); i++) {
        if (status_lines[i].status == status)
            return status_lines[i].text;
    }
    return ""; /* RFC 9112, section 4: it may be empty, its space may not be missing */
}

/* A write position; the caller has seen to the room. */
static void
put(char **at, const void *bytes, size_t len)
{
    memcpy(*at, bytes, len);
    *at += len;
}

#define PUT_LITERAL(at, text) put(at, text, sizeof(text) - 1)

static void
put_slice(char **at, struct slice text)
{
    if (text.len > 0)
        put(at, text.ptr, text.len);
}

static void
put_number(char **at, size_t number)
{
    char digits[20];
    size_t first = sizeof(digits);
    do {
        digits[--first] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    put(at, digits + first, sizeof(digits) - first);
}

static void
put_two(char *at, int number)
{
    at[0] = (char)('0' + number / 10 % 10);
    at[1] = (char)('0' + number % 10);
}

void
answer_format_date(int64_t unix_seconds, char text[ANSWER_DATE_BYTES])
{
    static const char days[] = "SunMonTueWedThuFriSat";
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    time_t seconds = (time_t)unix_seconds;
    struct tm tm;

    hf_assert(gmtime_r(&seconds, &tm) != NULL);
    memcpy(text, "Day, 00 Mon 0000 00:00:00 GMT", ANSWER_DATE_BYTES);
    memcpy(text, days + 3 * tm.tm_wday, 3);
    put_two(text + 5, tm.tm_mday);
    memcpy(text + 8, months + 3 * tm.tm_mon, 3);
    put_two(text + 12, (tm.tm_year + 1900) / 100);
    put_two(text + 14, (tm.tm_year + 1900) % 100);
    put_two(text + 17, tm.tm_hour);
    put_two(text + 20, tm.tm_min);
    put_two(text + 23, tm.tm_sec);
}

bool
answer_is_whole(const struct exchange *exchange)
{
    const struct http_reply *reply = &exchange->public.reply;
    return !reply->headers.failed && !reply->body.failed;
}

void
answer_clear(struct exchange *exchange)
{
    struct http_reply *reply = &exchange->public.reply;
    exchange->endless = false;
    if (reply->shared != NULL)
        http_body_put(reply->shared);
    buf_clear(&reply->headers);
    buf_clear(&reply->body);
    reply->shared = NULL;
    reply->content_type = NULL;
    reply->status = 0;
}

static struct slice
reply_body(const struct http_reply *reply)
{
    if (reply->shared != NULL)
        return (struct slice){ reply->shared->bytes, reply->shared->len };
    return buf_slice(&reply->body);
}

size_t
answer_bytes(const struct exchange *exchange)
{
    const struct http_reply *reply = &exchange->public.reply;
    return HEAD_FIXED_BYTES + reply->headers.len + reply_body(reply).len;
}

/* RFC 9110, 6.4.1: these never have a body, nor a length of one. */
static bool
status_has_body(int status)
{
    return status >= 200 && status != 204 && status != 304;
}

/* Where the body ends: after so many bytes, with the last chunk, or (1.0) with the connection. */
static void
put_length(char **at, const struct exchange *exchange, size_t body_len)
{
    if (!exchange->endless) {
        PUT_LITERAL(at, "\r\nContent-Length: ");
        put_number(at, body_len);
    } else if (!exchange->http_1_0) {
        PUT_LITERAL(at, "\r\nTransfer-Encoding: chunked");
    }
}

static void
put_head(char **at, const struct exchange *exchange, const struct answer_context *context,
         size_t body_len)
{
    const struct http_reply *reply = &exchange->public.reply;

    PUT_LITERAL(at, "HTTP/1.1 ");
    put_number(at, (size_t)reply->status);
    PUT_LITERAL(at, " ");
    put_slice(at, slice_of(reason_phrase(reply->status)));
    PUT_LITERAL(at, "\r\nDate: ");
    put_slice(at, context->date);
    if (status_has_body(reply->status)) {
        if (reply->content_type != NULL) {
            PUT_LITERAL(at, "\r\nContent-Type: ");
            put_slice(at, slice_of(reply->content_type));
        }
        put_length(at, exchange, body_len);
    }
    PUT_LITERAL(at, "\r\nX-Request-Id: ");
    put_slice(at, slice_of(exchange->public.request.request_id));
    PUT_LITERAL(at, "\r\n");
    put_slice(at, context->node_line);
    if (context->close)
        PUT_LITERAL(at, "Connection: close\r\n");
    else if (exchange->http_1_0)
        PUT_LITERAL(at, "Connection: keep-alive\r\n");
    put_slice(at, buf_slice(&reply->headers));
    PUT_LITERAL(at, "\r\n");
}

/* Room for the head: the arena, or for a large one the heap. */
static char *
head_room(struct exchange *exchange, size_t needed, size_t *room)
{
    *room = EXCHANGE_ARENA_BYTES;
    if (needed <= EXCHANGE_ARENA_BYTES)
        return exchange->arena;
    if (!buf_reserve(&exchange->answer_overflow, needed))
        return NULL;
    *room = needed;
    return exchange->answer_overflow.data;
}

bool
answer_prepare(struct exchange *exchange, const struct answer_context *context)
{
    const struct http_reply *reply = &exchange->public.reply;
    struct slice body = reply_body(reply);
    size_t room;

    hf_assert(reply->status >= 200 && reply->status <= 599);
    size_t needed = HEAD_FIXED_BYTES + context->node_line.len + reply->headers.len;
    if (reply->content_type != NULL)
        needed += strlen(reply->content_type);
    char *start = head_room(exchange, needed, &room);
    if (start == NULL)
        return false;

    char *at = start;
    put_head(&at, exchange, context, body.len);
    size_t used = (size_t)(at - start);
    hf_assert(used <= needed);
    if (exchange->head_only || !status_has_body(reply->status))
        body = SLICE_EMPTY;
    if (body.len <= room - used) { /* one piece */
        put_slice(&at, body);
        body = SLICE_EMPTY;
    }
    exchange->answer_head = start;
    exchange->answer_head_len = (size_t)(at - start);
    exchange->answer_body = body;
    exchange->prepared = true;
    return true;
}
