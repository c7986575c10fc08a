/* What repair finds in a real Redis, and how it makes it right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "live.h"

enum { FOUND_MAX = 20000 };

/* What a walk showed; texts are copies. */
struct walked {
    int count, max; /* it stops the walk at max */
    char seat[FOUND_MAX][24];
    char text[FOUND_MAX][320];
};
static struct walked walked;

static void
copy(char *out, size_t bytes, struct slice text)
{
    snprintf(out, bytes, "%.*s", SLICE_ARG(text));
}

static bool
note(void *context, const struct warm_found *found)
{
    struct walked *all = context;
    copy(all->seat[all->count], sizeof(all->seat[0]), found->seat);
    copy(all->text[all->count], sizeof(all->text[0]), found->text);
    return ++all->count < all->max;
}

static void
nothing_walked(void)
{
    walked.count = 0;
    walked.max = FOUND_MAX;
}

static bool
read_seats(const struct slice *seats, int count)
{
    nothing_walked();
    return warm_read_seats(warm, ORG, event, seats, count, note, &walked);
}

static int
read_members(void)
{
    nothing_walked();
    assert_true(warm_read_members(warm, ORG, event, note, &walked));
    return walked.count;
}

static int
scan(void)
{
    nothing_walked();
    struct mono_time deadline = { mono_now().us + 20 * (int64_t)TIME_US_PER_S };
    assert_true(warm_scan_seats(warm, ORG, event, deadline, note, &walked));
    return walked.count;
}

static int
drop_seat(const char *seat, const char *text)
{
    struct warm_found found = { .seat = slice_of(seat), .text = slice_of(text) };
    return warm_drop_seats(warm, ORG, event, &found, 1);
}

static int
drop_member(const char *text)
{
    struct warm_found found = { .text = slice_of(text) };
    return warm_drop_members(warm, ORG, event, &found, 1);
}

/* One EVAL with a word; its reply is of no interest. */
static void
eval(const char *lua, const char *word)
{
    redisReply *reply = redisCommand(admin, "EVAL %s 0 %s", lua, word);
    assert_non_null(reply);
    assert_int_not_equal(reply->type, REDIS_REPLY_ERROR);
    freeReplyObject(reply);
}

/* --- seats ------------------------------------------------------------------------------ */

enum { MANY = 1000 };
static char names[10 * MANY][16];
static struct warm_hold many[10 * MANY];
static struct slice seats[MANY];

static void
put_many(int count)
{
    for (int i = 0; i < count; i++) {
        snprintf(names[i], sizeof(names[0]), "S%d", i);
        many[i] = hold_of(names[i], uuid_v7_new(), "ann", i + 1);
        if (i < MANY)
            seats[i] = many[i].seat;
    }
    for (int i = 0; i < count; i += MANY) {
        assert_true(warm_put(warm, many + i, count - i < MANY ? count - i : MANY));
        assert_true(warm_collect(warm));
    }
}

static void
the_keys_that_exist_are_shown_as_they_were_written(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    put_many(MANY);
    for (int i = 0; i < MANY; i += 2)
        remove_one(many[i]);
    assert_true(read_seats(seats, MANY));
    assert_int_equal(walked.count, MANY / 2);
    for (int i = 0; i < walked.count; i++) {
        const struct warm_hold *hold = &many[2 * i + 1];
        assert_string_equal(walked.seat[i], names[2 * i + 1]);
        assert_true(warm_value_is(slice_of(walked.text[i]), hold));
        assert_false(warm_value_is(slice_of(walked.text[i]), hold - 1));
    }
    assert_true(read_seats(seats, 0));
    assert_int_equal(walked.count, 0);
}

static void
keys_of_another_type_have_no_text_and_huge_ones_are_cut(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    const struct slice three[] = { SLICE_LITERAL("A1"), SLICE_LITERAL("A2"), SLICE_LITERAL("A3") };
    char key[96];
    free(ask("LPUSH", "seat:A1", "x"));
    snprintf(key, sizeof(key), "holdfast:{org:acme:event:%s}:seat:A2", event_text);
    eval("redis.call('SET', ARGV[1], string.rep('x', 10000000), 'EX', 60)", key);
    put_one(hold_of("A3", uuid_v7_new(), "ann", 1));
    assert_true(read_seats(three, 3));
    assert_int_equal(walked.count, 3);
    assert_string_equal(walked.text[0], "");
    assert_int_equal(walked.text[1][0], 'x');
    assert_int_equal(walked.text[2][0], '{');

    char *json = NULL;
    size_t len = 0;
    assert_true(warm_get_seat(warm, ORG, event, three[1], &json, &len));
    assert_int_equal(len, WARM_VALUE_MAX);
    struct warm_found cut = { .seat = three[1], .text = { json, len } };
    assert_int_equal(warm_drop_seats(warm, ORG, event, &cut, 1), 1);
    free(json);
    assert_int_equal(ask_number("EXISTS", "seat:A2", ""), 0);
}

static void
a_visitor_that_has_seen_enough_leaves_the_connection_in_step(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    put_many(MANY);
    nothing_walked();
    walked.max = 3;
    assert_true(warm_read_seats(warm, ORG, event, seats, MANY, note, &walked));
    assert_int_equal(walked.count, 3);
    assert_true(warm_read_members(warm, ORG, event, note, &walked));
    assert_int_equal(warm_count(warm, ORG, event), MANY);
}

/* --- members -------------------------------------------------------------------------------- */

static int
by_seat_number(const void *a, const void *b)
{
    return atoi((const char *)a + 1) - atoi((const char *)b + 1);
}

static void
ten_thousand_members_are_all_shown(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    put_many(10 * MANY);
    assert_true(read_members() >= 10 * MANY);
    qsort(walked.seat, (size_t)walked.count, sizeof(walked.seat[0]), by_seat_number);
    int distinct = 0;
    for (int i = 0; i < walked.count; i++)
        distinct += i == 0 || strcmp(walked.seat[i - 1], walked.seat[i]) != 0;
    assert_int_equal(distinct, 10 * MANY);
}

static void
strange_members_are_shown_and_dropped_by_their_text(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    assert_int_equal(read_members(), 0); /* no set at all */
    free(ask("ZADD", "seat_holds", "inf nonsense"));
    assert_int_equal(read_members(), 1);
    assert_string_equal(walked.seat[0], "");
    assert_string_equal(walked.text[0], "nonsense");
    struct warm_hold hold = hold_of("A1", uuid_v7_new(), "ann", 1);
    put_one(hold);
    assert_int_equal(drop_member("else"), 0);
    assert_int_equal(drop_member("nonsense"), 1);
    assert_int_equal(read_members(), 1);
    assert_string_equal(walked.seat[0], "A1");
    assert_int_equal(drop_member(""), 0); /* it is a sorted set, without an empty member */
    assert_int_equal(warm_count(warm, ORG, event), 1);
}

static void
a_set_of_another_type_is_shown_once_and_goes_as_a_whole(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    free(ask("SET", "seat_holds", "x"));
    assert_int_equal(read_members(), 1);
    assert_string_equal(walked.text[0], "");
    assert_int_equal(drop_member("x"), 0);
    assert_int_equal(drop_member(""), 1);
    assert_int_equal(ask_number("EXISTS", "seat_holds", ""), 0);
}

/* --- every key -------------------------------------------------------------------------------- */

static void
a_scan_finds_the_events_seats_among_many_foreign_keys(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    put_many(MANY);
    struct warm_hold near = hold_of("A1", uuid_v7_new(), "ann", 1);
    char other[40];
    snprintf(other, sizeof(other), "%s-2", event_text);
    near.event = slice_of(other);
    put_one(near);
    near.event = event;
    near.org = SLICE_LITERAL("acme-2");
    put_one(near);
    eval("for i = 1, 50000 do redis.call('SET', ARGV[1] .. i, 'x', 'EX', 60) end", event_text);
    free(ask("LPUSH", "seat:list", "x"));
    free(ask("SET", "seat:empty", "x"));
    free(ask("SETRANGE", "seat:cut", "0 x"));
    assert_int_equal(scan(), MANY + 3);
    for (int i = 0; i < walked.count; i++) {
        if (walked.seat[i][0] == 'S') {
            assert_true(warm_value_is(slice_of(walked.text[i]), &many[atoi(walked.seat[i] + 1)]));
        } else {
            assert_int_equal(strcmp(walked.seat[i], "list") == 0, walked.text[i][0] == '\0');
        }
    }
    struct mono_time past = { mono_now().us - 1 };
    assert_false(warm_scan_seats(warm, ORG, event, past, note, &walked));
    eval("for i = 1, 50000 do redis.call('UNLINK', ARGV[1] .. i) end", event_text);
    freeReplyObject(redis("DEL holdfast:{org:acme:event:%s}:seat:A1", other));
    freeReplyObject(redis("DEL holdfast:{org:acme:event:%s}:seat_holds", other));
}

/* --- compare and delete ---------------------------------------------------------------------- */

static void
a_value_written_since_it_was_found_stays(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    struct warm_hold hold = hold_of("A1", uuid_v7_new(), "ann", 1);
    put_one(hold);
    const struct slice seat = hold.seat;
    assert_true(read_seats(&seat, 1));
    hold.version = 2;
    put_one(hold);
    assert_int_equal(drop_seat("A1", walked.text[0]), 0);
    assert_int_equal(ask_number("EXISTS", "seat:A1", ""), 1);
    assert_true(read_seats(&seat, 1));
    assert_int_equal(drop_seat("A1", walked.text[0]), 1);
    assert_int_equal(ask_number("EXISTS", "seat:A1", ""), 0);
    assert_int_equal(drop_seat("A1", walked.text[0]), 0); /* gone already */
}

static void
an_empty_text_takes_another_type_or_an_empty_value_away_and_nothing_else(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    free(ask("SADD", "seat:A1", "x"));
    assert_int_equal(drop_seat("A1", "x"), 0);
    assert_int_equal(drop_seat("A1", ""), 1);
    free(ask("SET", "seat:A1", "x"));
    assert_int_equal(drop_seat("A1", ""), 0);
    free(ask("GETDEL", "seat:A1", ""));
    assert_int_equal(drop_seat("A1", ""), 0); /* nothing is there */
    char key[96];
    snprintf(key, sizeof(key), "holdfast:{org:acme:event:%s}:seat:A1", event_text);
    eval("redis.call('SET', ARGV[1], '', 'EX', 60)", key);
    assert_int_equal(scan(), 1);
    assert_int_equal(drop_seat("A1", walked.text[0]), 1);
}

static void
a_thousand_are_dropped_in_pieces_also_after_redis_forgot_the_scripts(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    static struct warm_found found[MANY];
    put_many(MANY);
    assert_true(read_seats(seats, MANY));
    for (int i = 0; i < MANY; i++)
        found[i] = (struct warm_found){ .seat = seats[i], .text = slice_of(walked.text[i]) };
    freeReplyObject(redis("SCRIPT %s", "FLUSH"));
    assert_int_equal(warm_drop_seats(warm, ORG, event, found, MANY), MANY);
    assert_int_equal(warm_count(warm, ORG, event), MANY);
    assert_int_equal(read_members(), MANY);
    for (int i = 0; i < MANY; i++)
        found[i] = (struct warm_found){ .text = slice_of(walked.text[i]) };
    freeReplyObject(redis("SCRIPT %s", "FLUSH"));
    assert_int_equal(warm_drop_members(warm, ORG, event, found, MANY), MANY);
    assert_int_equal(warm_count(warm, ORG, event), 0);
    assert_int_equal(warm_drop_members(warm, ORG, event, found, 0), 0);
}

/* --- compare and set, and details ----------------------------------------------------------------
 */

static bool
is_right(const struct warm_hold *hold)
{
    bool right = false;
    assert_true(warm_read_details(warm, hold, 1, &right));
    return right;
}

static void
assert_whole(const struct warm_hold *hold)
{
    assert_true(read_seats(&hold->seat, 1));
    assert_int_equal(walked.count, 1);
    assert_true(warm_value_is(slice_of(walked.text[0]), hold));
    assert_true(is_right(hold));
}

static void
what_is_lost_is_written_anew(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    put_many(MANY);
    eval("for _, key in ipairs(redis.call('KEYS', '*event:' .. ARGV[1] .. '}*')) do "
         "redis.call('DEL', key) end",
         event_text);
    assert_int_equal(warm_count(warm, ORG, event), 0);
    assert_true(warm_mend(warm, many, MANY));
    static bool right[MANY];
    assert_true(warm_read_details(warm, many, MANY, right));
    for (int i = 0; i < MANY; i++)
        assert_true(right[i]);
    assert_true(read_seats(seats, MANY));
    assert_int_equal(walked.count, MANY);
    assert_whole(&many[MANY - 1]);
}

static void
keys_of_another_type_are_mended_all_three(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    char meta[80], id[UUID_TEXT_BYTES];
    struct warm_hold hold = hold_of("A1", uuid_v7_new(), "ann", 1);
    uuid_format(&hold.hold_id, id);
    snprintf(meta, sizeof(meta), "hold:%s:meta", id);
    free(ask("LPUSH", "seat:A1", "x"));
    free(ask("SET", "seat_holds", "x"));
    free(ask("SADD", meta, "x"));
    assert_false(is_right(&hold));
    assert_true(warm_mend(warm, &hold, 1));
    assert_whole(&hold);
}

static void
a_newer_version_of_the_same_hold_is_not_mended_away(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    struct warm_hold newer = hold_of("A1", uuid_v7_new(), "ann", 3), older = newer;
    older.version = 2;
    put_one(newer);
    assert_true(warm_mend(warm, &older, 1));
    assert_whole(&newer);
}

static void
a_wrong_score_or_meta_is_told_and_mended(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    char meta[80], id[UUID_TEXT_BYTES], rest[128];
    struct warm_hold hold = hold_of("A1", uuid_v7_new(), "ann", 1);
    uuid_format(&hold.hold_id, id);
    snprintf(meta, sizeof(meta), "hold:%s:meta", id);
    const struct {
        const char *command, *key, *rest;
    } harms[] = { { "ZADD", "seat_holds", rest },
                  { "DEL", "seat_holds", "" },
                  { "HSET", meta, "user_id bob" },
                  { "HSET", meta, "more yes" },
                  { "HDEL", meta, "status" },
                  { "DEL", meta, "" },
                  { "HSET", meta, "held_until tomorrow" } };
    snprintf(rest, sizeof(rest), "7 A1:%s:ann", id);
    put_one(hold);
    assert_whole(&hold);
    for (size_t i = 0; i < sizeof(harms) / sizeof(harms[0]); i++) {
        free(ask(harms[i].command, harms[i].key, harms[i].rest));
        assert_false(is_right(&hold));
        assert_true(warm_mend(warm, &hold, 1));
        assert_whole(&hold);
    }
}

static void
seats_of_one_hold_share_its_meta_and_without_a_source_none_is_asked_for(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    struct uuid id = uuid_v7_new();
    struct warm_hold two[2] = { hold_of("A1", id, "ann", 1), hold_of("A2", id, "ann", 1) };
    bool right[2];
    two[0].source = two[1].source = SLICE_EMPTY;
    assert_true(warm_mend(warm, two, 2));
    assert_true(warm_read_details(warm, two, 2, right));
    assert_true(right[0] && right[1]);
    two[0].source = two[1].source = SLICE_LITERAL("web");
    assert_true(warm_read_details(warm, two, 2, right));
    assert_false(right[0] || right[1]);
    assert_true(warm_mend(warm, two, 2));
    assert_true(warm_read_details(warm, two, 2, right));
    assert_true(right[0] && right[1]);
}

int
main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, open_case, close_case)
    const struct CMUnitTest tests[] = {
        CASE(the_keys_that_exist_are_shown_as_they_were_written),
        CASE(keys_of_another_type_have_no_text_and_huge_ones_are_cut),
        CASE(a_visitor_that_has_seen_enough_leaves_the_connection_in_step),
        CASE(ten_thousand_members_are_all_shown),
        CASE(strange_members_are_shown_and_dropped_by_their_text),
        CASE(a_set_of_another_type_is_shown_once_and_goes_as_a_whole),
        CASE(a_scan_finds_the_events_seats_among_many_foreign_keys),
        CASE(a_value_written_since_it_was_found_stays),
        CASE(an_empty_text_takes_another_type_or_an_empty_value_away_and_nothing_else),
        CASE(a_thousand_are_dropped_in_pieces_also_after_redis_forgot_the_scripts),
        CASE(what_is_lost_is_written_anew),
        CASE(keys_of_another_type_are_mended_all_three),
        CASE(a_newer_version_of_the_same_hold_is_not_mended_away),
        CASE(a_wrong_score_or_meta_is_told_and_mended),
        CASE(seats_of_one_hold_share_its_meta_and_without_a_source_none_is_asked_for),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
