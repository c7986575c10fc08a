/* The warm tier against a real Redis: values, scripts, replies that are due, and trouble. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "live.h"

/* --- values ------------------------------------------------------------------------ */

static void
a_fresh_put_writes_the_same_and_its_key_lives_a_minute_longer(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    struct warm_hold hold = hold_of("A1", uuid_v7_new(), "ann", 1);
    hold.fresh = true;
    assert_true(warm_put(warm, &hold, 1));
    assert_true(warm_collect(warm));
    long long ttl = ask_number("PTTL", "seat:A1", "");
    assert_true(ttl > 900000 && ttl <= 960000);
    assert_int_equal(warm_count(warm, ORG, event), 1);
    assert_true(warm_remove(warm, &hold, 1));
    assert_true(warm_collect(warm));
    assert_int_equal(warm_count(warm, ORG, event), 0);
}

static void
a_hold_that_changes_hands_leaves_no_member_of_its_first_user(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    struct warm_hold hold = hold_of("A1", uuid_v7_new(), "ann", 1);
    assert_true(warm_put(warm, &hold, 1));
    assert_true(warm_collect(warm));
    hold.user = SLICE_LITERAL("bob");
    hold.version = 2;
    assert_true(warm_put(warm, &hold, 1));
    assert_true(warm_collect(warm));
    assert_int_equal(warm_count(warm, ORG, event), 1);
}

static void
a_hold_that_loses_one_seat_of_two_keeps_its_meta(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    struct uuid id = uuid_v7_new();
    char meta[80], text[UUID_TEXT_BYTES];
    struct warm_hold holds[2] = { hold_of("A1", id, "ann", 1), hold_of("A2", id, "ann", 1) };
    uuid_format(&id, text);
    snprintf(meta, sizeof(meta), "hold:%s:meta", text);
    assert_true(warm_put(warm, holds, 2));
    assert_true(warm_collect(warm));
    holds[0].lives_on = true;
    assert_true(warm_remove(warm, &holds[0], 1));
    assert_true(warm_collect(warm));
    assert_int_equal(ask_number("EXISTS", meta, ""), 1);
    assert_int_equal(warm_count(warm, ORG, event), 1);
    assert_true(warm_remove(warm, &holds[1], 1));
    assert_true(warm_collect(warm));
    assert_int_equal(ask_number("EXISTS", meta, ""), 0);
}

static bool
has_counts(struct slice of_event)
{
    char *json = NULL;
    size_t len = 0;
    bool found = warm_get_occupancy(warm, ORG, of_event, &json, &len);

    free(json);
    return found;
}

static void
what_changes_an_event_drops_its_counts_and_no_others(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    struct slice beside = SLICE_LITERAL("beside"), counts = SLICE_LITERAL("{}");
    struct warm_hold hold = hold_of("A1", uuid_v7_new(), "ann", 1);
    struct warm_hold elsewhere = hold_of("A2", uuid_v7_new(), "bob", 1);

    assert_true(warm_put_occupancy(warm, ORG, beside, counts, 10000));
    for (int turn = 0; turn < 3; turn++) {
        assert_true(warm_put_occupancy(warm, ORG, event, counts, 10000));
        assert_true(has_counts(event));
        if (turn < 2)
            put_one(hold);
        else
            remove_one(hold);
        assert_false(has_counts(event));
        hold.fresh = true;
    }
    assert_true(warm_put_occupancy(warm, ORG, event, counts, 10000));
    remove_one(elsewhere); /* a hold that has no key here is gone all the same */
    assert_false(has_counts(event));
    assert_true(has_counts(beside));
}

static void
a_put_writes_key_member_and_meta(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    struct uuid id = uuid_v7_new();
    char hold[UUID_TEXT_BYTES], wanted[512], member[256], meta[64];
    uuid_format(&id, hold);
    put_one(hold_of("A1", id, "ann", 7));

    snprintf(wanted, sizeof(wanted),
             "{\"hold_id\":\"%s\",\"user_id\":\"ann\",\"cart_token\":\"cart-1\",\"expires_at\":"
             "\"2026-01-31T"
             "12:51:40.000Z\",\"held_at\":\"2026-01-31T12:36:40.000Z\",\"seat\":\"acme/%s/A1\","
             "\"as_of\":\"2026-01-31T12:36:41.000Z\",\"version\":7}",
             hold, event_text);
    assert_asked("GET", "seat:A1", "", wanted);
    snprintf(member, sizeof(member), "A1:%s:ann", hold);
    assert_asked("ZSCORE", "seat_holds", member, "1769863900000");
    snprintf(meta, sizeof(meta), "hold:%s:meta", hold);
    assert_asked("HGET", meta, "user_id", "ann");
    assert_asked("HGET", meta, "event_id", event_text);
    assert_asked("HGET", meta, "held_until", "2026-01-31T12:51:40.000Z");
    assert_asked("HGET", meta, "source", "web");
    assert_asked("HGET", meta, "status", "active");
    assert_true(ask_number("PTTL", meta, "") > 900000);
    assert_true(ask_number("PTTL", "seat_holds", "") > 900000);

    char *json = NULL;
    size_t len = 0;
    assert_true(warm_get_seat(warm, ORG, event, SLICE_LITERAL("A1"), &json, &len));
    assert_int_equal(len, strlen(wanted));
    assert_memory_equal(json, wanted, len);
    free(json);
    assert_false(warm_get_seat(warm, ORG, event, SLICE_LITERAL("A2"), &json, &len));
    assert_int_equal(warm_count(warm, ORG, event), 1);
}

static void
a_put_replaces_unless_this_hold_has_a_newer_version_there(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    struct uuid id = uuid_v7_new();
    put_one(hold_of("A1", id, "ann", 7));
    put_one(hold_of("A1", id, "ann", 6));
    char *value = ask("GET", "seat:A1", "");
    assert_non_null(strstr(value, "\"version\":7}"));
    free(value);
    put_one(hold_of("A1", id, "ann", 8));
    value = ask("GET", "seat:A1", "");
    assert_non_null(strstr(value, "\"version\":8}"));
    free(value);
    put_one(hold_of("A1", uuid_v7_new(), "bob", 2)); /* another hold: a lower version or not */
    value = ask("GET", "seat:A1", "");
    assert_non_null(strstr(value, "\"user_id\":\"bob\""));
    free(value);
    assert_int_equal(warm_count(warm, ORG, event), 1); /* ann's member went with her key */
}

static void
a_cart_token_cannot_pass_for_a_version(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    struct warm_hold hold = hold_of("A1", uuid_v7_new(), "ann", 1);
    hold.cart_token = SLICE_LITERAL("\",\"version\":999}");
    put_one(hold);
    hold.version = 2;
    put_one(hold);
    char *value = ask("GET", "seat:A1", "");
    assert_non_null(strstr(value, "\"version\":2}"));
    free(value);
}

static void
the_ordered_set_lives_as_long_as_its_longest_member(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    put_one(hold_of("A1", uuid_v7_new(), "ann", 1));
    struct warm_hold brief = hold_of("A2", uuid_v7_new(), "bob", 1);
    brief.ttl_ms = 1000;
    put_one(brief);
    assert_true(ask_number("PTTL", "seat_holds", "") > 900000);
    struct warm_hold over = hold_of("A3", uuid_v7_new(), "cat", 1);
    over.ttl_ms = -1000000;
    put_one(over); /* over long ago: gone at once, and no error */
}

static void
keys_of_another_type_are_replaced(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    free(ask("LPUSH", "seat:A1", "x"));
    free(ask("LPUSH", "seat_holds", "x"));
    struct warm_hold hold = hold_of("A1", uuid_v7_new(), "ann", 1);
    remove_one(hold);
    char *json;
    size_t len;
    assert_false(warm_get_seat(warm, ORG, event, SLICE_LITERAL("A1"), &json, &len));
    assert_int_equal(warm_count(warm, ORG, event), -1);
    assert_non_null(warm->link.context); /* a wrong key is no outage */
    put_one(hold);
    assert_int_equal(warm_count(warm, ORG, event), 1);
    assert_true(warm_get_seat(warm, ORG, event, SLICE_LITERAL("A1"), &json, &len));
    free(json);
}

static void
a_remove_takes_only_what_is_of_this_hold(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    struct uuid first = uuid_v7_new(), second = uuid_v7_new();
    put_one(hold_of("A1", first, "ann", 1));
    put_one(hold_of("A1", second, "bob", 3));
    remove_one(hold_of("A1", first, "ann", 2)); /* a late release */
    char *json = NULL;
    size_t len = 0;
    assert_true(warm_get_seat(warm, ORG, event, SLICE_LITERAL("A1"), &json, &len));
    assert_non_null(strstr(json, "bob"));
    free(json);
    assert_int_equal(warm_count(warm, ORG, event), 1);

    remove_one(hold_of("A1", second, "bob", 4));
    assert_false(warm_get_seat(warm, ORG, event, SLICE_LITERAL("A1"), &json, &len));
    assert_int_equal(warm_count(warm, ORG, event), 0);
    char pattern[96];
    snprintf(pattern, sizeof(pattern), "*event:%s}*", event_text);
    redisReply *keys = redis("KEYS %s", pattern);
    assert_int_equal(keys->elements, 0);
    freeReplyObject(keys);
}

static void
a_batch_of_many_events_and_seats_is_written_whole(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    enum { COUNT = 1000 };
    static struct warm_hold holds[COUNT];
    static char seats[COUNT][16];
    struct uuid id = uuid_v7_new();
    for (int i = 0; i < COUNT; i++) {
        snprintf(seats[i], sizeof(seats[i]), "S%d", i);
        if (i % 4 == 0) {
            id = uuid_v7_new(); /* four seats a hold */
        }
        holds[i] = hold_of(seats[i], id, "ann", 1);
        holds[i].org =
            i % 8 < 4 ? ORG : SLICE_LITERAL("acne"); /* two tenants with one event name */
    }
    assert_true(warm_put(warm, holds, COUNT));
    assert_true(warm_collect(warm));
    assert_int_equal(warm_count(warm, ORG, event), COUNT / 2);
    assert_int_equal(warm_count(warm, SLICE_LITERAL("acne"), event), COUNT / 2);
    assert_true(warm_remove(warm, holds, COUNT));
    assert_int_equal(warm_count(warm, ORG, event), 0); /* collects by itself */
}

/* As after a wipe, which the watcher tells of, or with what was told to a connection that is lost.
 */
static void
a_set_that_was_lost_with_its_end_gets_one_again(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    for (int way = 0; way < 2; way++) {
        put_one(hold_of("A1", uuid_v7_new(), "ann", 1));
        assert_true(ask_number("PTTL", "seat_holds", "") > 0);
        free(ask("DEL", "seat_holds", ""));
        if (way == 0)
            warm_tier_distrust(tier, "a test says so");
        else
            shutdown(warm->link.context->fd, SHUT_RDWR);
        put_one(hold_of("A2", uuid_v7_new(), "bob", 1));
        assert_true(ask_number("PTTL", "seat_holds", "") > 0);
    }
}

/* --- trouble ------------------------------------------------------------------------ */

static void
forgotten_scripts_are_loaded_and_the_calls_sent_again(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    assert_true(warm_ping(warm));
    freeReplyObject(redis("SCRIPT %s", "FLUSH"));
    struct warm_hold holds[2] = { hold_of("A1", uuid_v7_new(), "ann", 1),
                                  hold_of("A2", uuid_v7_new(), "bob", 1) };
    assert_true(warm_put(warm, &holds[0], 1));
    assert_true(warm_put(warm, &holds[1], 1));
    assert_true(warm_collect(warm));
    assert_int_equal(warm_count(warm, ORG, event), 2);
}

static void
a_connection_that_ended_while_idle_costs_nothing(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    assert_true(warm_ping(warm));
    shutdown(warm->link.context->fd, SHUT_RDWR);
    put_one(hold_of("A1", uuid_v7_new(), "ann", 1));
}

static void
a_connection_lost_under_way_costs_one_call_and_the_events_trust(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    struct warm_hold hold = hold_of("A1", uuid_v7_new(), "ann", 1);
    warm_tier_rebuilt(tier, ORG, event, warm_tier_ticket(tier, ORG, event));
    assert_true(warm_tier_trusts(tier, ORG, event));
    assert_true(warm_put(warm, &hold, 1));
    shutdown(warm->link.context->fd, SHUT_RDWR);
    struct warm_hold elsewhere = hold;
    elsewhere.event = SLICE_LITERAL("elsewhere");
    assert_false(warm_remove(warm, &elsewhere, 1)); /* with the put's replies still due */
    assert_false(warm_collect(warm));
    assert_false(warm_tier_trusts(tier, ORG, event));
    assert_true(warm_put(warm, &hold, 1) && warm_collect(warm)); /* it connects anew */
    assert_int_equal(breaker_state(warm_tier_breaker(tier)), BREAKER_CLOSED);
    assert_false(warm_tier_trusts(tier, ORG, event)); /* the first one is lost all the same */
}

/* A listener that accepts (its backlog does) and never answers, as a stopped Redis does. */
static void
a_redis_that_hangs_is_left_alone_after_five_timeouts(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    char path[108];
    snprintf(path, sizeof(path), "/tmp/hf-warm-%d.sock", (int)getpid());
    struct warm_address address;
    char url[128];
    snprintf(url, sizeof(url), "unix:%s", path);
    assert_true(warm_address_parse(slice_of(url), &address));

    struct sockaddr_storage storage = { 0 };
    storage.ss_family = AF_UNIX;
    memcpy((char *)&storage + sizeof(sa_family_t), path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(
        bind(fd, (struct sockaddr *)&storage, (socklen_t)(sizeof(sa_family_t) + strlen(path) + 1)),
        0);
    assert_int_equal(listen(fd, 8), 0);

    struct config hanging = config;
    hanging.redis_url = url;
    hanging.redis_timeout_ms = 30;
    struct warm_tier *its_tier = warm_tier_new(&hanging);
    struct warm *stopped = warm_new(&hanging, its_tier);
    assert_non_null(stopped);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(breaker_state(warm_tier_breaker(its_tier)), BREAKER_CLOSED);
        assert_false(warm_ping(stopped));
    }
    assert_int_equal(breaker_state(warm_tier_breaker(its_tier)), BREAKER_OPEN);
    int64_t best_us = TIME_US_PER_S; /* of some: a thread may be held up */
    for (int tries = 0; tries < 10; tries++) {
        struct mono_time began = mono_now();
        assert_false(warm_ping(stopped)); /* at once */
        int64_t took_us = mono_now().us - began.us;
        best_us = took_us < best_us ? took_us : best_us;
    }
    assert_true(best_us < 20 * TIME_US_PER_MS);
    warm_free(&stopped);
    warm_tier_free(&its_tier);
    close(fd);
    unlink(path);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            a_hold_that_changes_hands_leaves_no_member_of_its_first_user, open_case, close_case),
        cmocka_unit_test_setup_teardown(a_hold_that_loses_one_seat_of_two_keeps_its_meta, open_case,
                                        close_case),
        cmocka_unit_test_setup_teardown(
            a_fresh_put_writes_the_same_and_its_key_lives_a_minute_longer, open_case, close_case),
        cmocka_unit_test_setup_teardown(what_changes_an_event_drops_its_counts_and_no_others,
                                        open_case, close_case),
        cmocka_unit_test_setup_teardown(a_put_writes_key_member_and_meta, open_case, close_case),
        cmocka_unit_test_setup_teardown(a_put_replaces_unless_this_hold_has_a_newer_version_there,
                                        open_case, close_case),
        cmocka_unit_test_setup_teardown(a_cart_token_cannot_pass_for_a_version, open_case,
                                        close_case),
        cmocka_unit_test_setup_teardown(the_ordered_set_lives_as_long_as_its_longest_member,
                                        open_case, close_case),
        cmocka_unit_test_setup_teardown(keys_of_another_type_are_replaced, open_case, close_case),
        cmocka_unit_test_setup_teardown(a_remove_takes_only_what_is_of_this_hold, open_case,
                                        close_case),
        cmocka_unit_test_setup_teardown(a_batch_of_many_events_and_seats_is_written_whole,
                                        open_case, close_case),
        cmocka_unit_test_setup_teardown(a_set_that_was_lost_with_its_end_gets_one_again, open_case,
                                        close_case),
        cmocka_unit_test_setup_teardown(forgotten_scripts_are_loaded_and_the_calls_sent_again,
                                        open_case, close_case),
        cmocka_unit_test_setup_teardown(a_connection_that_ended_while_idle_costs_nothing, open_case,
                                        close_case),
        cmocka_unit_test_setup_teardown(
            a_connection_lost_under_way_costs_one_call_and_the_events_trust, open_case, close_case),
        cmocka_unit_test_setup_teardown(a_redis_that_hangs_is_left_alone_after_five_timeouts,
                                        open_case, close_case),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
