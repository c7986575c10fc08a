/*
 * settle.c - learns what became of a transaction whose outcome was lost (law 7).
 *
 * Every write transaction has inserted its batch id first. A new session inserts the same id: that
 * waits while the old transaction lives; then a unique_violation means that the id is there for
 * good, and a success, once committed, that the old transaction can't commit any more.
 *
 * The trap is in asking twice: the commit of such a question may get lost as well, and then its own
 * row would answer the next one with "committed". So a question leaves two rows in one transaction:
 * the id, and a mark made from it, which no batch ever inserts. The id with its mark: it was us.
 */
#include "cold_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define UNIQUE_VIOLATION "23505"

/* The server gives up a little before we do, so that we hear it rather than hang up. */
#define ANSWER_US (50 * INT64_C(1000))

/* UUIDv7 and UUIDv8 differ in their version only: the mark is purged together with its id. */
static struct uuid
mark_of(const struct uuid *batch_id)
{
    struct uuid mark = *batch_id;
    mark.bytes[6] = (uint8_t)((mark.bytes[6] & 0x0f) | 0x80);
    return mark;
}

static void
send_timeouts(struct pg *pg, struct mono_time deadline)
{
    int64_t us = deadline.us - mono_now().us - ANSWER_US;
    char text[24];
    snprintf(text, sizeof(text), "%" PRId64 "ms", us > TIME_US_PER_MS ? us / TIME_US_PER_MS : 1);

    static const char sql[] = "SELECT set_config('lock_timeout', $1, true),"
                              " set_config('statement_timeout', $1, true)";
    const char *const values[] = { text };
    pg_tx_send_text(pg, sql, 1, values);
}

/* Takes the place of the old transaction. */
static enum pg_outcome
insert_id(struct pg *pg, const struct uuid *batch_id, struct mono_time deadline)
{
    struct uuid mark = mark_of(batch_id);
    struct pg_params params;
    pg_params_init(&params);
    pg_param_uuid(&params, batch_id);

    pg_tx_begin(pg, &mark, deadline);
    send_timeouts(pg, deadline);
    pg_tx_send(pg, STATEMENT_INSERT_BATCH, &params);
    pg_tx_commit(pg);
    return pg_tx_end(pg);
}

/*
 * The id is there: is the mark too? Asked in a transaction that commits something of its own,
 * because a row may be seen before a synchronous standby has it; this commit comes after it.
 */
static enum pg_outcome
whose_id(struct pg *pg, const struct uuid *batch_id, struct mono_time deadline, bool *committed)
{
    struct uuid mark = mark_of(batch_id);
    struct uuid own_id = uuid_v7_new();
    char text[UUID_TEXT_BYTES];
    uuid_format(&mark, text);
    const char *const values[] = { text };

    pg_tx_begin(pg, &own_id, deadline);
    pg_tx_send_text(pg, pg_report_text(REPORT_BATCH_IS_THERE), 1, values);
    pg_tx_commit(pg);
    struct pg_result *result = pg_tx_next(pg);
    if (result != NULL) {
        *committed = !pg_get_bool(result, 0, 0);
        pg_result_free(&result);
    }
    return pg_tx_end(pg);
}

enum pg_outcome
pg_settle_outcome(struct pg *pg, const struct uuid *batch_id, struct mono_time deadline,
                  bool *committed)
{
    pg_drop(pg); /* the old session may be the very one that still has the transaction */
    if (!pg_ready_until(pg, deadline)) {
        return PG_UNAVAILABLE;
    }
    *committed = false;
    enum pg_outcome outcome = insert_id(pg, batch_id, deadline);
    if (outcome != PG_DONE && strcmp(pg->sqlstate, UNIQUE_VIOLATION) == 0) {
        outcome = whose_id(pg, batch_id, deadline, committed);
    }
    return outcome == PG_UNKNOWN ? PG_UNAVAILABLE : outcome;
}
