/*
 * command_migrate.c - `holdfast migrate`: the schema, as serve with auto_migrate would make it.
 */
#include <stdio.h>

#include "commands.h"
#include "holdfast/cold.h"

int
command_migrate(const struct config *config, int argc, char **argv)
{
    char error[512];
    int applied = 0;

    if (command_takes_no_words(argc, argv) != EXIT_DONE)
        return EXIT_USAGE;
    if (config->database_url[0] == '\0') {
        fprintf(stderr, "holdfast migrate: DATABASE_URL is not set\n");
        return EXIT_FAILED;
    }
    if (!pg_migrate(config, &applied, error, sizeof(error))) {
        fprintf(stderr, "holdfast migrate: %s\n", error);
        return EXIT_FAILED;
    }
    printf("%d migration%s applied\n", applied, applied == 1 ? "" : "s");
    return EXIT_DONE;
}
