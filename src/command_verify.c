/*
 * command_verify.c - `holdfast verify`: the audit log replayed, in one snapshot.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "commands.h"
#include "holdfast/audit.h"
#include "holdfast/cold.h"
#include "holdfast/log.h"

#define VERIFY_TIME_US (3600 * (int64_t)TIME_US_PER_S) /* however large the log is */

struct verify_words {
    const char *org, *event;
};

static int
complain(const char *what, const char *value)
{
    fprintf(stderr, "holdfast verify: %s%s%s\n", what, value[0] != '\0' ? ": " : "", value);
    return EXIT_USAGE;
}

static int
read_words(int argc, char **argv, struct verify_words *words)
{
    static const struct option options[] = { { "org", required_argument, NULL, 'o' },
                                             { "event", required_argument, NULL, 'e' },
                                             { NULL, 0, NULL, 0 } };
    int option;

    *words = (struct verify_words){ .org = "", .event = "" };
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'o')
            words->org = optarg;
        else if (option == 'e')
            words->event = optarg;
        else
            return EXIT_USAGE; /* getopt has said what is wrong */
    }
    if (optind < argc)
        return complain("a word that it doesn't take", argv[optind]);
    if (words->org[0] != '\0' && !id_is_valid(slice_of(words->org)))
        return complain("--org is not 1-64 characters of [A-Za-z0-9._-]", words->org);
    if (words->event[0] != '\0' && !id_is_valid(slice_of(words->event)))
        return complain("--event is not 1-64 characters of [A-Za-z0-9._-]", words->event);
    return EXIT_DONE;
}

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
verify_with(struct pg *pg, const struct verify_words *words)
{
    struct mono_time deadline = { mono_now().us + VERIFY_TIME_US };
    struct audit_report *report = calloc(1, sizeof(*report));
    int exit_status = EXIT_FAILED;

    if (report == NULL)
        fprintf(stderr, "holdfast verify: no memory\n");
    else if (audit_verify(pg, slice_of(words->org), slice_of(words->event), deadline, report) !=
             PG_DONE)
        fprintf(stderr, "holdfast verify: %s\n", pg_last_error(pg));
    else
        exit_status = write_report(report);
    free(report);
    return exit_status;
}

static int
verify(const struct config *config, const struct verify_words *words)
{
    struct command_store store;
    int exit_status = EXIT_FAILED;

    if (command_store_open(&store, config, "verify"))
        exit_status = verify_with(store.pg, words);
    command_store_fini(&store);
    return exit_status;
}

int
command_verify(const struct config *config, int argc, char **argv)
{
    struct verify_words words;
    int status = read_words(argc, argv, &words);

    log_init(LOG_WARN, "verify");
    return status == EXIT_DONE ? verify(config, &words) : status;
}
