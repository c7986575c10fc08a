/*
 * command_scope.c - the words --org and --event of commands that look at all events, or at some.
 */
#include <getopt.h>
#include <stdio.h>

#include "commands.h"
#include "holdfast/ids.h"

int
command_complain(const char *command, const char *what, const char *value)
{
    fprintf(stderr, "holdfast %s: %s%s%s\n", command, what, value[0] != '\0' ? ": " : "", value);
    return EXIT_USAGE;
}

static bool
is_right(const char *id)
{
    return id[0] == '\0' || id_is_valid(slice_of(id));
}

int
command_read_scope(int argc, char **argv, struct command_scope *scope)
{
    static const struct option options[] = { { "org", required_argument, NULL, 'o' },
                                             { "event", required_argument, NULL, 'e' },
                                             { NULL, 0, NULL, 0 } };
    int option;

    *scope = (struct command_scope){ .org = "", .event = "" };
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'o')
            scope->org = optarg;
        else if (option == 'e')
            scope->event = optarg;
        else
            return EXIT_USAGE; /* getopt has said what is wrong */
    }
    if (optind < argc)
        return command_complain(argv[0], "a word that it doesn't take", argv[optind]);
    if (!is_right(scope->org))
        return command_complain(argv[0], "--org is not 1-64 characters of [A-Za-z0-9._-]",
                                scope->org);
    if (!is_right(scope->event))
        return command_complain(argv[0], "--event is not 1-64 characters of [A-Za-z0-9._-]",
                                scope->event);
    return EXIT_DONE;
}
