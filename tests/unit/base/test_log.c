/*
 * Log lines, read back from where stderr was led.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cjson/cJSON.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "holdfast/clock.h"
#include "holdfast/json.h"
#include "holdfast/log.h"

#define THREADS          4
#define LINES_PER_THREAD 50
#define LONG_TEXT_BYTES  9000 /* more than a pipe takes in one piece */

static int stderr_saved;
static int reading_end;
static pthread_t reader;
static struct buf captured; /* the reader's until capture_end has joined it */

static void *
read_all(void *unused)
{
    char bytes[4096];
    ssize_t len;

    (void)unused;
    while ((len = read(reading_end, bytes, sizeof(bytes))) > 0)
        buf_append(&captured, bytes, (size_t)len);
    return NULL;
}

static void
capture_begin(void)
{
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    fflush(stderr);
    stderr_saved = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    reading_end = ends[0];
    buf_clear(&captured);
    assert_int_equal(pthread_create(&reader, NULL, read_all, NULL), 0);
}

static void
capture_end(void)
{
    dup2(stderr_saved, STDERR_FILENO);
    close(stderr_saved);
    pthread_join(reader, NULL);
    close(reading_end);
}

static int
free_captured(void **state)
{
    (void)state;
    buf_fini(&captured);
    return 0;
}

/* Takes the next line off `rest` as a tree; fails if it isn't one JSON value. */
static cJSON *
next_line(struct slice *rest)
{
    struct json_error error;
    const char *end = memchr(rest->ptr, '\n', rest->len);

    assert_non_null(end);
    struct slice line = { rest->ptr, (size_t)(end - rest->ptr) };
    cJSON *tree = json_parse(line, &error);
    assert_non_null(tree);
    rest->ptr = end + 1;
    rest->len -= line.len + 1;
    return tree;
}

static const char *
text_of(const cJSON *tree, const char *name)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(tree, name));
}

static void
a_line_has_time_level_event_node_and_fields(void **state)
{
    struct db_time time;

    (void)state;
    log_init(LOG_INFO, "n1");
    capture_begin();
    LOG_EVENT(LOG_WARN, "redis_down", log_int("failures", -5), log_text("why", "a \"b\"\n"),
              log_slice("part", (struct slice){ "cut here", 3 }), log_text("none", NULL));
    capture_end();

    struct slice rest = buf_slice(&captured);
    cJSON *tree = next_line(&rest);
    assert_int_equal(rest.len, 0);
    assert_true(db_time_parse(slice_of(text_of(tree, "time")), &time));
    assert_string_equal(text_of(tree, "level"), "warn");
    assert_string_equal(text_of(tree, "event"), "redis_down");
    assert_string_equal(text_of(tree, "node"), "n1");
    assert_int_equal(cJSON_GetObjectItemCaseSensitive(tree, "failures")->valueint, -5);
    assert_string_equal(text_of(tree, "why"), "a \"b\"\n");
    assert_string_equal(text_of(tree, "part"), "cut");
    assert_string_equal(text_of(tree, "none"), "");
    cJSON_Delete(tree);
}

static void
a_line_needs_no_fields(void **state)
{
    (void)state;
    capture_begin();
    LOG_EVENT(LOG_INFO, "started");
    capture_end();
    struct slice rest = buf_slice(&captured);
    cJSON *tree = next_line(&rest);
    assert_string_equal(text_of(tree, "event"), "started");
    cJSON_Delete(tree);
}

static void
lines_below_the_level_are_not_written(void **state)
{
    (void)state;
    log_init(LOG_ERROR, "n1");
    capture_begin();
    LOG_EVENT(LOG_DEBUG, "one");
    LOG_EVENT(LOG_WARN, "two");
    log_write(LOG_INFO, "three", NULL, 0);
    LOG_EVENT(LOG_ERROR, "four");
    capture_end();

    struct slice rest = buf_slice(&captured);
    cJSON *tree = next_line(&rest);
    assert_string_equal(text_of(tree, "event"), "four");
    assert_int_equal(rest.len, 0);
    cJSON_Delete(tree);
}

static void
levels_have_names(void **state)
{
    enum log_level level = LOG_INFO;

    (void)state;
    assert_true(log_level_parse("debug", &level));
    assert_int_equal(level, LOG_DEBUG);
    assert_true(log_level_parse("error", &level));
    assert_int_equal(level, LOG_ERROR);
    assert_false(log_level_parse("ERROR", &level));
    assert_false(log_level_parse("", &level));
}

static void *
write_long_lines(void *text)
{
    for (int i = 0; i < LINES_PER_THREAD; i++)
        LOG_EVENT(LOG_INFO, "long", log_text("text", text));
    return NULL;
}

static void
long_lines_of_many_threads_stay_whole(void **state)
{
    pthread_t threads[THREADS];
    char texts[THREADS][LONG_TEXT_BYTES];

    (void)state;
    log_init(LOG_INFO, "n1");
    capture_begin();
    for (int i = 0; i < THREADS; i++) {
        memset(texts[i], 'a' + i, LONG_TEXT_BYTES - 1);
        texts[i][LONG_TEXT_BYTES - 1] = '\0';
        assert_int_equal(pthread_create(&threads[i], NULL, write_long_lines, texts[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    capture_end();

    struct slice rest = buf_slice(&captured);
    for (int i = 0; i < THREADS * LINES_PER_THREAD; i++) {
        cJSON *tree = next_line(&rest);
        const char *text = text_of(tree, "text");
        assert_string_equal(text, texts[text[0] - 'a']);
        cJSON_Delete(tree);
    }
    assert_int_equal(rest.len, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_has_time_level_event_node_and_fields),
        cmocka_unit_test(a_line_needs_no_fields),
        cmocka_unit_test(lines_below_the_level_are_not_written),
        cmocka_unit_test(levels_have_names),
        cmocka_unit_test(long_lines_of_many_threads_stay_whole),
    };

    return cmocka_run_group_tests(tests, NULL, free_captured);
}
