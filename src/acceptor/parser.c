/*
 * parser.c - the phases of one request, and what llhttp doesn't check.
 *
 * llhttp 8.1.0, even strict, accepts none or two Host lines, HTTP/0.9,
 * Transfer-Encoding in HTTP/1.0, and hands out trailers through the callbacks of the
 * header. Own checks below; nothing is taken for a header once the header is complete.
 */
#include "parser.h"

#include <string.h>

#include "holdfast/ids.h"

/* The longest method that we answer by name; a longer first word isn't a method. */
#define METHOD_BYTES_MAX 32
/* "ffffffffffffffff" and CRLF: a longer chunk line has an extension. */
#define CHUNK_LINE_PLAIN_BYTES 18
#define CHUNK_LINE_BYTES_MAX 1024

/* Headers whose second line would make two readers see two requests. */
enum once {
    ONCE_HOST = 1u << 0,
    ONCE_CONTENT_LENGTH = 1u << 1,
    ONCE_TRANSFER_ENCODING = 1u << 2,
    ONCE_AUTHORIZATION = 1u << 3,
    ONCE_CONTENT_TYPE = 1u << 4,
    ONCE_IDEMPOTENCY_KEY = 1u << 5,
    ONCE_API_KEY = 1u << 6,
    ONCE_SIGNATURE = 1u << 7,
    ONCE_EXPECT = 1u << 8,
};

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

/* The first refusal stands. Returns -1, which is what a callback tells llhttp. */
static int
refuse(struct parser *parser, enum hf_status status, const char *detail)
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
    return refuse(parser, HF_BAD_REQUEST, detail);
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

/* --- header lines ------------------------------------------------------------ */

/* `name` is a header name as sent; `lower` has only lower-case letters and '-'. */
static bool
name_is(struct slice name, const char *lower)
{
    for (size_t i = 0; i < name.len; i++) {
        if ((name.ptr[i] | 0x20) != lower[i])
            return false;
    }
    return true;
}

static struct slice
trim(struct slice text)
{
    while (text.len > 0 && (text.ptr[0] == ' ' || text.ptr[0] == '\t')) {
        text.ptr++;
        text.len--;
    }
    while (text.len > 0 && (text.ptr[text.len - 1] == ' ' || text.ptr[text.len - 1] == '\t'))
        text.len--;
    return text;
}

static int
take_once(struct parser *parser, enum once once, struct slice *field, struct slice value,
          const char *detail)
{
    if (parser->seen & once)
        return refuse_bad(parser, detail);
    parser->seen |= once;
    if (field != NULL)
        *field = value;
    return 0;
}

static int
take_first(struct slice *field, struct slice value)
{
    if (field->len == 0)
        *field = value;
    return 0;
}

/* A proxy may add its line below the client's: only both together tell who asked. */
static int
take_forwarded(struct parser *parser, struct slice value)
{
    struct slice *field = &parser->exchange->public.request.forwarded_for;
    struct buf   *joined = &parser->exchange->forwarded;
    if (field->len == 0) {
        *field = value;
        return 0;
    }
    if (joined->len == 0)
        buf_append_slice(joined, *field);
    buf_append(joined, ", ", 2);
    buf_append_slice(joined, value);
    if (joined->failed)
        return refuse(parser, HF_OVERLOADED, "out of memory");
    *field = buf_slice(joined);
    return 0;
}

/* What RFC 3986 allows in a host and port, no more. */
static int
take_host(struct parser *parser, struct slice value)
{
    for (size_t i = 0; i < value.len; i++) {
        if (value.ptr[i] <= ' ' || value.ptr[i] >= 0x7f || strchr("/\\?#@<>\"{}|^`,", value.ptr[i]))
            return refuse_bad(parser, "Host is no host");
    }
    return take_once(parser, ONCE_HOST, NULL, value, "more than one Host");
}

/* llhttp reads the number; here only its form: no sign, no list, not empty. */
static int
take_content_length(struct parser *parser, struct slice value)
{
    if (value.len == 0)
        return refuse_bad(parser, "an empty Content-Length");
    for (size_t i = 0; i < value.len; i++) {
        if (value.ptr[i] < '0' || value.ptr[i] > '9')
            return refuse_bad(parser, "Content-Length is no number");
    }
    parser->has_length = true;
    return take_once(parser, ONCE_CONTENT_LENGTH, NULL, value, "more than one Content-Length");
}

static int
take_transfer_encoding(struct parser *parser, struct slice value)
{
    if (value.len != 7 || !name_is(value, "chunked"))
        return refuse_bad(parser, "a Transfer-Encoding other than chunked");
    if (parser->exchange->http_1_0)
        return refuse_bad(parser, "Transfer-Encoding in HTTP/1.0");
    parser->chunked = true;
    return take_once(parser, ONCE_TRANSFER_ENCODING, NULL, value, "more than one Transfer-Encoding");
}

static int
take_expect(struct parser *parser, struct slice value)
{
    parser->wants_continue = value.len == 12 && name_is(value, "100-continue");
    return take_once(parser, ONCE_EXPECT, NULL, value, "more than one Expect");
}

/* Looks the name up by its length, then by its letters: two or three candidates at most. */
static int
take_header(struct parser *parser, struct slice name, struct slice value)
{
    struct http_request *request = &parser->exchange->public.request;
    switch (name.len) {
    case 4:
        if (name_is(name, "host"))
            return take_host(parser, value);
        break;
    case 6:
        if (name_is(name, "expect"))
            return take_expect(parser, value);
        break;
    case 9:
        if (name_is(name, "x-api-key"))
            return take_once(parser, ONCE_API_KEY, &request->api_key, value,
                             "more than one X-Api-Key");
        break;
    case 10:
        if (name_is(name, "user-agent"))
            return take_first(&request->user_agent, value);
        break;
    case 11:
        if (name_is(name, "traceparent"))
            return take_first(&request->traceparent, value);
        break;
    case 12:
        if (name_is(name, "content-type"))
            return take_once(parser, ONCE_CONTENT_TYPE, &request->content_type, value,
                             "more than one Content-Type");
        if (name_is(name, "x-request-id"))
            return take_first(&parser->their_id, value);
        break;
    case 13:
        if (name_is(name, "authorization"))
            return take_once(parser, ONCE_AUTHORIZATION, &request->authorization, value,
                             "more than one Authorization");
        if (name_is(name, "if-none-match"))
            return take_first(&request->if_none_match, value);
        if (name_is(name, "last-event-id"))
            return take_first(&request->last_event_id, value);
        break;
    case 14:
        if (name_is(name, "content-length"))
            return take_content_length(parser, value);
        break;
    case 15:
        if (name_is(name, "accept-encoding"))
            return take_first(&request->accept_encoding, value);
        if (name_is(name, "idempotency-key"))
            return take_once(parser, ONCE_IDEMPOTENCY_KEY, &request->idempotency_key, value,
                             "more than one Idempotency-Key");
        if (name_is(name, "x-forwarded-for"))
            return take_forwarded(parser, value);
        break;
    case 17:
        if (name_is(name, "transfer-encoding"))
            return take_transfer_encoding(parser, value);
        break;
    case 18:
        if (name_is(name, "holdfast-signature"))
            return take_once(parser, ONCE_SIGNATURE, &request->signature, value,
                             "more than one Holdfast-Signature");
        break;
    default:
        break;
    }
    return 0;
}

/* Hands the line that llhttp has finished to take_header. */
static int
finish_line(struct parser *parser)
{
    struct slice name = parser->name;
    parser->name = SLICE_EMPTY;
    if (name.len == 0)
        return 0;
    return take_header(parser, name, trim(parser->value));
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

/* --- the complete header ----------------------------------------------------- */

static bool
method_takes_body(enum http_method method)
{
    return method == HTTP_METHOD_POST || method == HTTP_METHOD_PUT || method == HTTP_METHOD_PATCH;
}

/* Decides how the body is framed, or that it is refused before it is read. */
static int
judge_framing(struct parser *parser, uint64_t length)
{
    struct http_request       *request = &parser->exchange->public.request;
    const struct http_handler *handler = parser->rules->handler;

    if (parser->chunked && parser->has_length)
        return refuse_bad(parser, "Content-Length beside Transfer-Encoding");
    if (!parser->chunked && !parser->has_length && method_takes_body(request->method))
        return refuse(parser, HF_LENGTH_REQUIRED, "neither Content-Length nor chunked");
    if (!parser->chunked && length == 0) {
        parser->wants_continue = false;
        return 0;
    }
    parser->body_max = handler->body_max(handler->context, request->method, request->path);
    if (length > parser->body_max)
        return refuse(parser, HF_BODY_TOO_LARGE, "Content-Length is over the limit");
    parser->body_left = length;
    parser->phase = parser->chunked ? PARSER_CHUNK_LINE : PARSER_BODY;
    return 0;
}

static int
on_headers_complete(llhttp_t *llhttp)
{
    struct parser   *parser = llhttp->data;
    struct exchange *exchange = parser->exchange;

    if (finish_line(parser) != 0)
        return -1;
    parser->head_done = true;
    if (!exchange->http_1_0 && !(parser->seen & ONCE_HOST))
        return refuse_bad(parser, "no Host");
    if (exchange->http_1_0)
        parser->wants_continue = false; /* such a client knows no 100 */
    llhttp->upgrade = 0; /* an Upgrade is declined by answering as if it weren't there */
    exchange->keep_alive = llhttp_should_keep_alive(llhttp) != 0;
    return judge_framing(parser, parser->has_length ? llhttp->content_length : 0);
}

static const struct method {
    const char      *name;
    enum http_method method;
} methods[] = {
    { "GET", HTTP_METHOD_GET },       { "POST", HTTP_METHOD_POST },
    { "DELETE", HTTP_METHOD_DELETE }, { "PUT", HTTP_METHOD_PUT },
    { "PATCH", HTTP_METHOD_PATCH },   { "HEAD", HTTP_METHOD_HEAD },
    { "OPTIONS", HTTP_METHOD_OPTIONS },
};

static bool
find_method(struct slice name, enum http_method *method)
{
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        if (slice_is(name, methods[i].name)) {
            *method = methods[i].method;
            return true;
        }
    }
    return false;
}

static bool
is_token(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (!head_scan_is_token((unsigned char)text.ptr[i]))
            return false;
    }
    return text.len > 0;
}

/* Cuts what stands before the first `separator` off `rest`. False: there is none. */
static bool
cut(struct slice *rest, char separator, struct slice *word)
{
    const char *at = rest->len > 0 ? memchr(rest->ptr, separator, rest->len) : NULL;
    if (at == NULL)
        return false;
    *word = (struct slice){ rest->ptr, (size_t)(at - rest->ptr) };
    *rest = (struct slice){ at + 1, rest->len - word->len - 1 };
    return true;
}

static bool
starts_with(struct slice text, const char *start)
{
    size_t len = strlen(start);
    return text.len >= len && memcmp(text.ptr, start, len) == 0;
}

/* The path of "/path?query", "http://host/path?query" or "*". */
static bool
split_target(struct http_request *request)
{
    struct slice rest = request->target;
    if (starts_with(rest, "http://") || starts_with(rest, "https://")) {
        struct slice scheme, authority;
        if (!cut(&rest, ':', &scheme))
            return false;
        rest = (struct slice){ rest.ptr + 2, rest.len - 2 };
        size_t len = 0;
        while (len < rest.len && rest.ptr[len] != '/' && rest.ptr[len] != '?')
            len++;
        authority = (struct slice){ rest.ptr, len };
        rest = (struct slice){ rest.ptr + len, rest.len - len };
        if (authority.len == 0)
            return false;
        if (rest.len == 0)
            rest = SLICE_LITERAL("/");
    } else if (!(starts_with(rest, "/")
                 || (request->method == HTTP_METHOD_OPTIONS && slice_is(rest, "*")))) {
        return false;
    }
    if (cut(&rest, '?', &request->path))
        request->query = rest;
    else
        request->path = rest;
    if (request->path.len == 0)
        request->path = SLICE_LITERAL("/");
    return memchr(request->target.ptr, '#', request->target.len) == NULL;
}

/* "METHOD target HTTP/1.x", with single spaces. llhttp is laxer, and knows fewer methods. */
static int
read_request_line(struct parser *parser)
{
    struct exchange     *exchange = parser->exchange;
    struct http_request *request = &exchange->public.request;
    struct slice         rest = { exchange->head.data, exchange->head.len };
    struct slice         line, method;

    if (!cut(&rest, '\r', &line) || !cut(&line, ' ', &method) || !is_token(method)
        || method.len > METHOD_BYTES_MAX || !cut(&line, ' ', &request->target))
        return refuse_bad(parser, "no valid request line");
    exchange->http_1_0 = slice_is(line, "HTTP/1.0");
    if (!exchange->http_1_0 && !slice_is(line, "HTTP/1.1"))
        return refuse_bad(parser, "neither HTTP/1.1 nor HTTP/1.0");
    if (request->target.len > parser->rules->uri_max)
        return refuse(parser, HF_URI_TOO_LONG, "the request target is over the limit");
    if (request->target.len == 0)
        return refuse_bad(parser, "an empty request target");
    if (!find_method(method, &request->method))
        return refuse(parser, HF_METHOD_NOT_ALLOWED, "a method that nothing here takes");
    exchange->head_only = request->method == HTTP_METHOD_HEAD;
    if (!split_target(request))
        return refuse_bad(parser, "a request target of no known form");
    return 0;
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
        refuse(parser, HF_URI_TOO_LONG, "the request target is over the limit");
}

static void
finish_head(struct parser *parser)
{
    struct exchange *exchange = parser->exchange;
    if (read_request_line(parser) != 0)
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
    struct exchange      *exchange = parser->exchange;
    enum head_scan_result result;
    size_t                room = head_room(parser);

    if (room == 0) {
        refuse(parser, HF_HEADERS_TOO_LARGE, "the header is over the limit");
        return 0;
    }
    size_t used = head_scan_run(&parser->scan, bytes, len < room ? len : room, &result);
    if (!exchange_head_append(exchange, bytes, used))
        refuse(parser, HF_OVERLOADED, "no memory for the header");
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
        return refuse(parser, HF_OVERLOADED, "no memory for the body");
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
    uint64_t       size = llhttp->content_length;

    if (size > parser->body_max - parser->exchange->body.len)
        return refuse(parser, HF_BODY_TOO_LARGE, "the chunks are over the limit");
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
    bool   ended;
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
            refuse(parser, HF_HEADERS_TOO_LARGE, "chunk extensions are over the limit");
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
    size_t                room = parser->rules->header_max - parser->extra_bytes;

    if (room == 0) {
        refuse(parser, HF_HEADERS_TOO_LARGE, "the trailer is over the limit");
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
