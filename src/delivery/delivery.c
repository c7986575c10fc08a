/*
 * delivery.c - the thread: what is due when.
 *
 * It waits for receivers in libcurl, and looks into the outbox in between: often while something
 * may be told soon, else five times a second. Statements block it for a moment; receivers' answers
 * wait that long in their sockets.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "delivery_internal.h"
#include "holdfast/cold.h"
#include "holdfast/log.h"

#define LOOK_US     (200 * TIME_US_PER_MS)
#define SOON_US     (20 * TIME_US_PER_MS) /* when what was seen waits for older transactions only */
#define PURGE_US    (10 * (int64_t)TIME_US_PER_S)
#define NUMBERS_US  (15 * (int64_t)TIME_US_PER_S) /* counting takes as long as much waits */
#define REPLAN_US   (10 * (int64_t)TIME_US_PER_S) /* plans made on small tables are ruinous later */
#define CONNECT_US  (1 * (int64_t)TIME_US_PER_S)
#define STOP_US     (1 * (int64_t)TIME_US_PER_S)
#define STACK_BYTES (512 * 1024)

/* --- a turn --------------------------------------------------------------------------------- */

static void
look_into_outbox(struct delivery *delivery)
{
    if (mono_is_due(&delivery->route_due, LOOK_US)) {
        if (delivery_route(delivery))
            delivery->route_due.us = mono_now().us + SOON_US;
        delivery->take_due.us = 0;
    }
    if (delivery->count < delivery->node->config->delivery_under_way &&
        mono_is_due(&delivery->take_due, LOOK_US))
        delivery_take(delivery);
    if (mono_is_due(&delivery->purge_due, PURGE_US))
        delivery_purge(delivery);
    if (mono_is_due(&delivery->numbers_due, NUMBERS_US))
        delivery_count(delivery);
    if (mono_is_due(&delivery->replan_due, REPLAN_US) && pg_replan(delivery->pg) != PG_DONE)
        LOG_EVENT(LOG_DEBUG, "replan_failed", log_text("error", pg_last_error(delivery->pg)));
}

/* What was told makes room, and its event may have more. */
static void
settle_what_is_over(struct delivery *delivery)
{
    if (delivery->over != NULL && delivery_settle(delivery))
        delivery->take_due.us = 0;
}

static void
turn(struct delivery *delivery, bool takes)
{
    transfers_run(delivery);
    if (!pg_ready_until(delivery->pg, delivery_deadline(delivery, CONNECT_US)))
        return;
    settle_what_is_over(delivery);
    if (takes)
        look_into_outbox(delivery);
}

/* Until a receiver has something to say, we do, or we are told to stop. */
static void
wait_for_next_turn(struct delivery *delivery)
{
    int64_t now = mono_now().us;
    int64_t due = delivery->route_due.us < delivery->take_due.us ? delivery->route_due.us
                                                                 : delivery->take_due.us;
    int64_t wait_us = due < now + SOON_US ? SOON_US : due - now;

    if (curl_multi_poll(delivery->multi, NULL, 0, (int)(wait_us / TIME_US_PER_MS), NULL) !=
        CURLM_OK)
        sleep_us(SOON_US);
}

static void *
delivery_main(void *argument)
{
    struct delivery *delivery = argument;

    while (!atomic_load(&delivery->stopping)) {
        turn(delivery, true);
        wait_for_next_turn(delivery);
    }
    while (delivery->under_way != NULL && mono_now().us < atomic_load(&delivery->stop_by_us)) {
        turn(delivery, false);
        wait_for_next_turn(delivery);
    }
    transfers_leave(delivery);
    turn(delivery, false);
    return NULL;
}

/* --- start and stop ----------------------------------------------------------------------------
 */

static bool
smtp_url_is_good(const char *text)
{
    CURLU *url = curl_url();
    char *scheme = NULL;
    bool good = url != NULL && curl_url_set(url, CURLUPART_URL, text, 0) == CURLUE_OK &&
                curl_url_get(url, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
                (strcmp(scheme, "smtp") == 0 || strcmp(scheme, "smtps") == 0);

    curl_free(scheme);
    curl_url_cleanup(url);
    return good;
}

bool
delivery_check(const struct config *config, char *error, size_t error_bytes)
{
    const char *wrong = NULL;

    if (mail_is_on(config) && !smtp_url_is_good(config->smtp_url))
        wrong = "smtp_url is not an smtp or smtps URL";
    else if (mail_is_on(config) && !mail_address_is_good(slice_of(config->smtp_from)))
        wrong = "smtp_from is not a mail address, and smtp_url is set";
    else if (config->outbox_retention < config->delivery_give_up)
        wrong = "outbox_retention is shorter than delivery_give_up";
    if (wrong != NULL)
        snprintf(error, error_bytes, "%s", wrong);
    return wrong == NULL;
}

static void
delivery_free(struct delivery *delivery)
{
    hf_assert(delivery->under_way == NULL);
    while (delivery->over != NULL) {
        struct transfer *transfer = delivery->over;
        delivery->over = transfer->next;
        transfer_free(transfer);
    }
    if (delivery->multi != NULL)
        curl_multi_cleanup(delivery->multi);
    if (delivery->pg != NULL)
        pg_free(&delivery->pg);
    free(delivery);
    curl_global_cleanup();
}

struct delivery *
delivery_start(struct node *node, char *error, size_t error_bytes)
{
    struct delivery *delivery = calloc(1, sizeof(*delivery));
    if (delivery == NULL || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        snprintf(error, error_bytes, "no memory for delivery");
        free(delivery);
        return NULL;
    }
    delivery->node = node;
    delivery->deadline_us = INT64_MAX;
    delivery->multi = curl_multi_init();
    delivery->pg = pg_new(node->config, "holdfast delivery", node->identity, node->clock);
    delivery->purge_due.us = mono_now().us + PURGE_US;
    delivery->replan_due.us = mono_now().us + REPLAN_US;
    if (delivery->multi == NULL || delivery->pg == NULL ||
        !thread_start(&delivery->thread, STACK_BYTES, delivery_main, delivery)) {
        snprintf(error, error_bytes, "delivery could not be started");
        delivery_free(delivery);
        return NULL;
    }
    return delivery;
}

void
delivery_stop(struct delivery **delivery, struct mono_time deadline)
{
    struct delivery *self = *delivery;
    if (self == NULL)
        return;
    int64_t enough_us = mono_now().us + STOP_US;
    atomic_store(&self->deadline_us, deadline.us);
    atomic_store(&self->stop_by_us, enough_us < deadline.us ? enough_us : deadline.us);
    atomic_store(&self->stopping, true);
    curl_multi_wakeup(self->multi);
    thread_join(&self->thread);
    delivery_free(self);
    *delivery = NULL;
}
