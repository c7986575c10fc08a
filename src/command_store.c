/*
 * command_store.c - the connection to Postgres of a command that runs beside the server.
 */
#include <stdio.h>

#include "commands.h"

bool
command_store_init(struct command_store *store, const struct config *config, const char *command)
{
    char name[64];

    snprintf(name, sizeof(name), "holdfast %s", command);
    *store = (struct command_store){ .identity = pg_identity_new(), .clock = db_clock_new() };
    if (store->identity != NULL && store->clock != NULL)
        store->pg = pg_new(config, name, store->identity, store->clock);
    return store->pg != NULL;
}

bool
command_store_open(struct command_store *store, const struct config *config, const char *command)
{
    if (!command_store_init(store, config, command))
        fprintf(stderr, "holdfast %s: no memory\n", command);
    else if (!pg_ready(store->pg))
        fprintf(stderr, "holdfast %s: %s\n", command, pg_last_error(store->pg));
    else
        return true;
    return false;
}

void
command_store_fini(struct command_store *store)
{
    if (store->pg != NULL)
        pg_free(&store->pg);
    if (store->clock != NULL)
        db_clock_free(&store->clock);
    if (store->identity != NULL)
        pg_identity_free(&store->identity);
}
