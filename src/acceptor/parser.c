/*
 * parser.c - the phases of one request: each takes the bytes that are its own, checks
 * them, and gives them to llhttp. llhttp hands out trailers through the callbacks of the
 * header; nothing is taken for a header once the header is complete.
 */
#include "parser.h"

#include <string.h>

#include "holdfast/ids.h"
#include "request_head.h"

/* "ffffffffffffffff" and CRLF: a longer chunk line has an extension. */
#define CHUNK_LINE_PLAIN_BYTES 18
#define CHUNK_LINE_BYTES_MAX   1024

static int on_header_field(llhttp_t *llhttp, const char *at, size_t len);
static int on_header_value(llhttp_t *llhttp, const char *at, size_t len);
static int on_headers_complete(llhttp_t *llhttp);
static int on_body(llhttp_t *llhttp, const char *at, size_t len);
static int on_chunk_header(llhttp_t *llhttp);
static int on_chunk_complete(llhttp_t *llhttp);
static int on_message_complete(llhttp_t *llhttp);

static const llhttp_settings_t callbacks = {
    .on_header_field = on_header_field,
    .on_header_value = on_header_value,
    .on_headers_complete = on_headers_complete,
    .on_body = on_body,
    .on_chunk_header = on_chunk_header,
    .on_chunk_complete = on_chunk_complete,
    .on_message_complete = on_message_complete,
};

void
parser_init(struct parser *parser, const struct parser_rules *rules)
{
    *parser = (struct parser){ .rules = rules };
}

void
parser_begin(struct parser *parser, struct exchange *exchange)
{
    hf_assert(exchange->state == EXCHANGE_RECEIVING);
    *parser = (struct parser){ .rules = parser->rules, .exchange = exchange };
    head_scan_begin(&parser->scan);
    llhttp_init(&parser->llhttp, HTTP_REQUEST, &callbacks);
    parser->llhttp.data = parser;
}

int
parser_refuse(struct parser *parser, enum hf_status status, const char *detail)
{
    if (parser->detail == NULL) {
        parser->refusal = status;
        parser->detail = detail;
    }
    return -1;
}

static int
refuse_bad(struct parser *parser, const char *detail)
{
    return parser_refuse(parser, HF_BAD_REQUEST, detail);
}

/* Gives llhttp a piece that ends where we say that a part ends. */
static void
feed_llhttp(struct parser *parser, const char *bytes, size_t len)
{
    enum llhttp_errno error = llhttp_execute(&parser->llhttp, bytes, len);
    if (error == HPE_OK)
        return;
    const char *reason = llhttp_get_error_reason(&parser->llhttp);
    refuse_bad(parser, reason != NULL && *reason != '\0' ? reason : "not valid HTTP");
}

/* --- the header, as llhttp cuts it --------------------------------------------- */

/* Hands on the line that llhttp has finished. */
static int
finish_line(struct parser *parser)
{
    struct slice name = parser->name;
    parser->name = SLICE_EMPTY;
    if (name.len == 0)
        return 0;
    return request_head_field(parser, name, parser->value);
}

/* True: `at` goes on where the span ends. */
static bool
extend(struct slice *span, const char *at, size_t len)
{
    if (span->len == 0 || span->ptr + span->len != at)
        return false;
    span->len += len;
    return true;
}

static int
on_header_field(llhttp_t *llhttp, const char *at, size_t len)
{
    struct parser *parser = llhttp->data;
    if (parser->head_done || extend(&parser->name, at, len))
        return 0; /* a trailer, or more of the same name */
    if (finish_line(parser) != 0)
        return -1;
    parser->name = (struct slice){ at, len };
    parser->value = SLICE_EMPTY; /* llhttp may say nothing about an empty value */
    return 0;
}

static int
on_header_value(llhttp_t *llhttp, const char *at, size_t len)
{
    struct parser *parser = llhttp->data;
    if (!parser->head_done && !extend(&parser->value, at, len))
        parser->value = (struct slice){ at, len };
    return 0;
}

static int
on_headers_complete(llhttp_t *llhttp)
{
    struct parser *parser = llhttp->data;
    struct exchange *exchange = parser->exchange;

    if (finish_line(parser) != 0)
        return -1;
    parser->head_done = true;
    llhttp->upgrade = 0; /* an Upgrade is declined by answering as if it weren't there */
    exchange->keep_alive = llhttp_should_keep_alive(llhttp) != 0;
    return request_head_end(parser, llhttp->content_length);
}

/* Theirs, if it can stand in a log line and a header; else one of ours. */
static void
set_request_id(struct parser *parser)
{
    struct http_request *request = &parser->exchange->public.request;
    _Static_assert(HTTP_REQUEST_ID_BYTES > ID_BYTES_MAX && HTTP_REQUEST_ID_BYTES >= UUID_TEXT_BYTES,
                   "either id fits");
    if (id_is_valid(parser->their_id)) {
        memcpy(request->request_id, parser->their_id.ptr, parser->their_id.len);
        request->request_id[parser->their_id.len] = '\0';
    } else {
        struct uuid uuid = uuid_v7_new();
        uuid_format(&uuid, request->request_id);
    }
}

void
parser_end(struct parser *parser)
{
    struct exchange *exchange = parser->exchange;
    if (exchange->body.len > 0)
        exchange->public.request.body = (struct slice){ exchange->body.data, exchange->body.len };
    set_request_id(parser);
    parser->exchange = NULL;
    parser->phase = PARSER_BLANK;
}

static int
on_message_complete(llhttp_t *llhttp)
{
    struct parser *parser = llhttp->data;
    parser->complete = true;
    return 0;
}

/* --- the phases -------------------------------------------------------------- */

static size_t
feed_blank(struct parser *parser, const char *bytes, size_t len)
{
    size_t at = 0;
    for (; at < len && parser->phase == PARSER_BLANK && parser->detail == NULL; at++) {
        if (parser->blank_cr) {
            if (bytes[at] != '\n')
                refuse_bad(parser, "a carriage return without its line feed");
            parser->blank_cr = false;
        } else if (bytes[at] == '\r') {
            parser->blank_cr = true;
        } else {
            parser->phase = PARSER_HEAD;
            break;
        }
    }
    return at;
}

/* The longest request line whose target may be within the limit. */
static size_t
request_line_max(const struct parser *parser)
{
    return METHOD_BYTES_MAX + parser->rules->uri_max + sizeof("  HTTP/1.1\r");
}

/*
 * How much of the header may be scanned before the next look at its size. The request
 * line is looked at where a method must have ended, and at its limit: always at these
 * bytes, so that the answer doesn't depend on how the client's bytes were cut.
 */
static size_t
head_room(const struct parser *parser)
{
    size_t len = parser->exchange->head.len;
    size_t end = parser->rules->header_max;
    if (parser->scan.state == SCAN_REQUEST_LINE) {
        size_t stop = len <= METHOD_BYTES_MAX ? METHOD_BYTES_MAX + 1 : request_line_max(parser);
        end = stop < end ? stop : end;
    }
    return end - len;
}

/* Refuses a request line that can't become a valid one, without waiting for its end. */
static void
judge_open_request_line(struct parser *parser)
{
    const struct exchange_bytes *head = &parser->exchange->head;
    if (head->len > METHOD_BYTES_MAX && memchr(head->data, ' ', METHOD_BYTES_MAX + 1) == NULL)
        refuse_bad(parser, "no valid request line");
    else if (head->len >= request_line_max(parser))
        parser_refuse(parser, HF_URI_TOO_LONG, "the request target is over the limit");
}

static void
finish_head(struct parser *parser)
{
    struct exchange *exchange = parser->exchange;
    if (request_head_line(parser) != 0)
        return;
    feed_llhttp(parser, exchange->head.data, exchange->head.len);
    if (parser->detail != NULL)
        return;
    if (!parser->head_done || (parser->phase == PARSER_HEAD) != parser->complete)
        refuse_bad(parser, "not valid HTTP"); /* llhttp saw another end than we did */
}

static size_t
feed_head(struct parser *parser, const char *bytes, size_t len)
{
    struct exchange *exchange = parser->exchange;
    enum head_scan_result result;
    size_t room = head_room(parser);

    if (room == 0) {
        parser_refuse(parser, HF_HEADERS_TOO_LARGE, "the header is over the limit");
        return 0;
    }
    size_t used = head_scan_run(&parser->scan, bytes, len < room ? len : room, &result);
    if (!exchange_head_append(exchange, bytes, used))
        parser_refuse(parser, HF_OVERLOADED, "no memory for the header");
    else if (result == HEAD_SCAN_BAD)
        refuse_bad(parser, parser->scan.reason);
    else if (result == HEAD_SCAN_DONE)
        finish_head(parser);
    else if (parser->scan.state == SCAN_REQUEST_LINE)
        judge_open_request_line(parser);
    return used;
}

static int
on_body(llhttp_t *llhttp, const char *at, size_t len)
{
    struct parser *parser = llhttp->data;
    if (!exchange_body_append(parser->exchange, at, len))
        return parser_refuse(parser, HF_OVERLOADED, "no memory for the body");
    return 0;
}

static size_t
feed_body(struct parser *parser, const char *bytes, size_t len)
{
    size_t used = len < parser->body_left ? len : (size_t)parser->body_left;
    parser->wants_continue = false;
    parser->body_left -= used;
    feed_llhttp(parser, bytes, used);
    if ((parser->body_left == 0) != parser->complete)
        refuse_bad(parser, "not valid HTTP");
    return used;
}

static int
on_chunk_header(llhttp_t *llhttp)
{
    struct parser *parser = llhttp->data;
    uint64_t size = llhttp->content_length;

    if (size > parser->body_max - parser->exchange->body.len)
        return parser_refuse(parser, HF_BODY_TOO_LARGE, "the chunks are over the limit");
    if (size == 0) {
        head_scan_begin_trailer(&parser->scan);
        parser->phase = PARSER_TRAILER;
    } else {
        parser->body_left = size + 2;
        parser->phase = PARSER_CHUNK_DATA;
    }
    return 0;
}

static int
on_chunk_complete(llhttp_t *llhttp)
{
    struct parser *parser = llhttp->data;
    if (parser->phase == PARSER_CHUNK_DATA && parser->body_left != 0)
        return refuse_bad(parser, "not valid HTTP");
    return 0;
}

/* The bytes up to and including the line's LF; refuses what no such line has. */
static size_t
scan_chunk_line(struct parser *parser, const char *bytes, size_t len, bool *ended)
{
    size_t at = 0;
    for (*ended = false; at < len && !*ended && parser->detail == NULL; at++) {
        unsigned char c = (unsigned char)bytes[at];
        if (parser->line_cr && c != '\n')
            refuse_bad(parser, "a carriage return without its line feed");
        else if (parser->line_cr)
            *ended = true;
        else if (c == '\r')
            parser->line_cr = true;
        else if (!head_scan_is_text(c))
            refuse_bad(parser, "a control character in a chunk's line");
    }
    parser->line_bytes += at;
    if (parser->line_bytes > CHUNK_LINE_BYTES_MAX)
        refuse_bad(parser, "a chunk's line is too long");
    return at;
}

static size_t
feed_chunk_line(struct parser *parser, const char *bytes, size_t len)
{
    bool ended;
    size_t used = scan_chunk_line(parser, bytes, len, &ended);
    parser->wants_continue = false;
    if (parser->detail != NULL)
        return used;
    feed_llhttp(parser, bytes, used);
    if (parser->detail != NULL)
        return used;
    if (ended == (parser->phase == PARSER_CHUNK_LINE)) {
        refuse_bad(parser, "not valid HTTP"); /* llhttp saw another end than we did */
        return used;
    }
    if (ended) {
        if (parser->line_bytes > CHUNK_LINE_PLAIN_BYTES)
            parser->extra_bytes += parser->line_bytes;
        if (parser->extra_bytes > parser->rules->header_max)
            parser_refuse(parser, HF_HEADERS_TOO_LARGE, "chunk extensions are over the limit");
        parser->line_bytes = 0;
        parser->line_cr = false;
    }
    return used;
}

static size_t
feed_chunk_data(struct parser *parser, const char *bytes, size_t len)
{
    size_t used = len < parser->body_left ? len : (size_t)parser->body_left;
    parser->body_left -= used;
    feed_llhttp(parser, bytes, used);
    if (parser->body_left == 0)
        parser->phase = PARSER_CHUNK_LINE;
    return used;
}

static size_t
feed_trailer(struct parser *parser, const char *bytes, size_t len)
{
    enum head_scan_result result;
    size_t room = parser->rules->header_max - parser->extra_bytes;

    if (room == 0) {
        parser_refuse(parser, HF_HEADERS_TOO_LARGE, "the trailer is over the limit");
        return 0;
    }
    size_t used = head_scan_run(&parser->scan, bytes, len < room ? len : room, &result);
    parser->extra_bytes += used;
    if (result == HEAD_SCAN_BAD) {
        refuse_bad(parser, parser->scan.reason);
        return used;
    }
    feed_llhttp(parser, bytes, used);
    if ((result == HEAD_SCAN_DONE) != parser->complete)
        refuse_bad(parser, "not valid HTTP");
    return used;
}

static size_t
feed_phase(struct parser *parser, const char *bytes, size_t len)
{
    switch (parser->phase) {
    case PARSER_BLANK:
        return feed_blank(parser, bytes, len);
    case PARSER_HEAD:
        return feed_head(parser, bytes, len);
    case PARSER_BODY:
        return feed_body(parser, bytes, len);
    case PARSER_CHUNK_LINE:
        return feed_chunk_line(parser, bytes, len);
    case PARSER_CHUNK_DATA:
        return feed_chunk_data(parser, bytes, len);
    case PARSER_TRAILER:
        return feed_trailer(parser, bytes, len);
    }
    hf_assert(!"a phase of no name");
    return 0;
}

size_t
parser_feed(struct parser *parser, const char *bytes, size_t len, enum parser_event *event)
{
    size_t used = 0;
    hf_assert(parser->exchange != NULL);
    while (used < len && !parser->complete && parser->detail == NULL)
        used += feed_phase(parser, bytes + used, len - used);

    *event = PARSER_MORE;
    if (!parser->complete && parser->detail == NULL)
        return used;
    *event = parser->detail != NULL ? PARSER_REFUSED : PARSER_REQUEST;
    parser_end(parser);
    return used;
}
