/*
 * http.c - a provider that is asked over HTTP.
 *
 *   charge  POST payment_url, with Idempotency-Key: <intent id> and the body
 *           {intentId, amount, currency, method, org, event, user}
 *   ask     GET payment_url/<intent id>
 *   answer  200 {status: succeeded | failed | pending}; 402: declined; asked: 404: no such charge
 *
 * Both carry Holdfast-Signature, made with payment_secret over the body; an ask, which has none,
 * is signed over the intent's id, so that it can't be used to ask about another.
 *
 * Nothing but a plain answer decides. Whatever else comes back once a request may have left - a
 * timeout, a broken connection, a 500, a body that is no JSON - may stand for a charge that
 * happened: it is UNDECIDED, never UNREACHED, and the provider is asked later. Whether a request
 * may have left is not guessed from the kind of error (libcurl sends a request again by itself when
 * a kept connection turns out to be dead, and the second connect may fail): libcurl says when it is
 * about to send (CURLOPT_PREREQFUNCTION).
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cjson/cJSON.h>

#include "holdfast/json.h"
#include "holdfast/log.h"
#include "holdfast/outgoing.h"
#include "holdfast/signature.h"
#include "payments_internal.h"

#define RECEIVE_BYTES_MAX (64 * 1024) /* of one answer, header and body */

struct http_call {
    CURL *easy;
    struct curl_slist *headers;
    struct buf url, request, answer;
    size_t received;
    bool may_have_left; /* a connection was there, and the request was about to be sent */
    char error[CURL_ERROR_SIZE];
};

/* --- settings ------------------------------------------------------------------------- */

static bool
http_check(const struct config *config, char *error, size_t error_bytes)
{
    /* A query would stand before the intent's id. */
    if (!outgoing_url_is_good(config->payment_url, false)) {
        snprintf(error, error_bytes,
                 "payment_url: '%s' is no http or https URL without user, query and fragment",
                 config->payment_url);
        return false;
    }
    if (config->payment_secret[0] == '\0') {
        snprintf(error, error_bytes, "payment_secret is empty: nothing could be signed");
        return false;
    }
    return true;
}

/* --- what libcurl calls ------------------------------------------------------------------ */

static int
about_to_send(void *context, char *their_ip, char *our_ip, int their_port, int our_port)
{
    struct http_call *http = context;

    (void)their_ip, (void)our_ip, (void)their_port, (void)our_port;
    http->may_have_left = true;
    return CURL_PREREQFUNC_OK;
}

/* Fewer bytes than were given: libcurl gives the transfer up. */
static size_t
count(struct http_call *http, size_t len)
{
    http->received += len;
    return http->received <= RECEIVE_BYTES_MAX ? len : 0;
}

static size_t
take_header(char *bytes, size_t size, size_t len, void *context)
{
    (void)bytes, (void)size; /* size is 1 */
    return count(context, len);
}

static size_t
take_body(char *bytes, size_t size, size_t len, void *context)
{
    struct http_call *http = context;

    (void)size;
    if (count(http, len) < len)
        return 0;
    buf_append(&http->answer, bytes, len);
    return http->answer.failed ? 0 : len;
}

/* --- a request ----------------------------------------------------------------------------- */

static void
write_charge(struct buf *out, const struct payment *payment)
{
    struct json_writer w;

    json_writer_init(&w, out);
    json_object_begin(&w);
    json_field_uuid(&w, "intentId", &payment->intent_id);
    json_field_int(&w, "amount", payment->amount);
    json_field_text(&w, "currency", payment->currency);
    json_field_text(&w, "method", payment->method);
    json_field_text(&w, "org", payment->org);
    json_field_text(&w, "event", payment->event);
    json_field_text(&w, "user", payment->user);
    json_object_end(&w);
}

static void
write_url(struct payment_call *call, const char *intent)
{
    struct buf *url = &call->http->url;

    buf_append_text(url, call->room->node->config->payment_url);
    if (!call->is_ask)
        return;
    if (url->len > 0 && url->data[url->len - 1] != '/')
        buf_append_char(url, '/');
    buf_append_text(url, intent);
}

/* Signed times are the database's, as all of ours. */
static int64_t
unix_now(const struct node *node)
{
    struct db_time now;
    int64_t error_us;

    if (db_clock_read(node->clock, mono_now(), &now, &error_us))
        return now.us / TIME_US_PER_S;
    return (int64_t)time(NULL);
}

static bool
add_header(struct http_call *http, const char *name, const char *value)
{
    char line[sizeof(SIGNATURE_HEADER) + 2 + SIGNATURE_BYTES];

    snprintf(line, sizeof(line), "%s: %s", name, value);
    struct curl_slist *grown = curl_slist_append(http->headers, line);
    if (grown != NULL)
        http->headers = grown;
    return grown != NULL;
}

static bool
write_headers(struct payment_call *call, const char *intent)
{
    const struct node *node = call->room->node;
    struct slice body = call->is_ask ? slice_of(intent) : buf_slice(&call->http->request);
    char signature[SIGNATURE_BYTES];

    return signature_make(slice_of(node->config->payment_secret), unix_now(node), body,
                          signature) &&
           add_header(call->http, SIGNATURE_HEADER, signature) &&
           (call->is_ask || (add_header(call->http, "Idempotency-Key", intent) &&
                             add_header(call->http, "Content-Type", "application/json")));
}

static bool
write_request(struct payment_call *call)
{
    struct http_call *http = call->http;
    char intent[UUID_TEXT_BYTES];

    uuid_format(&call->payment.intent_id, intent);
    write_url(call, intent);
    if (!call->is_ask)
        write_charge(&http->request, &call->payment);
    return !http->url.failed && !http->request.failed && write_headers(call, intent);
}

/* --- a transfer ------------------------------------------------------------------------------ */

static bool
set_callbacks(CURL *easy, struct payment_call *call)
{
    struct http_call *http = call->http;

    return curl_easy_setopt(easy, CURLOPT_PRIVATE, call) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, http->error) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, about_to_send) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PREREQDATA, http) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_header) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HEADERDATA, http) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_WRITEDATA, http) == CURLE_OK;
}

static bool
set_request(CURL *easy, const struct payment_call *call)
{
    const struct http_call *http = call->http;

    if (curl_easy_setopt(easy, CURLOPT_URL, http->url.data) != CURLE_OK ||
        curl_easy_setopt(easy, CURLOPT_HTTPHEADER, http->headers) != CURLE_OK)
        return false;
    return call->is_ask ||
           (curl_easy_setopt(easy, CURLOPT_POSTFIELDS, http->request.data) == CURLE_OK &&
            curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, (long)http->request.len) == CURLE_OK);
}

static bool
send_request(struct payment_call *call)
{
    struct payments *room = call->room;
    struct http_call *http = call->http = calloc(1, sizeof(*call->http));

    if (http == NULL || !write_request(call))
        return false;
    long timeout_ms = (long)(room->node->config->payment_provider_timeout / TIME_US_PER_MS);
    CURL *easy = curl_easy_init();
    if (easy == NULL)
        return false;
    if (!outgoing_set_manners(easy, timeout_ms) || !set_callbacks(easy, call) ||
        !set_request(easy, call) || curl_multi_add_handle(room->multi, easy) != CURLM_OK) {
        curl_easy_cleanup(easy);
        return false;
    }
    http->easy = easy;
    return true;
}

static void
http_begin(struct payment_call *call)
{
    char error[256];

    /* It was charged here in other times: http is not set up any more, on this node. */
    if (!http_check(call->room->node->config, error, sizeof(error)) || !send_request(call))
        payment_call_answer(call, PAYMENT_UNREACHED);
}

static void
http_end(struct payment_call *call)
{
    struct http_call *http = call->http;

    if (http == NULL)
        return;
    if (http->easy != NULL) {
        curl_multi_remove_handle(call->room->multi, http->easy);
        curl_easy_cleanup(http->easy);
    }
    curl_slist_free_all(http->headers);
    buf_fini(&http->url);
    buf_fini(&http->request);
    buf_fini(&http->answer);
    free(http);
    call->http = NULL;
}

/* --- an answer ------------------------------------------------------------------------- */

static bool
read_status(struct slice body, enum payment_outcome *outcome)
{
    struct json_error error;
    cJSON *tree = json_parse(body, &error);
    const char *status = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(tree, "status"));
    bool known = true;

    if (status != NULL && strcmp(status, "succeeded") == 0)
        *outcome = PAYMENT_PAID;
    else if (status != NULL && strcmp(status, "failed") == 0)
        *outcome = PAYMENT_DECLINED;
    else if (status != NULL && strcmp(status, "pending") == 0)
        *outcome = PAYMENT_UNDECIDED;
    else
        known = false;
    cJSON_Delete(tree);
    return known;
}

bool
http_answer_means(bool is_ask, long status, struct slice body, enum payment_outcome *outcome)
{
    if (status == 200)
        return read_status(body, outcome);
    if (status == 402)
        *outcome = PAYMENT_DECLINED;
    else if (status == 404 && is_ask)
        *outcome = PAYMENT_UNDECIDED;
    else
        return false;
    return true;
}

static void
log_once(struct payments *room, const struct http_call *http, CURLcode code, long status)
{
    if (!room->http_fails)
        LOG_EVENT(
            LOG_WARN, "payment_provider_fails",
            log_text("error", http->error[0] != '\0' ? http->error : curl_easy_strerror(code)),
            log_int("http_status", status));
    room->http_fails = true;
}

static void
log_recovery(struct payments *room)
{
    if (room->http_fails)
        LOG_EVENT(LOG_INFO, "payment_provider_answers", log_text("provider", "http"));
    room->http_fails = false;
}

static void
transfer_is_over(struct payment_call *call, CURLcode code)
{
    struct http_call *http = call->http;
    enum payment_outcome outcome;
    long status = 0;

    curl_easy_getinfo(http->easy, CURLINFO_RESPONSE_CODE, &status);
    if (code == CURLE_OK &&
        http_answer_means(call->is_ask, status, buf_slice(&http->answer), &outcome)) {
        log_recovery(call->room);
    } else {
        log_once(call->room, http, code, status);
        outcome = call->is_ask || !http->may_have_left ? PAYMENT_UNREACHED : PAYMENT_UNDECIDED;
    }
    payment_call_answer(call, outcome);
}

void
http_turn(struct payments *room)
{
    CURLMsg *message;
    int left;

    curl_multi_perform(room->multi, &left);
    while ((message = curl_multi_info_read(room->multi, &left)) != NULL) {
        CURLcode code = message->data.result; /* the message goes with its handle */
        char *call = NULL;
        if (message->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &call);
        transfer_is_over((struct payment_call *)(void *)call, code);
    }
}

const struct provider provider_http = { "http", http_check, http_begin, http_end };
