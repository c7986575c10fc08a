/*
 * main.c - words to command: takes the settings out of argv, loads them, runs the command.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"

struct command {
    const char *name;
    int (*run)(const struct config *config, int argc, char **argv);
    const char *usage; /* what follows the name */
    const char *summary;
    const char *details; /* for --help of the command; may be "" */
};

static const struct command commands[] = {
    { "serve", command_serve, "", "answer requests until SIGTERM",
      "Prints `listening on ADDRESS` when it is ready. SIGTERM drains (drain_delay, "
      "drain_timeout);\n"
      "a second signal ends at once.\n" },
    { "migrate", command_migrate, "", "bring the database to this version's schema", "" },
    { "import", command_import, "--org ORG EVENT FILE.csv",
      "add or update an event's seats from a CSV file",
      "All or nothing. The first line names the fields: seat_id,section,row,number, and if wanted\n"
      "type,price,x,y,attributes.\n" },
    { "verify", command_verify, "[--org ORG] [--event EVENT]",
      "replay the audit log and look for broken promises", "Exit status 1 when there is one.\n" },
    { "reconcile", command_reconcile, "[--org ORG] [--event EVENT]",
      "make Redis equal to Postgres: write what it lost, remove what is wrong",
      "All events that are on sale or have seats held, unless one is named. It walks all of Redis\n"
      "for each. Nodes may serve meanwhile. Exit status 1 when something couldn't be made equal.\n" },
    { "status", command_status, "", "show the stores, the living nodes and the events on sale",
      "Exit status 1 when Postgres can't be used.\n" },
    { "token", command_token, "--org ORG --user USER [--role ROLE] [--ttl 1h] [--kid KID]",
      "mint a bearer token with jwt_secret",
      "ROLE is user, agent, admin or service. KID chooses among kid:secret pairs (default: the "
      "first).\n" },
    { "check-config", command_check_config, "", "print the settings in force, and what is doubtful",
      "" },
    { "version", command_version, "", "print the version", "" },
};
#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

static void
write_help(FILE *out)
{
    fprintf(
        out,
        "holdfast: a seat-hold server\n\nusage: holdfast COMMAND [WORDS] [--SETTING VALUE]...\n\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        fprintf(out, "  %-13s %s\n", commands[i].name, commands[i].summary);
    fprintf(
        out,
        "\n`holdfast COMMAND --help` tells more. Exit status: 0 done, 1 it failed, 2 wrong usage.\n"
        "Settings come from conf/holdfast.conf (or --config PATH), HOLDFAST_<NAME>, --name:\n\n");
    config_write_help(out);
}

static void
write_command_help(const struct command *command)
{
    printf("usage: holdfast %s %s\n\n%s.\n%s\n`holdfast --help` lists the settings.\n",
           command->name, command->usage, command->summary, command->details);
}

/* --- settings and words ----------------------------------------------------------- */

static const char *const setting_names[] = {
#define CONFIG(name, kind, fallback, least, most, help) #name,
#include "holdfast/config.def"
#undef CONFIG
    "config",
};

/* "drain-delay" is drain_delay. */
static bool
is_name(const char *word, size_t len, const char *name)
{
    if (strlen(name) != len)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (word[i] != name[i] && !(word[i] == '-' && name[i] == '_'))
            return false;
    }
    return true;
}

static bool
is_setting(const char *word)
{
    if (strncmp(word, "--", 2) != 0)
        return false;
    size_t len = strcspn(word + 2, "=");
    for (size_t i = 0; i < sizeof(setting_names) / sizeof(setting_names[0]); i++) {
        if (is_name(word + 2, len, setting_names[i]))
            return true;
    }
    return false;
}

/* argv in two: what config_load takes, and the command with its own words. Both end in NULL. */
struct words {
    int setting_count, count;
    char **settings, **own;
};

static bool
words_split(int argc, char **argv, struct words *words)
{
    *words = (struct words){ 0 };
    words->settings = calloc((size_t)argc + 1, sizeof(char *));
    words->own = calloc((size_t)argc + 1, sizeof(char *));
    if (words->settings == NULL || words->own == NULL)
        return false;
    for (int i = 1; i < argc; i++) {
        if (!is_setting(argv[i])) {
            words->own[words->count++] = argv[i];
            continue;
        }
        words->settings[words->setting_count++] = argv[i];
        if (strchr(argv[i], '=') == NULL && i + 1 < argc)
            words->settings[words->setting_count++] = argv[++i];
    }
    return true;
}

static void
words_free(struct words *words)
{
    free(words->settings);
    free(words->own);
}

/* --- which command ------------------------------------------------------------------ */

static bool
is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

static const struct command *
find_command(const char *name)
{
    if (strcmp(name, "--version") == 0)
        name = "version";
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    }
    return NULL;
}

static int
run_command(const struct command *command, const struct words *words)
{
    char error[CONFIG_ERROR_BYTES];
    struct config config;
    int rest = 0;

    if (!config_load(&config, words->setting_count, words->settings, &rest, error)) {
        fprintf(stderr, "holdfast: %s\n", error);
        return EXIT_USAGE;
    }
    int status = command->run(&config, words->count, words->own);
    config_fini(&config);
    return status;
}

static int
run_words(const struct words *words)
{
    if (words->count == 0) {
        write_help(stderr);
        return EXIT_USAGE;
    }
    if (is_help(words->own[0]) || strcmp(words->own[0], "help") == 0) {
        write_help(stdout);
        return EXIT_DONE;
    }
    const struct command *command = find_command(words->own[0]);
    if (command == NULL) {
        fprintf(stderr, "holdfast: there is no command '%s'; `holdfast --help` lists them\n",
                words->own[0]);
        return EXIT_USAGE;
    }
    for (int i = 1; i < words->count; i++) {
        if (is_help(words->own[i])) {
            write_command_help(command);
            return EXIT_DONE;
        }
    }
    return run_command(command, words);
}

int
main(int argc, char **argv)
{
    struct words words;
    int status = EXIT_FAILED;

    if (words_split(argc, argv, &words))
        status = run_words(&words);
    else
        fprintf(stderr, "holdfast: no memory\n");
    words_free(&words);
    if (fflush(stdout) != 0 && status == EXIT_DONE)
        status = EXIT_FAILED; /* nobody got what was printed */
    return status;
}

/* --- for the commands ------------------------------------------------------------------ */

int
command_takes_no_words(int argc, char **argv)
{
    if (argc <= 1)
        return EXIT_DONE;
    fprintf(stderr, "holdfast %s: '%s' is neither a setting nor a word it takes\n", argv[0],
            argv[1]);
    return EXIT_USAGE;
}

int
command_version(const struct config *config, int argc, char **argv)
{
    (void)config;
    if (command_takes_no_words(argc, argv) != EXIT_DONE)
        return EXIT_USAGE;
    printf("holdfast %s\n", HOLDFAST_VERSION);
    return EXIT_DONE;
}
