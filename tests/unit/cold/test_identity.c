/* What this process knows of the server behind the address. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cold_internal.h"
#include "holdfast/log.h"

static int changes;

static void
count_change(void *context)
{
    (void)context;
    changes++;
}

static struct db_clock *clock_of_tests;

static unsigned
saw(struct pg_identity *identity, int64_t system_identifier, int64_t timeline)
{
    return pg_identity_saw(identity, clock_of_tests, system_identifier, timeline);
}

static void
another_system_or_timeline_is_another_server(void **state)
{
    (void)state;
    struct pg_identity *identity = pg_identity_new();
    pg_identity_on_change(identity, count_change, NULL);
    changes = 0;
    unsigned first = saw(identity, 7, 1);
    assert_int_equal(saw(identity, 7, 1), first);
    assert_int_equal(saw(identity, 0, 1), first); /* could not be read: no news */
    assert_int_equal(changes, 0);
    unsigned promoted = saw(identity, 7, 2);
    assert_int_not_equal(promoted, first);
    assert_int_equal(pg_identity_generation(identity), promoted);
    assert_int_equal(pg_identity_system(identity), 7);
    assert_int_equal(pg_identity_timeline(identity), 2);
    assert_int_not_equal(saw(identity, 8, 2), promoted);
    assert_int_equal(changes, 2);
    pg_identity_free(&identity);
}

static void
the_same_trouble_is_news_once_until_it_is_over(void **state)
{
    (void)state;
    struct pg_identity *identity = pg_identity_new();
    assert_false(pg_identity_trouble_is_over(identity)); /* there was none */
    assert_true(pg_identity_trouble_is_news(identity, "fsync is 'off'"));
    assert_false(pg_identity_trouble_is_news(identity, "fsync is 'off'"));
    assert_true(pg_identity_trouble_is_news(identity, "refused"));
    assert_true(pg_identity_trouble_is_over(identity));
    assert_false(pg_identity_trouble_is_over(identity));
    assert_true(pg_identity_trouble_is_news(identity, "refused"));
    pg_identity_free(&identity);
}

static void
the_preferred_host_is_every_connections(void **state)
{
    (void)state;
    struct pg_identity *identity = pg_identity_new();
    assert_int_equal(pg_identity_first_host(identity), 0);
    pg_identity_prefer_host(identity, 3);
    assert_int_equal(pg_identity_first_host(identity), 3);
    pg_identity_free(&identity);
}

int
main(void)
{
    log_init(LOG_ERROR + 1, "test");
    clock_of_tests = db_clock_new();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_system_or_timeline_is_another_server),
        cmocka_unit_test(the_same_trouble_is_news_once_until_it_is_over),
        cmocka_unit_test(the_preferred_host_is_every_connections),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    db_clock_free(&clock_of_tests);
    return failed;
}
