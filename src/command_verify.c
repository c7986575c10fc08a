/*
 * command_verify.c - `holdfast verify`: the audit log replayed, in one snapshot.
 */
#include <stdio.h>
#include <stdlib.h>

#include "commands.h"
#include "holdfast/audit.h"
#include "holdfast/cold.h"
#include "holdfast/log.h"

#define VERIFY_TIME_US (3600 * (int64_t)TIME_US_PER_S) /* however large the log is */

static int
write_report(const struct audit_report *report)
{
    struct buf out = { 0 };

    audit_report_write(&out, report);
    buf_append_char(&out, '\n');
    if (!out.failed)
        fwrite(out.data, 1, out.len, stdout);
    buf_fini(&out);
    return report->violation_count == 0 ? EXIT_DONE : EXIT_FAILED;
}

static int
verify_with(struct pg *pg, const struct command_scope *scope)
{
    struct mono_time deadline = { mono_now().us + VERIFY_TIME_US };
    struct audit_report *report = calloc(1, sizeof(*report));
    int exit_status = EXIT_FAILED;

    if (report == NULL)
        fprintf(stderr, "holdfast verify: no memory\n");
    else if (audit_verify(pg, slice_of(scope->org), slice_of(scope->event), deadline, report) !=
             PG_DONE)
        fprintf(stderr, "holdfast verify: %s\n", pg_last_error(pg));
    else
        exit_status = write_report(report);
    free(report);
    return exit_status;
}

static int
verify(const struct config *config, const struct command_scope *scope)
{
    struct command_store store;
    int exit_status = EXIT_FAILED;

    if (command_store_open(&store, config, "verify"))
        exit_status = verify_with(store.pg, scope);
    command_store_fini(&store);
    return exit_status;
}

int
command_verify(const struct config *config, int argc, char **argv)
{
    struct command_scope scope;
    int status = command_read_scope(argc, argv, &scope);

    log_init(LOG_WARN, "verify");
    return status == EXIT_DONE ? verify(config, &scope) : status;
}
