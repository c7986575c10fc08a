/*
 * webhook.c - what an organization's webhook is sent, and what may be one.
 *
 * A call has events of one event_id, in order:
 *   {"org_id":..., "event_id":...,
 * "events":[{"id":1,"kind":"seat.held","event_id":...,"at":...,"data":{...}}]} The same event may
 * come again: a consumer drops ids that it has seen.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "delivery_internal.h"
#include "holdfast/json.h"
#include "holdfast/signature.h"

#define BODY_BYTES_MAX (256 * 1024)

/* --- the call -----------------------------------------------------------------------------------
 */

static void
write_event(struct json_writer *w, const struct transfer *transfer,
            const struct outbox_event *event)
{
    json_object_begin(w);
    json_field_int(w, "id", event->told_as);
    json_field_text(w, "kind", event->kind);
    json_field_text(w, "event_id", transfer->event);
    json_field_text(w, "at", event->at);
    json_name(w, "data");
    json_raw(w, event->payload);
    json_object_end(w);
}

bool
webhook_add(struct transfer *transfer, const struct outbox_event *event)
{
    struct buf *body = &transfer->body;
    struct json_writer w;

    if (transfer->events > 0 && body->len + event->payload.len > BODY_BYTES_MAX)
        return false;
    json_writer_init(&w, body);
    if (transfer->events == 0) {
        buf_append_text(body, "{\"org_id\":");
        json_text(&w, transfer->org);
        buf_append_text(body, ",\"event_id\":");
        json_writer_init(&w, body);
        json_text(&w, transfer->event);
        buf_append_text(body, ",\"events\":[");
    } else {
        buf_append_char(body, ',');
    }
    json_writer_init(&w, body);
    write_event(&w, transfer, event);
    transfer->events++;
    return true;
}

static bool
add_header(struct transfer *transfer, const char *line)
{
    struct curl_slist *longer = curl_slist_append(transfer->headers, line);

    if (longer != NULL)
        transfer->headers = longer;
    return longer != NULL;
}

static bool
add_headers(struct transfer *transfer, struct slice secret)
{
    char signature[SIGNATURE_BYTES];
    char line[sizeof(SIGNATURE_HEADER) + 2 + SIGNATURE_BYTES];

    if (!signature_make(secret, time(NULL), buf_slice(&transfer->body), signature))
        return false;
    snprintf(line, sizeof(line), SIGNATURE_HEADER ": %s", signature);
    return add_header(transfer, line) && add_header(transfer, "Content-Type: application/json") &&
           add_header(transfer, "Expect:"); /* the body is small: no question before it */
}

static bool
set_options(struct transfer *transfer, const char *url)
{
    CURL *easy = transfer->easy;

    return curl_easy_setopt(easy, CURLOPT_URL, url) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PROXY, "") == CURLE_OK && /* not the environment's */
           curl_easy_setopt(easy, CURLOPT_USERAGENT, "holdfast/" HOLDFAST_VERSION) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HTTPHEADER, transfer->headers) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)transfer->body.len) ==
               CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_POSTFIELDS, transfer->body.data) == CURLE_OK;
}

void
webhook_prepare(struct transfer *transfer, const char *url, struct slice secret,
                const struct config *config)
{
    transfer->allow_private = config->delivery_allow_private;
    buf_append_text(&transfer->body, "]}");
    if (transfer->body.failed || !add_headers(transfer, secret) || !set_options(transfer, url))
        transfer_fail(transfer, TRANSFER_FAILED, "it could not be written");
}

/* --- what may be one -----------------------------------------------------------------------------
 */

static const char *const kinds[] = {
    "seat.held",
    "seat.released",
    "seat.sold",
    "hold.expired",
    "checkout.started",
    "checkout.completed",
    "checkout.cancelled",
    "checkout.failed",
    "payment.pending",
    "payment.failed",
    "payment.refund_required",
    "waitlist.offered",
    "waitlist.assigned",
    "waitlist.lapsed",
    "checkin.completed",
    "baggage.payment_required",
};

bool
webhook_kind_is_known(struct slice kind)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (slice_is(kind, kinds[i]))
            return true;
    }
    return false;
}

/* Empty: the URL has no such part. The caller frees it with curl_free. */
static char *
part_of(CURLU *url, CURLUPart part)
{
    char *text = NULL;

    return curl_url_get(url, part, &text, 0) == CURLUE_OK ? text : NULL;
}

/* A name tells nothing before it is looked up: then the address is judged. */
static bool
host_is_of_own_network(const char *host)
{
    struct sockaddr_in v4 = { .sin_family = AF_INET };
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
    char bare[INET6_ADDRSTRLEN] = "";
    size_t len = strlen(host);

    if (len > 2 && host[0] == '[' && len - 2 < sizeof(bare))
        memcpy(bare, host + 1, len - 2);
    if (inet_pton(AF_INET6, bare, &v6.sin6_addr) == 1)
        return address_is_of_own_network((const struct sockaddr *)&v6);
    if (inet_pton(AF_INET, host, &v4.sin_addr) == 1)
        return address_is_of_own_network((const struct sockaddr *)&v4);
    return strcasecmp(host, "localhost") == 0 ||
           (len > 10 && strcasecmp(host + len - 10, ".localhost") == 0);
}

static const char *
parts_fault(CURLU *url, bool allow_private)
{
    char *scheme = part_of(url, CURLUPART_SCHEME);
    char *host = part_of(url, CURLUPART_HOST);
    char *user = part_of(url, CURLUPART_USER);
    const char *fault = NULL;

    if (scheme == NULL || (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0))
        fault = "is not an http or https URL";
    else if (host == NULL || host[0] == '\0')
        fault = "has no host";
    else if (user != NULL)
        fault = "has a user in it: calls are signed instead";
    else if (!allow_private && host_is_of_own_network(host))
        fault = "leads into this server's own network";
    curl_free(scheme);
    curl_free(host);
    curl_free(user);
    return fault;
}

const char *
webhook_url_fault(const char *url, bool allow_private)
{
    CURLU *parsed = curl_url();
    const char *fault = "is not an http or https URL";

    if (strlen(url) > WEBHOOK_URL_BYTES_MAX)
        fault = "is too long";
    else if (parsed != NULL && curl_url_set(parsed, CURLUPART_URL, url, 0) == CURLUE_OK)
        fault = parts_fault(parsed, allow_private);
    curl_url_cleanup(parsed);
    return fault;
}
