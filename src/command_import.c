/*
 * command_import.c - `holdfast import`: an event's seats from a CSV file, all of them or none.
 *
 * Running nodes are told by a new incarnation: they see that somebody was here beside
 * them, and read anew what they know.
 */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "holdfast/cold.h"
#include "holdfast/log.h"
#include "holdfast/seat_import.h"

#define IMPORT_TIME_US (600 * (int64_t)TIME_US_PER_S) /* nobody waits for an answer */

struct import_words {
    const char *org, *event, *path;
};

static int
complain(const char *what, const char *value)
{
    return command_complain("import", what, value);
}

static int
read_words(int argc, char **argv, struct import_words *words)
{
    static const struct option options[] = { { "org", required_argument, NULL, 'o' },
                                             { NULL, 0, NULL, 0 } };
    int option;

    *words = (struct import_words){ .org = "" };
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option != 'o')
            return EXIT_USAGE; /* getopt has said what is wrong */
        words->org = optarg;
    }
    if (argc - optind != 2)
        return complain("it takes --org ORG EVENT FILE.csv", "");
    words->event = argv[optind];
    words->path = argv[optind + 1];
    if (!id_is_valid(slice_of(words->org)))
        return complain("--org is not 1-64 characters of [A-Za-z0-9._-]", words->org);
    if (!id_is_valid(slice_of(words->event)))
        return complain("EVENT is not 1-64 characters of [A-Za-z0-9._-]", words->event);
    return EXIT_DONE;
}

/* "-" is the standard input. False: it can't be read, and stderr says why. */
static bool
read_file(const char *path, struct buf *text)
{
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    char block[65536];
    size_t got;

    if (file == NULL) {
        perror(path);
        return false;
    }
    while ((got = fread(block, 1, sizeof(block), file)) > 0)
        buf_append(text, block, got);
    bool good = !ferror(file) && !text->failed;
    if (!good)
        fprintf(stderr, "holdfast import: %s can't be read\n", path);
    if (file != stdin)
        fclose(file);
    return good;
}

static void
tell_nodes(struct pg *pg)
{
    struct mono_time deadline = { mono_now().us + TIME_US_PER_S };
    struct pg_params params;

    pg_params_init(&params);
    if (pg_run(pg, STATEMENT_DRAW_INCARNATION, &params, deadline, NULL) != PG_DONE)
        fprintf(stderr,
                "holdfast import: running nodes may show the old map until they start anew\n");
}

static int
write_result(enum hf_status status, const struct seat_import_result *result)
{
    struct buf out = { 0 };

    if (status != HF_OK && status != HF_INVALID_FIELD) {
        fprintf(stderr, "holdfast import: %s: %s\n", status_code(status), status_text(status));
        return EXIT_FAILED;
    }
    seat_import_write(&out, result);
    buf_append_char(&out, '\n');
    if (!out.failed)
        fwrite(out.data, 1, out.len, stdout);
    buf_fini(&out);
    return status == HF_OK ? EXIT_DONE : EXIT_FAILED;
}

static int
import_text(struct pg *pg, const struct import_words *words, struct slice csv)
{
    struct arena arena = { 0 };
    struct seat_import import = { .org = slice_of(words->org),
                                  .event = slice_of(words->event),
                                  .csv = csv,
                                  .deadline = { mono_now().us + IMPORT_TIME_US } };
    struct seat_import_result result;
    enum hf_status status = seat_import_run(pg, &arena, &import, &result);

    if (status == HF_OK)
        tell_nodes(pg);
    int exit_status = write_result(status, &result);
    seat_import_result_fini(&result);
    arena_fini(&arena);
    return exit_status;
}

static int
import_file(const struct config *config, const struct import_words *words)
{
    struct buf text = { 0 };
    struct command_store store;
    int exit_status = EXIT_FAILED;

    if (command_store_open(&store, config, "import") && read_file(words->path, &text))
        exit_status = import_text(store.pg, words, buf_slice(&text));
    command_store_fini(&store);
    buf_fini(&text);
    return exit_status;
}

int
command_import(const struct config *config, int argc, char **argv)
{
    struct import_words words;
    int status = read_words(argc, argv, &words);

    log_init(LOG_WARN, "import");
    return status == EXIT_DONE ? import_file(config, &words) : status;
}
