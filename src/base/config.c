/*
 * config.c - the settings, from defaults, file, environment and flags, in this order.
 *
 * Each source hands its texts to setting_set, which alone knows kinds and ranges;
 * `origin` tells the person where the bad text stands. The value of a SECRET
 * appears in no message.
 */
#include "holdfast/config.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base_internal.h"
#include "holdfast/ids.h"
#include "holdfast/log.h"

#define FILE_DEFAULT   "conf/holdfast.conf"
#define ENV_PREFIX     "HOLDFAST_"
#define ENV_CONFIG     "HOLDFAST_CONFIG"
#define FILE_SUFFIX    "_FILE"
#define ORIGIN_BYTES   256
#define VALUE_FILE_MAX (1 << 20) /* a secret of more than a mebibyte is the wrong file */

struct setting {
    const char *name;
    enum config_kind kind;
    const char *fallback;
    const char *least; /* NULL: no range */
    const char *most;
    const char *help;
    size_t offset; /* in struct config */
};

static const struct setting settings[] = {
#define CONFIG(name, kind, fallback, least, most, help)                                            \
    { #name, CONFIG_KIND_##kind, fallback, least, most, help, offsetof(struct config, name) },
#include "holdfast/config.def"
#undef CONFIG
};

#define SETTINGS_COUNT (sizeof(settings) / sizeof(settings[0]))

static HF_PRINTF(2, 3) bool fail(char error[CONFIG_ERROR_BYTES], const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(error, CONFIG_ERROR_BYTES, format, args);
    va_end(args);
    return false;
}

/* ---- one setting ---- */

static char **
text_at(const struct config *config, const struct setting *setting)
{
    return (char **)((char *)(uintptr_t)config + setting->offset);
}

static int64_t *
number_at(const struct config *config, const struct setting *setting)
{
    return (int64_t *)((char *)(uintptr_t)config + setting->offset);
}

static bool *
bool_at(const struct config *config, const struct setting *setting)
{
    return (bool *)((char *)(uintptr_t)config + setting->offset);
}

/* Flags may be written with dashes; the table has underscores. */
static bool
name_matches(const char *name, struct slice text)
{
    if (strlen(name) != text.len)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (name[i] != text.ptr[i] && !(name[i] == '_' && text.ptr[i] == '-'))
            return false;
    }
    return true;
}

static const struct setting *
setting_find(struct slice name)
{
    for (size_t i = 0; i < SETTINGS_COUNT; i++) {
        if (name_matches(settings[i].name, name))
            return &settings[i];
    }
    return NULL;
}

/* The memory of a secret is not left behind. */
static void
text_free(char **text)
{
    if (*text != NULL)
        explicit_bzero(*text, strlen(*text));
    free(*text);
    *text = NULL;
}

static bool
has_control_character(const char *text)
{
    for (; *text != '\0'; text++) {
        if (iscntrl((unsigned char)*text))
            return true;
    }
    return false;
}

static bool
text_set(struct config *config, const struct setting *setting, const char *value,
         const char *origin, char error[CONFIG_ERROR_BYTES])
{
    if (has_control_character(value))
        return fail(error, "%s: the value is not %s", origin, config_kind_describe(setting->kind));
    char *copy = strdup(value);
    if (copy == NULL)
        return fail(error, "%s: out of memory", origin);
    text_free(text_at(config, setting));
    *text_at(config, setting) = copy;
    return true;
}

static bool
number_is_in_range(const struct setting *setting, int64_t number)
{
    int64_t least, most;

    hf_assert(config_number_parse(setting->kind, setting->least, &least));
    hf_assert(config_number_parse(setting->kind, setting->most, &most));
    return number >= least && number <= most;
}

static bool
number_set(struct config *config, const struct setting *setting, const char *value,
           const char *origin, char error[CONFIG_ERROR_BYTES])
{
    int64_t number;

    if (!config_number_parse(setting->kind, value, &number))
        return fail(error, "%s: '%s' is not %s", origin, value,
                    config_kind_describe(setting->kind));
    if (!number_is_in_range(setting, number))
        return fail(error, "%s: %s is not between %s and %s", origin, value, setting->least,
                    setting->most);
    *number_at(config, setting) = number;
    return true;
}

static bool
bool_set(struct config *config, const struct setting *setting, const char *value,
         const char *origin, char error[CONFIG_ERROR_BYTES])
{
    if (!config_bool_parse(value, bool_at(config, setting)))
        return fail(error, "%s: '%s' is not %s", origin, value,
                    config_kind_describe(setting->kind));
    return true;
}

static bool
setting_set(struct config *config, const struct setting *setting, const char *value,
            const char *origin, char error[CONFIG_ERROR_BYTES])
{
    switch (setting->kind) {
    case CONFIG_KIND_TEXT:
    case CONFIG_KIND_SECRET:
        return text_set(config, setting, value, origin, error);
    case CONFIG_KIND_INT:
    case CONFIG_KIND_DURATION:
    case CONFIG_KIND_SIZE:
        return number_set(config, setting, value, origin, error);
    case CONFIG_KIND_BOOL:
        return bool_set(config, setting, value, origin, error);
    }
    return fail(error, "%s: a setting of no kind", origin);
}

static bool
defaults_set(struct config *config, char error[CONFIG_ERROR_BYTES])
{
    for (size_t i = 0; i < SETTINGS_COUNT; i++) {
        if (!setting_set(config, &settings[i], settings[i].fallback, settings[i].name, error))
            return false;
    }
    return true;
}

/* ---- the file: `name = value` a line, `#` before a comment of a whole line ---- */

static char *
trim(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    size_t len = strlen(text);
    while (len > 0 && isspace((unsigned char)text[len - 1]))
        len--;
    text[len] = '\0';
    return text;
}

static bool
file_line_set(struct config *config, char *line, const char *place, char error[CONFIG_ERROR_BYTES])
{
    char origin[ORIGIN_BYTES];

    line = trim(line);
    if (line[0] == '\0' || line[0] == '#')
        return true;
    char *equals = strchr(line, '=');
    if (equals == NULL)
        return fail(error, "%s: there is no '=': a line is `name = value`", place);
    *equals = '\0';
    const char *name = trim(line);
    const struct setting *setting = setting_find(slice_of(name));
    if (setting == NULL)
        return fail(error, "%s: there is no setting '%s'", place, name);
    snprintf(origin, sizeof(origin), "%s: %s", place, setting->name);
    return setting_set(config, setting, trim(equals + 1), origin, error);
}

static bool
file_lines_set(struct config *config, FILE *file, const char *path, char error[CONFIG_ERROR_BYTES])
{
    char place[ORIGIN_BYTES - 64]; /* leaves room for the name that follows it in an origin */
    char *line = NULL;
    size_t room = 0;
    ssize_t len;
    bool ok = true;

    for (int number = 1; ok && (len = getline(&line, &room, file)) >= 0; number++) {
        snprintf(place, sizeof(place), "%s:%d", path, number);
        if (memchr(line, '\0', (size_t)len) != NULL)
            ok = fail(error, "%s: a NUL byte", place);
        else
            ok = file_line_set(config, line, place, error);
    }
    if (ok && (ferror(file) || !feof(file)))
        ok = fail(error, "%s: %s", path, strerror(errno));
    if (line != NULL)
        explicit_bzero(line, room); /* it may have been a secret */
    free(line);
    return ok;
}

/* `path` NULL: the usual place, where there need be no file. */
static bool
file_set(struct config *config, const char *path, char error[CONFIG_ERROR_BYTES])
{
    FILE *file = fopen(path != NULL ? path : FILE_DEFAULT, "re");

    if (file == NULL)
        return path == NULL || fail(error, "%s: %s", path, strerror(errno));
    bool ok = file_lines_set(config, file, path != NULL ? path : FILE_DEFAULT, error);
    fclose(file);
    return ok;
}

/* ---- the environment ---- */

/* HOLDFAST_WORKERS names the setting `workers`; small letters name nothing. */
static const struct setting *
setting_find_env(struct slice name)
{
    char lower[ORIGIN_BYTES];

    if (name.len >= sizeof(lower))
        return NULL;
    for (size_t i = 0; i < name.len; i++) {
        if (islower((unsigned char)name.ptr[i]) || name.ptr[i] == '-')
            return NULL;
        lower[i] = (char)tolower((unsigned char)name.ptr[i]);
    }
    return setting_find((struct slice){ lower, name.len });
}

/* The whole content, without the line end that editors add. NULL: error says why. */
static char *
value_file_read(const char *path, const char *origin, char error[CONFIG_ERROR_BYTES])
{
    FILE *file = fopen(path, "re");
    char *value = file != NULL ? calloc(1, VALUE_FILE_MAX + 1) : NULL;

    if (value == NULL) {
        fail(error, "%s: %s: %s", origin, path, strerror(errno));
        if (file != NULL)
            fclose(file);
        return NULL;
    }
    size_t len = fread(value, 1, VALUE_FILE_MAX, file);
    bool whole = !ferror(file) && fgetc(file) == EOF && !ferror(file);
    fclose(file);
    while (len > 0 && (value[len - 1] == '\n' || value[len - 1] == '\r'))
        value[--len] = '\0';
    if (whole && strlen(value) == len)
        return value;
    fail(error, "%s: %s can't be read, is too long or has a NUL byte", origin, path);
    explicit_bzero(value, len);
    free(value);
    return NULL;
}

static bool
value_file_set(struct config *config, const struct setting *setting, const char *path,
               const char *origin, char error[CONFIG_ERROR_BYTES])
{
    char *value = value_file_read(path, origin, error);

    if (value == NULL)
        return false;
    bool ok = setting_set(config, setting, value, origin, error);
    text_free(&value);
    return ok;
}

/* The setting whose value stands in a file that this variable names; NULL: none. */
static const struct setting *
setting_find_env_file(struct slice name)
{
    size_t suffix = sizeof(FILE_SUFFIX) - 1;

    if (name.len <= suffix || memcmp(name.ptr + name.len - suffix, FILE_SUFFIX, suffix) != 0)
        return NULL;
    const struct setting *setting = setting_find_env((struct slice){ name.ptr, name.len - suffix });
    return setting != NULL && config_kind_is_text(setting->kind) ? setting : NULL;
}

/* True when HOLDFAST_X is set beside HOLDFAST_X_FILE: `origin` is the latter. */
static bool
env_is_set_without_suffix(const char *origin)
{
    char name[ORIGIN_BYTES];

    snprintf(name, sizeof(name), "%.*s", (int)(strlen(origin) - (sizeof(FILE_SUFFIX) - 1)), origin);
    return getenv(name) != NULL;
}

/* entry: NAME=value, as in environ. */
static bool
env_entry_set(struct config *config, const char *entry, char error[CONFIG_ERROR_BYTES])
{
    char origin[ORIGIN_BYTES];
    size_t prefix = sizeof(ENV_PREFIX) - 1;
    size_t len = strcspn(entry, "=");

    if (strncmp(entry, ENV_PREFIX, prefix) != 0 || entry[len] != '=')
        return true;
    snprintf(origin, sizeof(origin), "%.*s", (int)len, entry);
    if (strcmp(origin, ENV_CONFIG) == 0)
        return true;

    struct slice name = { entry + prefix, len - prefix };
    const struct setting *setting = setting_find_env(name);
    if (setting != NULL)
        return setting_set(config, setting, entry + len + 1, origin, error);
    setting = setting_find_env_file(name);
    if (setting == NULL)
        return fail(error, "%s: there is no such setting", origin);
    if (env_is_set_without_suffix(origin))
        return fail(error, "%s: it is also set without " FILE_SUFFIX, origin);
    return value_file_set(config, setting, entry + len + 1, origin, error);
}

/* The names that everybody knows; HOLDFAST_DATABASE_URL would beat DATABASE_URL. */
static bool
env_common_set(struct config *config, const char *env_name, const char *name,
               char error[CONFIG_ERROR_BYTES])
{
    const char *value = getenv(env_name);

    return value == NULL ||
           setting_set(config, setting_find(slice_of(name)), value, env_name, error);
}

static bool
env_set(struct config *config, char error[CONFIG_ERROR_BYTES])
{
    if (!env_common_set(config, "DATABASE_URL", "database_url", error) ||
        !env_common_set(config, "REDIS_URL", "redis_url", error))
        return false;
    for (char **entry = environ; entry != NULL && *entry != NULL; entry++) {
        if (!env_entry_set(config, *entry, error))
            return false;
    }
    return true;
}

/* ---- the flags ---- */

struct flag {
    struct slice word; /* "--workers" */
    struct slice name; /* "workers" */
    const char *value; /* NULL: there is none */
    int words;         /* 1 or 2; 0: this word is no flag */
};

static struct flag
flag_at(int argc, char **argv, int at)
{
    const char *word = argv[at];

    if (word[0] != '-' || word[1] == '\0')
        return (struct flag){ SLICE_EMPTY, SLICE_EMPTY, NULL, 0 };
    const char *name = word[1] == '-' ? word + 2 : word; /* no setting begins with a dash */
    size_t len = strcspn(name, "=");
    struct flag flag = { { word, (size_t)(name - word) + len }, { name, len }, NULL, 1 };
    if (name[len] == '=') {
        flag.value = name + len + 1;
    } else if (at + 1 < argc) {
        flag.value = argv[at + 1];
        flag.words = 2;
    }
    return flag;
}

/* After this word all others are words. */
static bool
flags_end_at(const char *word)
{
    return strcmp(word, "--") == 0;
}

/* Finds --config before the rest is looked at, since the file comes first. */
static bool
flags_find_file(int argc, char **argv, const char **path, char error[CONFIG_ERROR_BYTES])
{
    for (int at = 0; at < argc && !flags_end_at(argv[at]);) {
        struct flag flag = flag_at(argc, argv, at);
        if (slice_is(flag.name, "config")) {
            if (flag.value == NULL)
                return fail(error, "--config: the path is missing");
            *path = flag.value;
        }
        at += flag.words > 0 ? flag.words : 1;
    }
    return true;
}

static bool
flag_set(struct config *config, const struct flag *flag, char error[CONFIG_ERROR_BYTES])
{
    char origin[ORIGIN_BYTES];

    if (slice_is(flag->name, "config"))
        return true;
    const struct setting *setting = setting_find(flag->name);
    if (setting == NULL)
        return fail(error, "%.*s: there is no such setting", SLICE_ARG(flag->word));
    if (flag->value == NULL)
        return fail(error, "--%s: the value is missing", setting->name);
    snprintf(origin, sizeof(origin), "--%s", setting->name);
    return setting_set(config, setting, flag->value, origin, error);
}

/* Sets what the flags say and moves the other words together at the front. */
static bool
flags_set(struct config *config, int argc, char **argv, int *rest, char error[CONFIG_ERROR_BYTES])
{
    int at = 0;

    *rest = 0;
    while (at < argc && !flags_end_at(argv[at])) {
        struct flag flag = flag_at(argc, argv, at);
        if (flag.words > 0 && !flag_set(config, &flag, error))
            return false;
        if (flag.words == 0)
            argv[(*rest)++] = argv[at++];
        else
            at += flag.words;
    }
    for (at++; at < argc; at++)
        argv[(*rest)++] = argv[at];
    if (*rest < argc)
        argv[*rest] = NULL;
    return true;
}

/* ---- the whole ---- */

/* What a range can't say. */
static bool
config_check(const struct config *config, char error[CONFIG_ERROR_BYTES])
{
    enum log_level level;

    if ((config->hot_shards & (config->hot_shards - 1)) != 0)
        return fail(error, "hot_shards: %lld is not a power of two", (long long)config->hot_shards);
    if (!log_level_parse(config->log_level, &level))
        return fail(error, "log_level: '%s' is not debug, info, warn or error", config->log_level);
    if (config->node_id[0] != '\0' && !id_is_valid(slice_of(config->node_id)))
        return fail(error, "node_id: '%s' is not 1-%d characters of [A-Za-z0-9._-]",
                    config->node_id, ID_BYTES_MAX);
    return true;
}

bool
config_load(struct config *config, int argc, char **argv, int *rest, char error[CONFIG_ERROR_BYTES])
{
    const char *path = getenv(ENV_CONFIG);

    *config = (struct config){ 0 };
    error[0] = '\0';
    if (path != NULL && path[0] == '\0')
        path = NULL;
    if (flags_find_file(argc, argv, &path, error) && defaults_set(config, error) &&
        file_set(config, path, error) && env_set(config, error) &&
        flags_set(config, argc, argv, rest, error) && config_check(config, error))
        return true;
    config_fini(config);
    return false;
}

void
config_fini(struct config *config)
{
    for (size_t i = 0; i < SETTINGS_COUNT; i++) {
        if (config_kind_is_text(settings[i].kind))
            text_free(text_at(config, &settings[i]));
    }
}

void
config_write_help(FILE *out)
{
    for (size_t i = 0; i < SETTINGS_COUNT; i++) {
        const struct setting *setting = &settings[i];
        fprintf(out, "  --%-24s %s", setting->name, setting->help);
        if (setting->fallback[0] != '\0')
            fprintf(out, " [%s]", setting->fallback);
        fputc('\n', out);
    }
}

static void
value_write(const struct config *config, const struct setting *setting, FILE *out)
{
    char number[CONFIG_NUMBER_BYTES];
    const char *text = number;

    switch (setting->kind) {
    case CONFIG_KIND_TEXT:
        text = *text_at(config, setting);
        break;
    case CONFIG_KIND_SECRET:
        text = (*text_at(config, setting))[0] != '\0' ? "***" : "";
        break;
    case CONFIG_KIND_INT:
    case CONFIG_KIND_DURATION:
    case CONFIG_KIND_SIZE:
        config_number_format(setting->kind, *number_at(config, setting), number);
        break;
    case CONFIG_KIND_BOOL:
        text = *bool_at(config, setting) ? "on" : "off";
        break;
    }
    fputs(text, out);
}

void
config_write(const struct config *config, FILE *out)
{
    for (size_t i = 0; i < SETTINGS_COUNT; i++) {
        fprintf(out, "%s = ", settings[i].name);
        value_write(config, &settings[i], out);
        fputc('\n', out);
    }
}
