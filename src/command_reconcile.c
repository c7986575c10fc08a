/*
 * command_reconcile.c - `holdfast reconcile`: Redis made equal to Postgres, event by event.
 *
 * The nodes may serve meanwhile: it compares and mends as their own repair does.
 */
#include <stdio.h>

#include "commands.h"
#include "holdfast/engine.h"
#include "holdfast/log.h"
#include "holdfast/repair.h"

#define STATEMENT_US (10 * (int64_t)TIME_US_PER_S)
#define EVENT_US     (600 * (int64_t)TIME_US_PER_S) /* however large the event and Redis are */

struct reconcile {
    struct command_scope scope;
    struct node node;
    struct pg *pg;
    struct warm *warm;
    int64_t events, restored, removed, failures;
};

static void
complain(const char *what, const char *value)
{
    (void)command_complain("reconcile", what, value);
}

/* --- one event ------------------------------------------------------------------------- */

static const char *
trouble(enum hf_status status, const struct repair_report *report)
{
    if (status == HF_STORE_UNAVAILABLE)
        return "Postgres failed";
    if (status == HF_OVERLOADED)
        return "Redis failed";
    if (status != HF_OK)
        return status_code(status);
    return report->equal ? "" : "something differs still";
}

/* False: a store is away, so the others would fail as well. */
static bool
reconcile_event(struct reconcile *self, struct slice org, struct slice event)
{
    struct mono_time deadline = { mono_now().us + EVENT_US };
    struct repair_report report;
    enum hf_status status = repair_event(&self->node, self->pg, self->warm, org, event,
                                         REPAIR_THOROUGH, deadline, &report);
    const char *why = trouble(status, &report);

    printf("%.*s %.*s: held %lld, restored %lld, removed %lld, %lld ms%s%s\n", SLICE_ARG(org),
           SLICE_ARG(event), (long long)report.db_count, (long long)report.restored,
           (long long)report.removed, (long long)(report.duration_us / TIME_US_PER_MS),
           why[0] != '\0' ? ": " : "", why);
    self->events++;
    self->restored += report.restored;
    self->removed += report.removed;
    self->failures += why[0] != '\0';
    return status == HF_OK || status == HF_EVENT_NOT_FOUND;
}

/* --- all of them --------------------------------------------------------------------------- */

static bool
reconcile_rows(struct reconcile *self, const struct pg_result *rows)
{
    for (int row = 0; row < pg_rows(rows); row++) {
        if (!reconcile_event(self, pg_get_text(rows, row, 0), pg_get_text(rows, row, 1)))
            return false;
    }
    return true;
}

static void
reconcile_events(struct reconcile *self)
{
    struct repair_cursor cursor = { "", "" };
    bool going = true;

    while (going) {
        struct mono_time deadline = { mono_now().us + STATEMENT_US };
        struct pg_result *rows = repair_next_events(self->pg, slice_of(self->scope.org),
                                                    slice_of(self->scope.event), &cursor, deadline);
        if (rows == NULL) {
            complain("Postgres failed", pg_last_error(self->pg));
            self->failures++;
            return;
        }
        going = pg_rows(rows) > 0 && reconcile_rows(self, rows);
        pg_result_free(&rows);
    }
}

static int
reconcile_all(struct reconcile *self)
{
    if (!warm_ping(self->warm)) {
        complain(warm_is_on(self->warm) ? "Redis can't be reached" : "redis_url is empty", "");
        return EXIT_FAILED;
    }
    reconcile_events(self);
    if (self->events == 0 && self->scope.event[0] != '\0') {
        complain("there is no such event", self->scope.event);
        return EXIT_FAILED;
    }
    printf("%lld events: restored %lld, removed %lld, failed %lld\n", (long long)self->events,
           (long long)self->restored, (long long)self->removed, (long long)self->failures);
    return self->failures == 0 ? EXIT_DONE : EXIT_FAILED;
}

static int
reconcile(const struct config *config, struct reconcile *self)
{
    struct command_store store;
    int exit_status = EXIT_FAILED;

    if (command_store_open(&store, config, "reconcile")) {
        self->pg = store.pg;
        self->node = (struct node){ .config = config,
                                    .clock = store.clock,
                                    .identity = store.identity,
                                    .tier = warm_tier_new(config) };
        self->warm = self->node.tier != NULL ? warm_new(config, self->node.tier) : NULL;
        if (self->warm != NULL)
            exit_status = reconcile_all(self);
        else
            complain("no memory", "");
        warm_free(&self->warm);
        warm_tier_free(&self->node.tier);
    }
    command_store_fini(&store);
    return exit_status;
}

int
command_reconcile(const struct config *config, int argc, char **argv)
{
    struct reconcile self = { 0 };
    int status = command_read_scope(argc, argv, &self.scope);

    log_init(LOG_ERROR, "reconcile");
    return status == EXIT_DONE ? reconcile(config, &self) : status;
}
