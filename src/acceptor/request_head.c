/*
 * request_head.c - what the header says: its first line, its fields, its framing.
 */
#include "request_head.h"

#include <string.h>

/* `name` is a token as sent; `lower` has as many characters, lower-case letters, digits, '-'. */
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

/* --- fields ------------------------------------------------------------------ */

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
    struct buf *joined = &parser->exchange->forwarded;
    if (field->len == 0) {
        *field = value;
        return 0;
    }
    if (joined->len == 0)
        buf_append_slice(joined, *field);
    buf_append(joined, ", ", 2);
    buf_append_slice(joined, value);
    if (joined->failed)
        return parser_refuse(parser, HF_OVERLOADED, "out of memory");
    *field = buf_slice(joined);
    return 0;
}

static int
take_request_id(struct parser *parser, struct slice value)
{
    return take_first(&parser->their_id, value);
}

/* What RFC 3986 allows in a host and port, no more. */
static int
take_host(struct parser *parser, struct slice value)
{
    for (size_t i = 0; i < value.len; i++) {
        if (value.ptr[i] <= ' ' || value.ptr[i] >= 0x7f || strchr("/\\?#@<>\"{}|^`,", value.ptr[i]))
            return parser_refuse(parser, HF_BAD_REQUEST, "Host is no host");
    }
    parser->has_host = true;
    return 0;
}

/* llhttp reads the number; here only its form: no sign, no list, not empty. */
static int
take_content_length(struct parser *parser, struct slice value)
{
    for (size_t i = 0; i < value.len; i++) {
        if (value.ptr[i] < '0' || value.ptr[i] > '9')
            return parser_refuse(parser, HF_BAD_REQUEST, "Content-Length is no number");
    }
    if (value.len == 0)
        return parser_refuse(parser, HF_BAD_REQUEST, "Content-Length is empty");
    parser->has_length = true;
    return 0;
}

static int
take_transfer_encoding(struct parser *parser, struct slice value)
{
    if (value.len != 7 || !name_is(value, "chunked"))
        return parser_refuse(parser, HF_BAD_REQUEST, "a Transfer-Encoding other than chunked");
    if (parser->exchange->http_1_0)
        return parser_refuse(parser, HF_BAD_REQUEST, "Transfer-Encoding in HTTP/1.0");
    parser->chunked = true;
    return 0;
}

static int
take_expect(struct parser *parser, struct slice value)
{
    parser->wants_continue = value.len == 12 && name_is(value, "100-continue");
    return 0;
}

/*
 * The headers that somebody reads: into a field of the request, or by a function.
 * `once`: a second line is refused, since two readers would take different ones.
 */
static const struct header {
    const char *name; /* in lower case */
    size_t len;
    bool once;
    size_t field; /* offset in struct http_request, if there is no function */
    int (*take)(struct parser *parser, struct slice value);
} headers[] = {
#define FIELD(name, once, field)                                                                   \
    {                                                                                              \
        name, sizeof(name) - 1, once, offsetof(struct http_request, field), NULL                   \
    }
#define TAKE(name, once, take)                                                                     \
    {                                                                                              \
        name, sizeof(name) - 1, once, 0, take                                                      \
    }
    TAKE("host", true, take_host),
    TAKE("content-length", true, take_content_length),
    TAKE("transfer-encoding", true, take_transfer_encoding),
    TAKE("expect", true, take_expect),
    FIELD("authorization", true, authorization),
    FIELD("content-type", true, content_type),
    FIELD("idempotency-key", true, idempotency_key),
    FIELD("x-api-key", true, api_key),
    FIELD("holdfast-signature", true, signature),
    FIELD("user-agent", false, user_agent),
    FIELD("accept-encoding", false, accept_encoding),
    FIELD("if-none-match", false, if_none_match),
    FIELD("traceparent", false, traceparent),
    FIELD("last-event-id", false, last_event_id),
    TAKE("x-forwarded-for", false, take_forwarded),
    TAKE("x-request-id", false, take_request_id),
#undef FIELD
#undef TAKE
};

#define HEADER_COUNT (sizeof(headers) / sizeof(headers[0]))
_Static_assert(HEADER_COUNT <= 32, "parser->seen has a bit for each");

int
request_head_field(struct parser *parser, struct slice name, struct slice value)
{
    for (size_t i = 0; i < HEADER_COUNT; i++) {
        const struct header *header = &headers[i];
        if (header->len != name.len || !name_is(name, header->name))
            continue;
        if (header->once && (parser->seen & 1u << i))
            return parser_refuse(parser, HF_BAD_REQUEST, "a header twice that may come once");
        parser->seen |= 1u << i;
        if (header->take != NULL)
            return header->take(parser, trim(value));
        char *request = (char *)&parser->exchange->public.request;
        return take_first((struct slice *)(request + header->field), trim(value));
    }
    return 0;
}

/* --- framing ----------------------------------------------------------------- */

static bool
method_takes_body(enum http_method method)
{
    return method == HTTP_METHOD_POST || method == HTTP_METHOD_PUT || method == HTTP_METHOD_PATCH;
}

/* Decides how the body is framed, or that it is refused before it is read. */
static int
judge_framing(struct parser *parser, uint64_t length)
{
    struct http_request *request = &parser->exchange->public.request;
    const struct http_handler *handler = parser->rules->handler;

    if (parser->chunked && parser->has_length)
        return parser_refuse(parser, HF_BAD_REQUEST, "Content-Length beside Transfer-Encoding");
    if (!parser->chunked && !parser->has_length && method_takes_body(request->method))
        return parser_refuse(parser, HF_LENGTH_REQUIRED, "neither Content-Length nor chunked");
    if (!parser->chunked && length == 0) {
        parser->wants_continue = false;
        return 0;
    }
    parser->body_max = handler->body_max(handler->context, request->method, request->path);
    if (length > parser->body_max)
        return parser_refuse(parser, HF_BODY_TOO_LARGE, "Content-Length is over the limit");
    parser->body_left = length;
    parser->phase = parser->chunked ? PARSER_CHUNK_LINE : PARSER_BODY;
    return 0;
}

int
request_head_end(struct parser *parser, uint64_t content_length)
{
    if (!parser->exchange->http_1_0 && !parser->has_host)
        return parser_refuse(parser, HF_BAD_REQUEST, "no Host");
    if (parser->exchange->http_1_0)
        parser->wants_continue = false; /* such a client knows no 100 */
    return judge_framing(parser, parser->has_length ? content_length : 0);
}

/* --- the request line -------------------------------------------------------- */

static const struct method {
    const char *name;
    enum http_method method;
} methods[] = {
    { "GET", HTTP_METHOD_GET },         { "POST", HTTP_METHOD_POST },
    { "DELETE", HTTP_METHOD_DELETE },   { "PUT", HTTP_METHOD_PUT },
    { "PATCH", HTTP_METHOD_PATCH },     { "HEAD", HTTP_METHOD_HEAD },
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
    } else if (!(starts_with(rest, "/") ||
                 (request->method == HTTP_METHOD_OPTIONS && slice_is(rest, "*")))) {
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
int
request_head_line(struct parser *parser)
{
    struct exchange *exchange = parser->exchange;
    struct http_request *request = &exchange->public.request;
    struct slice rest = { exchange->head.data, exchange->head.len };
    struct slice line, method;

    if (!cut(&rest, '\r', &line) || !cut(&line, ' ', &method) || !is_token(method) ||
        method.len > METHOD_BYTES_MAX || !cut(&line, ' ', &request->target))
        return parser_refuse(parser, HF_BAD_REQUEST, "no valid request line");
    exchange->http_1_0 = slice_is(line, "HTTP/1.0");
    if (!exchange->http_1_0 && !slice_is(line, "HTTP/1.1"))
        return parser_refuse(parser, HF_BAD_REQUEST, "neither HTTP/1.1 nor HTTP/1.0");
    if (request->target.len > parser->rules->uri_max)
        return parser_refuse(parser, HF_URI_TOO_LONG, "the request target is over the limit");
    if (request->target.len == 0)
        return parser_refuse(parser, HF_BAD_REQUEST, "an empty request target");
    if (!find_method(method, &request->method))
        return parser_refuse(parser, HF_METHOD_NOT_ALLOWED, "a method that nothing here takes");
    exchange->head_only = request->method == HTTP_METHOD_HEAD;
    if (!split_target(request))
        return parser_refuse(parser, HF_BAD_REQUEST, "a request target of no known form");
    return 0;
}
