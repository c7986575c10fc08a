/*
 * http.c - scales that are asked over HTTP.
 *
 *   ask     POST baggage_provider_url {checkinId, passengerId, flightId, org, weightKg}
 *   answer  200 {weightKg}: what counts
 *
 * Anything else is no weight: the passenger comes again. Asking changes nothing, so it needs no
 * memory of what was asked.
 */
#include <stdio.h>
#include <stdlib.h>

#include <cjson/cJSON.h>

#include "holdfast/buf.h"
#include "holdfast/decimal.h"
#include "holdfast/json.h"
#include "holdfast/log.h"
#include "holdfast/outgoing.h"
#include "scales.h"

#define ANSWER_BYTES_MAX (16 * 1024)

struct http_call {
    CURL *easy;
    struct curl_slist *headers;
    struct buf request, answer;
    char error[CURL_ERROR_SIZE];
};

/* --- settings ------------------------------------------------------------------------- */

static bool
http_check(const struct config *config, char *error, size_t error_bytes)
{
    const char *text = config->baggage_provider_url;

    if (outgoing_url_is_good(text, true))
        return true;
    snprintf(error, error_bytes,
             "baggage_provider_url: '%s' is no http or https URL without a user", text);
    return false;
}

/* --- a request ----------------------------------------------------------------------------- */

static void
write_request(struct buf *out, const struct bag *bag)
{
    char weight[32];
    struct json_writer w;

    snprintf(weight, sizeof(weight), "%lld.%02lld", (long long)(bag->weight / 100),
             (long long)(bag->weight % 100));
    json_writer_init(&w, out);
    json_object_begin(&w);
    json_field_uuid(&w, "checkinId", &bag->checkin);
    json_field_text(&w, "passengerId", bag->passenger);
    json_field_text(&w, "flightId", bag->event);
    json_field_text(&w, "org", bag->org);
    json_name(&w, "weightKg");
    json_raw(&w, slice_of(weight));
    json_object_end(&w);
}

/* Fewer bytes than were given: libcurl gives the transfer up. */
static size_t
take_body(char *bytes, size_t size, size_t len, void *context)
{
    struct buf *answer = &((struct weighing_call *)context)->http->answer;

    (void)size; /* is 1 */
    if (answer->len + len > ANSWER_BYTES_MAX)
        return 0;
    buf_append(answer, bytes, len);
    return answer->failed ? 0 : len;
}

static bool
set_request(CURL *easy, struct weighing_call *call)
{
    struct http_call *http = call->http;

    http->headers = curl_slist_append(NULL, "Content-Type: application/json");
    return http->headers != NULL && !http->request.failed &&
           curl_easy_setopt(easy, CURLOPT_URL, call->room->config->baggage_provider_url) ==
               CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HTTPHEADER, http->headers) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_POSTFIELDS, http->request.data) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, (long)http->request.len) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PRIVATE, call) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, http->error) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_WRITEDATA, call) == CURLE_OK;
}

static bool
send_request(struct weighing_call *call, long timeout_ms)
{
    struct http_call *http = call->http = calloc(1, sizeof(*http));
    CURL *easy = http != NULL ? curl_easy_init() : NULL;

    if (easy == NULL)
        return false;
    write_request(&http->request, &call->bag);
    if (!outgoing_set_manners(easy, timeout_ms) || !set_request(easy, call) ||
        curl_multi_add_handle(call->room->multi, easy) != CURLM_OK) {
        curl_easy_cleanup(easy);
        return false;
    }
    http->easy = easy;
    return true;
}

static void
http_begin(struct weighing_call *call)
{
    int64_t left_ms = (call->patience.us - mono_now().us) / TIME_US_PER_MS;

    if (left_ms <= 0 || !send_request(call, (long)left_ms))
        weighing_answer(call, UNWEIGHED, 0);
}

static void
http_end(struct weighing_call *call)
{
    struct http_call *http = call->http;

    if (http == NULL)
        return;
    if (http->easy != NULL) {
        curl_multi_remove_handle(call->room->multi, http->easy);
        curl_easy_cleanup(http->easy);
    }
    curl_slist_free_all(http->headers);
    buf_fini(&http->request);
    buf_fini(&http->answer);
    free(http);
    call->http = NULL;
}

/* --- an answer ----------------------------------------------------------------------------- */

/* Fifteen digits are those that were written; a weight has fewer. */
bool
scales_http_weight(struct slice body, int64_t *weight)
{
    struct json_error error;
    cJSON *tree = json_parse(body, &error);
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(tree, "weightKg");
    char text[40];
    bool known = cJSON_IsNumber(item);

    if (known) {
        snprintf(text, sizeof(text), "%.15g", item->valuedouble);
        known = decimal_hundredths_up(slice_of(text), weight);
    }
    cJSON_Delete(tree);
    return known;
}

static void
log_change(struct baggage *room, bool fails, const char *error, long status)
{
    if (fails && !room->fails)
        LOG_EVENT(LOG_WARN, "baggage_provider_fails", log_text("error", error),
                  log_int("http_status", status));
    if (!fails && room->fails)
        LOG_EVENT(LOG_INFO, "baggage_provider_answers", log_text("provider", "http"));
    room->fails = fails;
}

static void
transfer_is_over(struct weighing_call *call, CURLcode code)
{
    struct http_call *http = call->http;
    int64_t weight = 0;
    long status = 0;

    curl_easy_getinfo(http->easy, CURLINFO_RESPONSE_CODE, &status);
    bool is_known =
        code == CURLE_OK && status == 200 && scales_http_weight(buf_slice(&http->answer), &weight);
    log_change(call->room, !is_known,
               http->error[0] != '\0' ? http->error : curl_easy_strerror(code), status);
    weighing_answer(call, is_known ? WEIGHED : UNWEIGHED, weight);
}

void
scales_http_turn(struct baggage *room)
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
        transfer_is_over((struct weighing_call *)(void *)call, code);
    }
}

const struct scales scales_http = { "http", true, http_check, http_begin, http_end };
