/*
 * transfer.c - one delivery under way: given to libcurl, heard of again, judged.
 *
 * All wait side by side in one multi handle. What webhooks may connect to is decided when the
 * socket is opened, by the address that the name led to: a name that means another address at the
 * next look gains nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "delivery_internal.h"
#include "holdfast/metrics.h"

#define ANSWER_BYTES_MAX                                                                           \
    (64 * 1024) /* with its header; nobody reads it: who says more is cut off */
#define ERROR_BYTES CURL_ERROR_SIZE

struct transfer *
transfer_new(enum channel channel, struct slice org, struct slice subject, struct slice event)
{
    struct arena arena = { 0 };
    struct transfer *transfer = arena_alloc(&arena, sizeof(*transfer));
    if (transfer == NULL)
        return NULL;
    transfer->channel = channel;
    transfer->org = arena_copy(&arena, org);
    transfer->subject = arena_copy(&arena, subject);
    transfer->event = arena_copy(&arena, event);
    transfer->arena = arena;
    transfer->easy = curl_easy_init();
    if (transfer->org.ptr == NULL || transfer->subject.ptr == NULL || transfer->event.ptr == NULL ||
        transfer->easy == NULL) {
        transfer_free(transfer);
        return NULL;
    }
    return transfer;
}

void
transfer_free(struct transfer *transfer)
{
    struct arena arena = transfer->arena; /* the transfer stands in it */

    curl_easy_cleanup(transfer->easy);
    curl_slist_free_all(transfer->headers);
    curl_slist_free_all(transfer->recipients);
    buf_fini(&transfer->body);
    arena_fini(&arena);
}

/* The receiver's own words, or half a character, may be in it: what isn't ASCII goes nowhere. */
void
transfer_fail(struct transfer *transfer, enum transfer_outcome outcome, const char *error)
{
    char text[ERROR_BYTES];

    snprintf(text, sizeof(text), "%s", error);
    for (char *at = text; *at != '\0'; at++) {
        if (*at < ' ' || *at > '~')
            *at = '?';
    }
    struct slice kept = arena_copy(&transfer->arena, slice_of(text));
    transfer->outcome = outcome;
    transfer->error = kept.ptr != NULL ? kept.ptr : "no memory";
}

/* --- what libcurl asks ---------------------------------------------------------------------- */

static size_t
drop_answer(char *bytes, size_t size, size_t count, void *context)
{
    struct transfer *transfer = context;

    (void)bytes;
    transfer->heard += size * count;
    return transfer->heard <= ANSWER_BYTES_MAX ? size * count : 0;
}

static curl_socket_t
open_socket(void *context, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct transfer *transfer = context;

    (void)purpose;
    if (!transfer->allow_private && address_is_of_own_network(&address->addr)) {
        transfer->is_own_network = true;
        return CURL_SOCKET_BAD;
    }
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static bool
prepare_common(struct delivery *delivery, struct transfer *transfer)
{
    CURL *easy = transfer->easy;
    long timeout_ms = (long)(delivery->node->config->delivery_timeout / TIME_US_PER_MS);

    return curl_easy_setopt(easy, CURLOPT_PRIVATE, transfer) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
           /* A receiver's silent name server must not stop the thread when its time is over. */
           curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, timeout_ms) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer->curl_error) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, drop_answer) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, drop_answer) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HEADERDATA, transfer) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, transfer) == CURLE_OK;
}

/* --- its way ---------------------------------------------------------------------------------- */

static void
add_to(struct transfer **list, struct transfer *transfer)
{
    transfer->next = *list;
    *list = transfer;
}

void
transfer_begin(struct delivery *delivery, struct transfer *transfer)
{
    delivery->count++;
    if (transfer->outcome == TRANSFER_UNDER_WAY &&
        (!prepare_common(delivery, transfer) ||
         curl_multi_add_handle(delivery->multi, transfer->easy) != CURLM_OK))
        transfer_fail(transfer, TRANSFER_LEFT, "no memory");
    add_to(transfer->outcome == TRANSFER_UNDER_WAY ? &delivery->under_way : &delivery->over,
           transfer);
}

static bool
was_sent_whole(const struct transfer *transfer)
{
    curl_off_t sent = -1;

    curl_easy_getinfo(transfer->easy, CURLINFO_SIZE_UPLOAD_T, &sent);
    return sent == (curl_off_t)transfer->body.len;
}

/* What the receiver of a webhook says counts, also where the rest of its answer is too long, cut or
 * doesn't come. */
static bool
was_taken(const struct transfer *transfer, CURLcode result)
{
    long status = 0;

    curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
    return status / 100 == 2 && (result == CURLE_OK || (transfer->channel == CHANNEL_WEBHOOK &&
                                                        was_sent_whole(transfer)));
}

static void
say_why(struct transfer *transfer, CURLcode result)
{
    char error[ERROR_BYTES];
    long status = 0;

    curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
    if (transfer->is_own_network)
        snprintf(error, sizeof(error), "its address belongs to this node's own network");
    else if (result == CURLE_OK)
        snprintf(error, sizeof(error), "it answered %ld", status);
    else
        snprintf(error, sizeof(error), "%s",
                 transfer->curl_error[0] != '\0' ? transfer->curl_error
                                                 : curl_easy_strerror(result));
    transfer_fail(transfer, TRANSFER_FAILED, error);
}

static void
unlink_from(struct transfer **list, const struct transfer *transfer)
{
    while (*list != transfer)
        list = &(*list)->next;
    *list = transfer->next;
}

static void
end(struct delivery *delivery, CURL *easy, CURLcode result)
{
    struct transfer *transfer = NULL;

    curl_easy_getinfo(easy, CURLINFO_PRIVATE, &transfer);
    hf_must(curl_multi_remove_handle(delivery->multi, easy));
    if (was_taken(transfer, result))
        transfer->outcome = TRANSFER_TOLD;
    else
        say_why(transfer, result);
    unlink_from(&delivery->under_way, transfer);
    add_to(&delivery->over, transfer);
}

void
transfers_run(struct delivery *delivery)
{
    const CURLMsg *message;
    int running, left;

    if (curl_multi_perform(delivery->multi, &running) != CURLM_OK)
        return; /* no memory; each has its timeout */
    while ((message = curl_multi_info_read(delivery->multi, &left)) != NULL) {
        if (message->msg == CURLMSG_DONE)
            end(delivery, message->easy_handle, message->data.result);
    }
}

void
transfers_leave(struct delivery *delivery)
{
    struct transfer *transfer;

    while ((transfer = delivery->under_way) != NULL) {
        hf_must(curl_multi_remove_handle(delivery->multi, transfer->easy));
        delivery->under_way = transfer->next;
        transfer->outcome = TRANSFER_LEFT;
        add_to(&delivery->over, transfer);
    }
}
