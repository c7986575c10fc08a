/*
 * commands.h - what `holdfast COMMAND` can do. One file a command: command_<name>.c.
 *
 * argv[0] is the command's name, argv[1..argc) its words; settings given as flags
 * have been taken out into `config` already.
 * Returns the exit status: EXIT_DONE, EXIT_FAILED, EXIT_USAGE.
 */
#ifndef HOLDFAST_COMMANDS_H
#define HOLDFAST_COMMANDS_H

#include <stdbool.h>

#include "holdfast/cold.h"
#include "holdfast/config.h"

#define EXIT_DONE   0
#define EXIT_FAILED 1
#define EXIT_USAGE  2

/* For commands that take settings only: EXIT_DONE, or EXIT_USAGE after a line on stderr. */
int command_takes_no_words(int argc, char **argv);

/* A line on stderr: what is wrong, and with which value (may be empty). EXIT_USAGE. */
int command_complain(const char *command, const char *what, const char *value);

/* --org ORG and --event EVENT: which events it is about; "": all. */
struct command_scope {
    const char *org, *event;
};
/* EXIT_DONE, or EXIT_USAGE after a line on stderr. */
int command_read_scope(int argc, char **argv, struct command_scope *scope);

/* A connection of its own for a command, with what such a connection needs. */
struct command_store {
    struct pg_identity *identity;
    struct db_clock *clock;
    struct pg *pg;
};
/* Not connected yet. False: no memory. Needs command_store_fini in any case. */
bool command_store_init(struct command_store *store, const struct config *config,
                        const char *command);
/* Connected; false after a line on stderr that says why not. Needs command_store_fini in any case.
 */
bool command_store_open(struct command_store *store, const struct config *config,
                        const char *command);
void command_store_fini(struct command_store *store);

int command_serve(const struct config *config, int argc, char **argv);
int command_migrate(const struct config *config, int argc, char **argv);
int command_import(const struct config *config, int argc, char **argv);
int command_verify(const struct config *config, int argc, char **argv);
int command_reconcile(const struct config *config, int argc, char **argv);
int command_status(const struct config *config, int argc, char **argv);
int command_token(const struct config *config, int argc, char **argv);
int command_check_config(const struct config *config, int argc, char **argv);
int command_version(const struct config *config, int argc, char **argv);

#endif
