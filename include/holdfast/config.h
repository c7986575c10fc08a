/*
 * config.h - the settings, from file, environment and flags.
 *
 * A flag beats the environment, which beats the file; an unknown name or a bad
 * value is an error that names it, before anything starts.
 *
 * Threads: filled before the first thread starts, constant afterwards.
 */
#ifndef HOLDFAST_CONFIG_H
#define HOLDFAST_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "holdfast/assert.h"

/* TEXT and SECRET are owned strings, DURATION is in microseconds, SIZE in bytes. */
#define CONFIG_TYPE_TEXT     char *
#define CONFIG_TYPE_SECRET   char *
#define CONFIG_TYPE_INT      int64_t
#define CONFIG_TYPE_DURATION int64_t
#define CONFIG_TYPE_SIZE     int64_t
#define CONFIG_TYPE_BOOL     bool

struct config {
#define CONFIG(name, kind, fallback, least, most, help) CONFIG_TYPE_##kind name;
#include "holdfast/config.def"
#undef CONFIG
};

#define CONFIG_ERROR_BYTES 512

/*
 * Fills *config with defaults, then the file (--config PATH, HOLDFAST_CONFIG,
 * else conf/holdfast.conf if it can be read), the environment, and `flags`
 * ("--name", "value" or "--name=value"). Words that are no flags stay in
 * argv[0..*rest) in their order, for the command. False: error says what is wrong, naming the
 * setting.
 */
HF_MUST_CHECK bool config_load(struct config *config, int argc, char **argv, int *rest,
                               char error[CONFIG_ERROR_BYTES]);
void config_fini(struct config *config);

/* One line a setting with its default and help, for --help. */
void config_write_help(FILE *out);
/* The settings in force, one `name = value` a line; secrets as "***". */
void config_write(const struct config *config, FILE *out);

#endif
