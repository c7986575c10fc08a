/*
 * mail_text.c - what a mail says: plain text in UTF-8, the same for everybody.
 *
 * Header lines are made of our own words, checked addresses and encoded words (RFC 2047); whatever
 * came from a client stands base64-encoded, so nothing of it can become a line of its own.
 */
#include <cjson/cJSON.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "delivery_internal.h"
#include "holdfast/json.h"

#define LINE_BYTES   57 /* 76 characters in base64 */
#define WORD_BYTES   39 /* 52 characters: no line with an encoded word may have more than 76 */
#define BASE64_BYTES (4 * ((LINE_BYTES + 2) / 3) + 1)

/* --- encodings ---------------------------------------------------------------------------------
 */

static void
append_base64(struct buf *out, struct slice piece)
{
    unsigned char text[BASE64_BYTES];

    hf_assert(piece.len <= LINE_BYTES);
    int len = EVP_EncodeBlock(text, (const unsigned char *)piece.ptr, (int)piece.len);
    buf_append(out, text, (size_t)len);
}

/* As many bytes as fit, without a character that is cut in two. */
static size_t
whole_characters(struct slice text, size_t most)
{
    size_t len = most;

    if (text.len <= most)
        return text.len;
    while (len > 0 && ((unsigned char)text.ptr[len] & 0xC0) == 0x80)
        len--;
    return len > 0 ? len : most;
}

static void
append_words(struct buf *out, struct slice text)
{
    const char *between = "";

    while (text.len > 0) {
        size_t len = whole_characters(text, WORD_BYTES);
        buf_append_text(out, between);
        buf_append_text(out, "=?UTF-8?B?");
        append_base64(out, (struct slice){ text.ptr, len });
        buf_append_text(out, "?=");
        between = "\r\n ";
        text = (struct slice){ text.ptr + len, text.len - len };
    }
}

static void
append_lines(struct buf *out, struct slice text)
{
    while (text.len > 0) {
        size_t len = text.len < LINE_BYTES ? text.len : LINE_BYTES;
        append_base64(out, (struct slice){ text.ptr, len });
        buf_append_text(out, "\r\n");
        text = (struct slice){ text.ptr + len, text.len - len };
    }
}

/* A name within a line: its control characters would be lines of their own. */
static void
append_name(struct buf *out, struct slice name)
{
    for (size_t i = 0; i < name.len; i++)
        buf_append_char(out, (unsigned char)name.ptr[i] < ' ' || name.ptr[i] == 0x7F ? ' '
                                                                                     : name.ptr[i]);
}

/* --- what the payload has ------------------------------------------------------------------------
 */

static struct slice
text_of(const cJSON *payload, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(payload, name);

    return cJSON_IsString(item) ? slice_of(item->valuestring) : SLICE_EMPTY;
}

/* ISO 4217: most have two digits behind the point. */
static int
digits_of(struct slice currency)
{
    static const char none[] =
        "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF";
    static const char three[] = "BHD IQD JOD KWD LYD OMR TND";

    if (currency.len == 3 && memmem(none, sizeof(none) - 1, currency.ptr, 3) != NULL)
        return 0;
    return currency.len == 3 && memmem(three, sizeof(three) - 1, currency.ptr, 3) != NULL ? 3 : 2;
}

static void
append_amount(struct buf *out, const cJSON *payload)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(payload, "amount");
    struct slice currency = text_of(payload, "currency");
    int digits = digits_of(currency);
    int64_t unit = digits == 0 ? 1 : digits == 2 ? 100 : 1000;
    int64_t amount;

    if (!json_is_int(item, 0, INT64_MAX, &amount))
        return;
    buf_printf(out, "Amount: %lld", (long long)(amount / unit));
    if (digits > 0)
        buf_printf(out, ".%0*lld", digits, (long long)(amount % unit));
    buf_printf(out, " %.*s\n", SLICE_ARG(currency));
}

/* "  A-1" for a seat, "  2 x floor" for an area. */
static void
append_place(struct buf *out, const cJSON *place)
{
    struct slice area = text_of(place, "area_id");
    struct slice ticket = text_of(place, "ticket_id");
    int64_t quantity;

    buf_append_text(out, "  ");
    if (cJSON_IsString(place))
        append_name(out, slice_of(place->valuestring));
    append_name(out, text_of(place, "seat_id"));
    if (json_is_int(cJSON_GetObjectItemCaseSensitive(place, "quantity"), 1, INT32_MAX, &quantity))
        buf_printf(out, "%lld x ", (long long)quantity);
    append_name(out, area);
    if (ticket.len > 0) {
        buf_append_text(out, ": ticket ");
        append_name(out, ticket);
    }
    buf_append_char(out, '\n');
}

static void
append_places(struct buf *out, const cJSON *payload, const char *list)
{
    const cJSON *place;

    cJSON_ArrayForEach(place, cJSON_GetObjectItemCaseSensitive(payload, list))
        append_place(out, place);
}

static void
append_id(struct buf *out, const cJSON *payload, const char *name, const char *label)
{
    struct slice id = text_of(payload, name);

    if (id.len == 0)
        return;
    buf_append_text(out, label);
    append_name(out, id);
    buf_append_char(out, '\n');
}

/* --- each kind
 * ------------------------------------------------------------------------------------ */

static void
write_tickets(struct buf *out, const cJSON *payload)
{
    buf_append_text(out, "Thank you. These are your tickets:\n\n");
    append_places(out, payload, "tickets");
    buf_append_char(out, '\n');
    append_amount(out, payload);
}

static void
write_expired(struct buf *out, const cJSON *payload)
{
    buf_append_text(out, "The time to pay for your seats ran out, so they are on sale again:\n\n");
    append_places(out, payload, "seats");
    append_places(out, payload, "areas");
    buf_append_text(out, "\nYou can choose again as long as there are seats.\n");
}

static void
write_refund(struct buf *out, const cJSON *payload)
{
    buf_append_text(out, "Your payment came when your seats could not be kept for you any longer. "
                         "It bought nothing, and will be given back.\n\n");
    append_amount(out, payload);
}

static void
write_assigned(struct buf *out, const cJSON *payload)
{
    buf_append_text(out, "You were waiting for a seat, and one is yours now:\n\n");
    append_id(out, payload, "seat_id", "  ");
}

static void
write_offered(struct buf *out, const cJSON *payload)
{
    buf_append_text(out, "You were waiting for a seat, and one is kept for you:\n\n");
    append_id(out, payload, "seat_id", "  ");
    append_id(out, payload, "expires_at", "\nConfirm it, or it goes to the next one at ");
}

static void
write_lapsed(struct buf *out, const cJSON *payload)
{
    buf_append_text(out,
                    "You did not confirm the seat that was kept for you, so it went to the next "
                    "one:\n\n");
    append_id(out, payload, "seat_id", "  ");
    buf_append_text(out, "\nYou can join the waitlist again, at its end.\n");
}

static const struct letter {
    const char *kind;
    const char *subject; /* the event's name follows */
    void (*write)(struct buf *out, const cJSON *payload);
} letters[] = {
    { "checkout.completed", "Your tickets: ", write_tickets },
    { "hold.expired", "Your seats were released: ", write_expired },
    { "payment.refund_required", "You get your money back: ", write_refund },
    { "waitlist.assigned", "A seat for you: ", write_assigned },
    { "waitlist.offered", "A seat is kept for you: ", write_offered },
    { "waitlist.lapsed", "Your seat went to the next one: ", write_lapsed },
};

static const struct letter *
letter_of(struct slice kind)
{
    for (size_t i = 0; i < sizeof(letters) / sizeof(letters[0]); i++) {
        if (slice_is(kind, letters[i].kind))
            return &letters[i];
    }
    return NULL;
}

/* --- the message
 * ------------------------------------------------------------------------------------ */

static void
write_body(struct buf *out, const struct letter *letter, const struct mail *mail)
{
    struct json_error error;
    cJSON *payload = json_parse(mail->payload, &error);
    struct buf text = { 0 };

    append_name(&text, mail->event_name);
    buf_append_text(&text, "\n\n");
    letter->write(&text, payload);
    append_id(&text, payload, "checkout_id", "Checkout: ");
    append_lines(out, buf_slice(&text));
    out->failed = out->failed || text.failed || payload == NULL;
    buf_fini(&text);
    cJSON_Delete(payload);
}

static void
write_subject(struct buf *out, const struct letter *letter, const struct mail *mail)
{
    struct buf subject = { 0 };

    buf_append_text(&subject, letter->subject);
    append_name(&subject, mail->event_name);
    append_words(out, buf_slice(&subject));
    out->failed = out->failed || subject.failed;
    buf_fini(&subject);
}

/* The same mail has the same Message-ID, also when it is sent twice. */
static void
write_head(struct buf *out, const struct letter *letter, const struct mail *mail)
{
    const char *at = memchr(mail->from.ptr, '@', mail->from.len);
    char date[64];
    struct tm parts;
    time_t seconds = (time_t)mail->unix_s;

    gmtime_r(&seconds, &parts);
    strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S +0000", &parts);
    buf_printf(out, "Date: %s\r\nFrom: <%.*s>\r\nTo: <%.*s>\r\n", date, SLICE_ARG(mail->from),
               SLICE_ARG(mail->to));
    buf_printf(out, "Message-ID: <%lld.%.*s%.*s>\r\n", (long long)mail->id, SLICE_ARG(mail->org),
               at != NULL ? (int)(mail->from.ptr + mail->from.len - at) : 0, at != NULL ? at : "");
    buf_append_text(out, "Subject: ");
    write_subject(out, letter, mail);
    buf_append_text(out, "\r\nAuto-Submitted: auto-generated\r\nMIME-Version: 1.0\r\n"
                         "Content-Type: text/plain; charset=utf-8\r\n"
                         "Content-Transfer-Encoding: base64\r\n\r\n");
}

bool
mail_write(struct buf *out, const struct mail *mail)
{
    const struct letter *letter = letter_of(mail->kind);
    if (letter == NULL)
        return false;
    write_head(out, letter, mail);
    write_body(out, letter, mail);
    return !out->failed;
}
