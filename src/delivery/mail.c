/*
 * mail.c - one mail on its way to the SMTP server (smtp_url).
 *
 * smtps:// speaks TLS from the beginning; smtp:// turns to it where the server offers that, and
 * insists on it where the URL has a password.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "delivery_internal.h"

#define ADDRESS_BYTES_MAX 254 /* RFC 5321 */
#define LOCAL_BYTES_MAX   64

/* --- addresses ------------------------------------------------------------------------------- */

static bool
is_atom(char c)
{
    return isalnum((unsigned char)c) || (c != '\0' && strchr("!#$%&'*+-/=?^_`{|}~", c) != NULL);
}

static bool
is_label(char c)
{
    return isalnum((unsigned char)c) || c == '-';
}

/* Pieces of such characters with single dots between them. */
static bool
is_dotted(struct slice text, bool (*is_good)(char c))
{
    bool after_dot = true;

    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] == '.' ? after_dot : !is_good(text.ptr[i]))
            return false;
        after_dot = text.ptr[i] == '.';
    }
    return !after_dot;
}

bool
mail_address_is_good(struct slice address)
{
    const char *at = address.len > 0 ? memchr(address.ptr, '@', address.len) : NULL;
    if (at == NULL || address.len > ADDRESS_BYTES_MAX)
        return false;
    struct slice local = { address.ptr, (size_t)(at - address.ptr) };
    struct slice domain = { at + 1, address.len - local.len - 1 };
    return local.len <= LOCAL_BYTES_MAX && is_dotted(local, is_atom) && is_dotted(domain, is_label);
}

/* --- libcurl -----------------------------------------------------------------------------------
 */

static size_t
read_body(char *bytes, size_t size, size_t count, void *context)
{
    struct transfer *transfer = context;
    size_t left = transfer->body.len - transfer->sent;
    size_t len = left < size * count ? left : size * count;

    memcpy(bytes, transfer->body.data + transfer->sent, len);
    transfer->sent += len;
    return len;
}

static bool
has_user(const char *smtp_url)
{
    CURLU *url = curl_url();
    char *user = NULL;
    bool found = url != NULL && curl_url_set(url, CURLUPART_URL, smtp_url, 0) == CURLUE_OK &&
                 curl_url_get(url, CURLUPART_USER, &user, 0) == CURLUE_OK;

    curl_free(user);
    curl_url_cleanup(url);
    return found;
}

static bool
set_options(struct transfer *transfer, const char *to, const char *from, const char *smtp_url)
{
    CURL *easy = transfer->easy;
    long tls = has_user(smtp_url) ? CURLUSESSL_ALL : CURLUSESSL_TRY;

    transfer->recipients = curl_slist_append(NULL, to);
    return transfer->recipients != NULL &&
           curl_easy_setopt(easy, CURLOPT_URL, smtp_url) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "smtp,smtps") == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PROXY, "") == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_USE_SSL, tls) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_MAIL_FROM, from) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_MAIL_RCPT, transfer->recipients) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_READFUNCTION, read_body) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_READDATA, transfer) == CURLE_OK;
}

void
mail_prepare(struct transfer *transfer, const struct outbox_event *event, struct slice event_name,
             const struct config *config)
{
    struct mail mail = { .kind = event->kind,
                         .to = event->email,
                         .from = slice_of(config->smtp_from),
                         .org = transfer->org,
                         .event_name = event_name.len > 0 ? event_name : transfer->event,
                         .payload = event->payload,
                         .id = event->told_as,
                         .unix_s = time(NULL) };
    char to[ADDRESS_BYTES_MAX + 3], from[ADDRESS_BYTES_MAX + 3];

    transfer->allow_private = true; /* the operator named that server, not a tenant */
    transfer->events = 1;
    if (!mail_address_is_good(event->email)) {
        transfer_fail(transfer, TRANSFER_HOPELESS, "no mail can go to this address");
        return;
    }
    snprintf(to, sizeof(to), "<%.*s>", SLICE_ARG(mail.to));
    snprintf(from, sizeof(from), "<%.*s>", SLICE_ARG(mail.from));
    if (!mail_write(&transfer->body, &mail) || !set_options(transfer, to, from, config->smtp_url))
        transfer_fail(transfer, TRANSFER_FAILED, "it could not be written");
}
