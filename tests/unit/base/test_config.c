/*
 * Where settings come from, which are refused, and that conf/holdfast.conf and
 * config.def say the same.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "holdfast/buf.h"
#include "holdfast/config.h"

#define WORDS_MAX 16

static struct config config;
static char error[CONFIG_ERROR_BYTES];
static char *words[WORDS_MAX + 1]; /* the argv of the last load */
static int rest;

/* ---- scaffolding: an empty folder, an empty environment ---- */

static char folder[] = "/tmp/holdfast-config-XXXXXX";
static char start_folder[4096];

static int
folder_make(void **state)
{
    (void)state;
    return getcwd(start_folder, sizeof(start_folder)) == NULL || mkdtemp(folder) == NULL ||
           chdir(folder) != 0 || mkdir("conf", 0700) != 0;
}

static int
folder_remove(void **state)
{
    (void)state;
    rmdir("conf");
    return chdir(start_folder) != 0 || rmdir(folder) != 0;
}

static int
clean_setup(void **state)
{
    (void)state;
    clearenv();
    return 0;
}

static int
clean_teardown(void **state)
{
    (void)state;
    config_fini(&config);
    unlink("conf/holdfast.conf");
    unlink("other.conf");
    unlink("secret");
    return 0;
}

static void
write_bytes(const char *path, const char *bytes, size_t len)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

static void
write_file(const char *path, const char *text)
{
    write_bytes(path, text, strlen(text));
}

/* Loads with the words of `line`, which are separated by single spaces. */
static bool
load(const char *line)
{
    static char copy[1024];
    int count = 0;
    char *place;

    config_fini(&config);
    snprintf(copy, sizeof(copy), "%s", line);
    for (char *word = strtok_r(copy, " ", &place); word != NULL;
         word = strtok_r(NULL, " ", &place)) {
        assert_true(count < WORDS_MAX);
        words[count++] = word;
    }
    words[count] = NULL;
    rest = -1;
    return config_load(&config, count, words, &rest, error);
}

static void
assert_loads(const char *line)
{
    if (!load(line))
        fail_msg("%s", error);
}

/* Refused, and the message has every one of these pieces. */
static void
assert_refused(const char *line, const char *piece, const char *other_piece)
{
    assert_false(load(line));
    if (strstr(error, piece) == NULL || strstr(error, other_piece) == NULL)
        fail_msg("'%s' lacks '%s' or '%s'", error, piece, other_piece);
    assert_null(config.listen); /* nothing is left to free */
}

/* What config_write or config_write_help says. The caller frees it. */
static char *
written(void (*write)(FILE *out))
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    assert_non_null(out);
    write(out);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void
write_config(FILE *out)
{
    config_write(&config, out);
}

/* ---- sources ---- */

static void
without_any_source_the_defaults_hold(void **state)
{
    (void)state;
    assert_loads("");
    assert_string_equal(config.listen, "127.0.0.1:8080");
    assert_string_equal(config.database_url, "");
    assert_int_equal(config.workers, 2);
    assert_int_equal(config.request_timeout, 5000000);
    assert_int_equal(config.header_max, 16384);
    assert_int_equal(config.idempotency_keep, 24LL * 3600 * 1000000);
    assert_true(config.rate_limits);
    assert_false(config.allow_unsafe_durability);
    assert_int_equal(rest, 0);
}

static void
the_usual_file_is_read_if_it_is_there(void **state)
{
    (void)state;
    write_file("conf/holdfast.conf", "workers = 7\n");
    assert_loads("");
    assert_int_equal(config.workers, 7);
}

static void
another_file_takes_the_place_of_the_usual_one(void **state)
{
    (void)state;
    write_file("conf/holdfast.conf", "workers = 7\nloops = 7\n");
    write_file("other.conf", "workers = 8\n");
    assert_loads("--config other.conf");
    assert_int_equal(config.workers, 8);
    assert_int_equal(config.loops, 1);
    assert_loads("--config=other.conf");
    assert_int_equal(config.workers, 8);
    setenv("HOLDFAST_CONFIG", "other.conf", 1);
    assert_loads("");
    assert_int_equal(config.workers, 8);
    assert_loads("--config conf/holdfast.conf");
    assert_int_equal(config.workers, 7);
}

static void
a_named_file_must_be_there(void **state)
{
    (void)state;
    assert_refused("--config nowhere.conf", "nowhere.conf", "No such file");
    assert_refused("--config conf", "conf", "directory");
    assert_refused("serve --config", "--config", "missing");
}

static void
environment_beats_file_and_flag_beats_both(void **state)
{
    (void)state;
    write_file("conf/holdfast.conf", "workers = 3\nloops = 3\ndesks = 3\n");
    setenv("HOLDFAST_WORKERS", "4", 1);
    setenv("HOLDFAST_LOOPS", "4", 1);
    assert_loads("--workers 5");
    assert_int_equal(config.workers, 5);
    assert_int_equal(config.loops, 4);
    assert_int_equal(config.desks, 3);
}

static void
the_urls_have_their_common_names_too(void **state)
{
    (void)state;
    setenv("DATABASE_URL", "postgres://a", 1);
    setenv("REDIS_URL", "redis://b", 1);
    assert_loads("");
    assert_string_equal(config.database_url, "postgres://a");
    assert_string_equal(config.redis_url, "redis://b");
    setenv("HOLDFAST_DATABASE_URL", "postgres://c", 1);
    setenv("REDIS_URL", "", 1);
    assert_loads("");
    assert_string_equal(config.database_url, "postgres://c");
    assert_string_equal(config.redis_url, "");
}

static void
flags_and_words_may_be_mixed(void **state)
{
    (void)state;
    assert_loads("holdfast --workers 3 import --loops=2 show-1 --rate-limits off seats.csv");
    assert_int_equal(rest, 4);
    assert_string_equal(words[0], "holdfast");
    assert_string_equal(words[1], "import");
    assert_string_equal(words[2], "show-1");
    assert_string_equal(words[3], "seats.csv");
    assert_null(words[4]);
    assert_int_equal(config.workers, 3);
    assert_int_equal(config.loops, 2);
    assert_false(config.rate_limits);
}

static void
after_two_dashes_all_are_words(void **state)
{
    (void)state;
    assert_loads("import -- --workers - 3");
    assert_int_equal(rest, 4);
    assert_string_equal(words[1], "--workers");
    assert_int_equal(config.workers, 2);
}

static void
a_flags_value_may_look_like_a_flag(void **state)
{
    (void)state;
    assert_loads("--listen=--config --node_id --config");
    assert_string_equal(config.listen, "--config");
    assert_string_equal(config.node_id, "--config");
}

/* ---- secrets in files of their own ---- */

static void
text_may_stand_in_a_file_that_the_environment_names(void **state)
{
    (void)state;
    write_file("secret", "s3cret = # \xc3\xa9\r\n");
    setenv("HOLDFAST_JWT_SECRET_FILE", "secret", 1);
    setenv("HOLDFAST_LISTEN_FILE", "secret", 1);
    assert_loads("");
    assert_string_equal(config.jwt_secret, "s3cret = # \xc3\xa9");
    assert_string_equal(config.listen, "s3cret = # \xc3\xa9");
}

/* jwt_keys_file is a setting whose own name ends so. */
static void
a_setting_that_ends_in_file_is_itself(void **state)
{
    (void)state;
    setenv("HOLDFAST_JWT_KEYS_FILE", "/keys.json", 1);
    assert_loads("");
    assert_string_equal(config.jwt_keys_file, "/keys.json");
}

static void
a_secrets_file_must_be_readable_and_the_only_source(void **state)
{
    (void)state;
    setenv("HOLDFAST_JWT_SECRET_FILE", "nowhere", 1);
    assert_refused("", "HOLDFAST_JWT_SECRET_FILE", "nowhere");
    write_bytes("secret", "a\0b", 3);
    setenv("HOLDFAST_JWT_SECRET_FILE", "secret", 1);
    assert_refused("", "HOLDFAST_JWT_SECRET_FILE", "NUL");
    write_file("secret", "two\nlines\n");
    assert_refused("", "HOLDFAST_JWT_SECRET_FILE", "control");
    write_file("secret", "good\n");
    setenv("HOLDFAST_JWT_SECRET", "also", 1);
    assert_refused("", "HOLDFAST_JWT_SECRET_FILE", "also set");
    assert_null(strstr(error, "good"));
}

static void
only_text_may_stand_in_a_file_of_its_own(void **state)
{
    (void)state;
    setenv("HOLDFAST_WORKERS_FILE", "secret", 1);
    assert_refused("", "HOLDFAST_WORKERS_FILE", "no such setting");
}

/* ---- refusals ---- */

static void
unknown_names_are_refused_wherever_they_stand(void **state)
{
    (void)state;
    assert_refused("--wrokers 3", "--wrokers", "no such setting");
    assert_refused("--wrokers", "--wrokers", "no such setting");
    assert_refused("-workers 3", "-workers", "no such setting");
    assert_refused("--help", "--help", "no such setting");
    setenv("HOLDFAST_WROKERS", "3", 1);
    assert_refused("", "HOLDFAST_WROKERS", "no such setting");
    clearenv();
    setenv("HOLDFAST_workers", "3", 1);
    assert_refused("", "HOLDFAST_workers", "no such setting");
    clearenv();
    write_file("conf/holdfast.conf", "# fine\n\nwrokers = 3\n");
    assert_refused("", "conf/holdfast.conf:3", "wrokers");
}

static void
other_programs_variables_are_left_alone(void **state)
{
    (void)state;
    setenv("HOLDFASTX", "1", 1);
    setenv("PATH", "/bin", 1);
    assert_loads("");
}

static void
a_flag_needs_a_value(void **state)
{
    (void)state;
    assert_refused("serve --workers", "--workers", "missing");
}

static void
numbers_must_be_whole_and_in_range(void **state)
{
    (void)state;
    assert_refused("--workers three", "--workers", "'three' is not a whole number");
    assert_refused("--workers 3x", "--workers", "'3x'");
    assert_refused("--workers=", "--workers", "''");
    assert_refused("--workers 0", "--workers", "between 1 and 64");
    assert_refused("--workers 65", "--workers", "between 1 and 64");
    assert_refused("--workers -1", "--workers", "between 1 and 64");
    assert_refused("--workers +3", "--workers", "'+3'");
    assert_refused("--workers 99999999999999999999", "--workers", "is not a whole number");
    setenv("HOLDFAST_WORKERS", " 3", 1);
    assert_refused("", "HOLDFAST_WORKERS", "' 3'");
}

static void
durations_have_units(void **state)
{
    (void)state;
    assert_loads("--request_timeout 250ms --drain_delay 0 --block_duration 90m");
    assert_int_equal(config.request_timeout, 250000);
    assert_int_equal(config.drain_delay, 0);
    assert_int_equal(config.block_duration, 5400LL * 1000000);
    assert_loads("--request_timeout 1500 --idempotency_keep 48h");
    assert_int_equal(config.request_timeout, 1500000);
    assert_int_equal(config.idempotency_keep, 48LL * 3600 * 1000000);
    assert_refused("--request_timeout 1d", "--request_timeout", "a duration such as");
    assert_refused("--request_timeout 1.5s", "--request_timeout", "a duration such as");
    assert_refused("--request_timeout 2m", "--request_timeout", "between 100ms and 60s");
    assert_refused("--request_timeout 9000000000000000000h", "--request_timeout", "is not");
}

static void
sizes_have_units(void **state)
{
    (void)state;
    assert_loads("--header_max 2048 --body_max 2MiB --body_memory_max 1GiB --uri_max 4KiB");
    assert_int_equal(config.header_max, 2048);
    assert_int_equal(config.body_max, 2 << 20);
    assert_int_equal(config.body_memory_max, 1 << 30);
    assert_int_equal(config.uri_max, 4096);
    assert_refused("--header_max 16kb", "--header_max", "a size such as");
    assert_refused("--header_max 1", "--header_max", "between 1KiB and 1MiB");
}

static void
switches_are_on_or_off(void **state)
{
    static const char *const on[] = { "on", "true", "1" }, *const off[] = { "off", "false", "0" };

    (void)state;
    for (int i = 0; i < 3; i++) {
        setenv("HOLDFAST_RATE_LIMITS", off[i], 1);
        setenv("HOLDFAST_ALLOW_UNSAFE_DURABILITY", on[i], 1);
        assert_loads("");
        assert_false(config.rate_limits);
        assert_true(config.allow_unsafe_durability);
    }
    assert_refused("--rate_limits maybe", "--rate_limits", "'maybe' is not on or off");
}

static void
hot_shards_are_a_power_of_two(void **state)
{
    (void)state;
    assert_refused("--hot_shards 48", "hot_shards", "power of two");
    assert_loads("--hot_shards 128");
    assert_loads("--hot_shards 1");
}

static void
log_level_and_node_id_must_make_sense(void **state)
{
    (void)state;
    assert_refused("--log_level loud", "log_level", "loud");
    assert_refused("--node_id a/b", "node_id", "a/b");
    assert_loads("--log_level debug --node_id n-1");
}

/* ---- the file's lines ---- */

static void
a_line_is_name_equals_value(void **state)
{
    (void)state;
    write_file("conf/holdfast.conf", "  # a comment\n"
                                     "\n"
                                     "\tworkers=3\r\n"
                                     "jwt_secret =  a=b # not a comment  \n"
                                     "redis_url =\n"
                                     "loops = 2");
    assert_loads("");
    assert_int_equal(config.workers, 3);
    assert_string_equal(config.jwt_secret, "a=b # not a comment");
    assert_string_equal(config.redis_url, "");
    assert_int_equal(config.loops, 2);
}

static void
a_long_line_is_not_cut(void **state)
{
    struct buf text = { 0 };

    (void)state;
    buf_append_text(&text, "jwt_secret = ");
    for (int i = 0; i < 10000; i++)
        buf_append_char(&text, 'k');
    write_bytes("conf/holdfast.conf", text.data, text.len);
    buf_fini(&text);
    assert_loads("");
    assert_int_equal(strlen(config.jwt_secret), 10000);
}

static void
a_bad_line_is_named_by_its_number(void **state)
{
    (void)state;
    write_file("conf/holdfast.conf", "workers = 3\nloops\n");
    assert_refused("", "conf/holdfast.conf:2", "'='");
    write_file("conf/holdfast.conf", "\nworkers = 300\n");
    assert_refused("", "conf/holdfast.conf:2: workers", "between 1 and 64");
    write_bytes("conf/holdfast.conf", "workers = 3\0\n", 13);
    assert_refused("", "conf/holdfast.conf:1", "NUL");
}

/* ---- what is printed ---- */

static void
secrets_are_never_printed(void **state)
{
    (void)state;
    assert_loads("--jwt_secret hunter2 --database_url postgres://u:hunter2@h --api_keys o:hunter2");
    char *text = written(write_config);
    assert_null(strstr(text, "hunter2"));
    assert_non_null(strstr(text, "jwt_secret = ***\n"));
    assert_non_null(strstr(text, "webhook_secret = \n"));
    free(text);
    assert_refused("--jwt_secret hunter2\x01", "--jwt_secret", "control");
    assert_null(strstr(error, "hunter2"));
}

static void
printed_settings_load_as_the_same(void **state)
{
    (void)state;
    assert_loads("--request_timeout 1500 --drain_delay 0 --header_max 3KiB --body_max 1500 "
                 "--rate_limits off --workers 9");
    char *first = written(write_config);
    write_file("other.conf", first);
    assert_loads("--config other.conf");
    char *second = written(write_config);
    assert_string_equal(first, second);
    assert_int_equal(config.drain_delay, 0);
    assert_int_equal(config.body_max, 1500);
    free(first);
    free(second);
}

static void
help_names_every_setting_with_default_and_meaning(void **state)
{
    char *text = written(config_write_help);

    (void)state;
#define CONFIG(name, kind, fallback, least, most, help)                                            \
    assert_non_null(strstr(text, "--" #name " "));                                                 \
    assert_non_null(strstr(text, help));
#include "holdfast/config.def"
#undef CONFIG
    assert_non_null(strstr(text, "[127.0.0.1:8080]"));
    free(text);
}

/* ---- conf/holdfast.conf ---- */

static char *
read_conf(void)
{
    FILE *file = fopen(HOLDFAST_SOURCE "/conf/holdfast.conf", "r");
    char *text = calloc(1, 1 << 16);

    assert_non_null(file);
    assert_non_null(text);
    assert_true(fread(text, 1, (1 << 16) - 1, file) < (1 << 16) - 1);
    fclose(file);
    return text;
}

/* After the head, which ends at the first empty line, it is config.def and nothing else. */
static void
conf_file_says_what_config_def_says(void **state)
{
    char *text = read_conf();
    struct buf expected = { 0 };
    const char *rows = strstr(text, "\n\n");

    (void)state;
#define CONFIG(name, kind, fallback, least, most, help)                                            \
    {                                                                                              \
        const char *bounds[] = { least, most };                                                    \
        buf_printf(&expected, "\n# %s\n# %s", help, #kind);                                        \
        if (bounds[0] != NULL)                                                                     \
            buf_printf(&expected, ", %s to %s", bounds[0], bounds[1]);                             \
        buf_printf(&expected, "\n#%s =%s%s\n", #name, *(fallback) != '\0' ? " " : "", fallback);   \
    }
#include "holdfast/config.def"
#undef CONFIG
    assert_non_null(rows);
    assert_string_equal(rows + 1, expected.data);
    buf_fini(&expected);
    free(text);
}

/* With the `#` taken off, the file sets every default once more. */
static void
conf_file_uncommented_gives_the_defaults(void **state)
{
    char *text = read_conf();
    struct buf bare = { 0 };

    (void)state;
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        if (line[0] == '#' && line[1] != ' ' && line[1] != '\0')
            buf_printf(&bare, "%s\n", line + 1);
    }
    write_bytes("other.conf", bare.data, bare.len);
    assert_loads("--config other.conf");
    char *from_file = written(write_config);
    assert_loads("");
    char *from_defaults = written(write_config);
    assert_string_equal(from_file, from_defaults);
    free(from_file);
    free(from_defaults);
    buf_fini(&bare);
    free(text);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
#define CONFIG_TEST(name) cmocka_unit_test_setup_teardown(name, clean_setup, clean_teardown)
        CONFIG_TEST(without_any_source_the_defaults_hold),
        CONFIG_TEST(the_usual_file_is_read_if_it_is_there),
        CONFIG_TEST(another_file_takes_the_place_of_the_usual_one),
        CONFIG_TEST(a_named_file_must_be_there),
        CONFIG_TEST(environment_beats_file_and_flag_beats_both),
        CONFIG_TEST(the_urls_have_their_common_names_too),
        CONFIG_TEST(flags_and_words_may_be_mixed),
        CONFIG_TEST(after_two_dashes_all_are_words),
        CONFIG_TEST(a_flags_value_may_look_like_a_flag),
        CONFIG_TEST(text_may_stand_in_a_file_that_the_environment_names),
        CONFIG_TEST(a_setting_that_ends_in_file_is_itself),
        CONFIG_TEST(a_secrets_file_must_be_readable_and_the_only_source),
        CONFIG_TEST(only_text_may_stand_in_a_file_of_its_own),
        CONFIG_TEST(unknown_names_are_refused_wherever_they_stand),
        CONFIG_TEST(other_programs_variables_are_left_alone),
        CONFIG_TEST(a_flag_needs_a_value),
        CONFIG_TEST(numbers_must_be_whole_and_in_range),
        CONFIG_TEST(durations_have_units),
        CONFIG_TEST(sizes_have_units),
        CONFIG_TEST(switches_are_on_or_off),
        CONFIG_TEST(hot_shards_are_a_power_of_two),
        CONFIG_TEST(log_level_and_node_id_must_make_sense),
        CONFIG_TEST(a_line_is_name_equals_value),
        CONFIG_TEST(a_long_line_is_not_cut),
        CONFIG_TEST(a_bad_line_is_named_by_its_number),
        CONFIG_TEST(secrets_are_never_printed),
        CONFIG_TEST(printed_settings_load_as_the_same),
        CONFIG_TEST(help_names_every_setting_with_default_and_meaning),
        CONFIG_TEST(conf_file_says_what_config_def_says),
        CONFIG_TEST(conf_file_uncommented_gives_the_defaults),
    };

    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
