/* Maps in memory: loading, moving forward, deltas, ends, ready bodies. Times are the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include <cjson/cJSON.h>
#include <pthread.h>
#include <zlib.h>

#include "fake_rows.h"
#include "holdfast/http.h"
#include "holdfast/json.h"
#include "map_internal.h"
#include "map_rows.h"

#define NOW 1000000000000LL
static const struct slice org = { "acme", 4 };
static const struct slice event = { "E1", 2 };

struct house {
    struct seat_maps *maps;
    struct pg_result *seats, *areas;
    struct mono_time began;
};

static int
set_up(void **state)
{
    struct house *house = calloc(1, sizeof(*house));
    house->maps = seat_maps_new(2);
    house->seats = rows_new(SEAT_COLUMNS);
    house->areas = rows_new(AREA_COLUMNS);
    *state = house;
    return 0;
}

static int
tear_down(void **state)
{
    struct house *house = *state;
    seat_maps_free(&house->maps);
    pg_result_free(&house->seats);
    pg_result_free(&house->areas);
    free(house);
    return 0;
}

static void
add_seat(struct house *house, const char *seat, const char *row, const char *number,
         const char *status, const char *version, const char *until)
{
    rows_add(house->seats, seat, "main", row, number, NULL, "1000", NULL, "2.5", status, "f",
             version, until, "f", "f", NULL, NULL, NULL);
}

static void
three_seats(struct house *house)
{
    add_seat(house, "C", "10", "1", "available", "0", NULL);
    add_seat(house, "B", "2", "10", "available", "0", NULL);
    add_seat(house, "A", "2", "9", "available", "0", NULL);
    rows_add(house->areas, "floor", "The \"floor\"", "10", "2", "3", NULL, "5");
}

static enum seat_map_answer
ask(struct house *house, const struct seat_map_request *wish, struct seat_map_reply *reply)
{
    struct seat_map_request request = *wish;
    request.org = org;
    if (request.event.len == 0)
        request.event = event;
    if (request.now.us == 0)
        request.now.us = NOW;
    return seat_maps_get(house->maps, &request, reply);
}

/* A time after everything that was done so far: one microsecond is too short to tell. */
static struct mono_time
later(void)
{
    struct mono_time now = mono_now();
    struct mono_time next;
    do {
        next = mono_now();
    } while (next.us == now.us);
    return next;
}

static bool
load_rows(struct house *house, struct slice which, struct mono_time began)
{
    struct seat_map_reading reading = { .began = began };
    return seat_maps_load(house->maps, org, which, house->seats, house->areas, &reading);
}

/* What a GET that needs a load does; rows as they are in the house. */
static void
load_event(struct house *house, struct slice which)
{
    struct seat_map_reply reply;
    struct seat_map_request wish = { .event = which, .may_render = true };
    assert_int_equal(ask(house, &wish, &reply), SEAT_MAP_LOAD);
    house->began = later();
    assert_true(load_rows(house, which, house->began));
}

static cJSON *
parse(struct seat_map_reply *reply)
{
    struct json_error error;
    assert_false(reply->gzip);
    cJSON *json = json_parse((struct slice){ reply->body->bytes, reply->body->len }, &error);
    assert_non_null(json);
    http_body_put(reply->body);
    return json;
}

static cJSON *
get(struct house *house, const char *since)
{
    struct seat_map_reply reply;
    struct seat_map_request wish = { .since = since == NULL ? SLICE_EMPTY : slice_of(since),
                                     .may_render = true };
    assert_int_equal(ask(house, &wish, &reply), SEAT_MAP_BODY);
    return parse(&reply);
}

static const char *
text(const cJSON *json, const char *name)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, name));
}

static int
number(const cJSON *json, const char *name)
{
    return (int)cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(json, name));
}

static int
seat_count(const cJSON *map)
{
    return cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(map, "seats"));
}

static const cJSON *
seat_at(const cJSON *map, int at)
{
    return cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(map, "seats"), at);
}

static void
change(struct house *house, const char *seat, enum seat_status status, int64_t version,
       int64_t until)
{
    struct feed_change change = { .kind = FEED_SEAT,
                                  .status = status,
                                  .org = org,
                                  .event = event,
                                  .item = slice_of(seat),
                                  .version = version,
                                  .held_until = { until } };
    seat_maps_take(house->maps, &change, (struct feed_mark){ 0 }, NULL);
}

/* The map has to be read again. */
static void
seats_came(struct house *house)
{
    struct feed_change change = { .kind = FEED_SEATS, .org = org, .event = event };
    seat_maps_take(house->maps, &change, (struct feed_mark){ 0 }, NULL);
}

static void
change_floor(struct house *house, int64_t held, int64_t sold, int64_t version)
{
    struct feed_change change = { .kind = FEED_AREA,
                                  .org = org,
                                  .event = event,
                                  .item = SLICE_LITERAL("floor"),
                                  .version = version,
                                  .held = held,
                                  .sold = sold };
    seat_maps_take(house->maps, &change, (struct feed_mark){ 0 }, NULL);
}

/* --- loading -------------------------------------------------------------- */

static void
an_unknown_map_has_to_be_loaded(void **state)
{
    struct house *house = *state;
    struct seat_map_reply reply;
    assert_int_equal(ask(house, &(struct seat_map_request){ 0 }, &reply), SEAT_MAP_LOAD);
    three_seats(house);
    load_event(house, event);
    cJSON *map = get(house, NULL);
    assert_string_equal(text(map, "event_id"), "E1");
    assert_true(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(map, "full")));
    assert_int_equal(seat_count(map), 3);
    cJSON_Delete(map);
}

static void
seats_stand_in_the_order_of_people(void **state)
{
    struct house *house = *state;
    three_seats(house);
    load_event(house, event);
    cJSON *map = get(house, NULL);
    assert_string_equal(text(seat_at(map, 0), "seat_id"), "A");
    assert_string_equal(text(seat_at(map, 1), "seat_id"), "B");
    assert_string_equal(text(seat_at(map, 2), "seat_id"), "C");
    cJSON_Delete(map);
}

static void
a_seat_says_all_that_is_known_and_nothing_else(void **state)
{
    struct house *house = *state;
    rows_add(house->seats, "A", "St\"alls", "1", "2", "wheelchair", "1000", "-3.25", "0.1", "held",
             "f", "7", "1000000000000", "f", "f", NULL, NULL, NULL);
    add_seat(house, "B", "1", "3", "sold", "9", NULL);
    load_event(house, event);
    struct seat_map_reply reply;
    assert_int_equal(
        ask(house, &(struct seat_map_request){ .now = { 1 }, .may_render = true }, &reply),
        SEAT_MAP_BODY);
    const char *first =
        "{\"seat_id\":\"A\",\"section\":\"St\\\"alls\",\"row\":\"1\",\"number\":\"2\","
        "\"type\":\"wheelchair\",\"price\":1000,\"x\":-3.25,\"y\":0.1,\"status\":\"held\","
        "\"version\":7,\"held_until\":\"1970-01-12T13:46:40.000Z\"}";
    assert_non_null(memmem(reply.body->bytes, reply.body->len, first, strlen(first)));
    const char *second = "\"price\":1000,\"y\":2.5,\"status\":\"sold\",\"version\":9}";
    assert_non_null(memmem(reply.body->bytes, reply.body->len, second, strlen(second)));
    http_body_put(reply.body);
}

static void
an_event_without_seats_has_an_empty_map(void **state)
{
    struct house *house = *state;
    load_event(house, event);
    cJSON *map = get(house, NULL);
    assert_int_equal(seat_count(map), 0);
    cJSON_Delete(map);
}

static void
areas_show_what_is_left(void **state)
{
    struct house *house = *state;
    three_seats(house);
    load_event(house, event);
    change_floor(house, 4, 3, 6);
    change_floor(house, 9, 1, 6); /* not newer */
    cJSON *map = get(house, NULL);
    const cJSON *area = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(map, "areas"), 0);
    assert_string_equal(text(area, "name"), "The \"floor\"");
    assert_int_equal(number(area, "capacity"), 10);
    assert_int_equal(number(area, "held"), 4);
    assert_int_equal(number(area, "sold"), 3);
    assert_int_equal(number(area, "available"), 3);
    cJSON_Delete(map);
}

static const cJSON *
floor_of(const cJSON *map)
{
    return cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(map, "areas"), 0);
}

/* Its capacity was raised, which nobody has told yet. */
static void
an_area_that_took_more_than_fits_is_read_again_and_never_short(void **state)
{
    struct house *house = *state;
    struct seat_map_reply reply;
    struct seat_map_counts counts;
    three_seats(house);
    load_event(house, event);
    (void)later();
    change_floor(house, 9, 3, 7);
    assert_int_equal(ask(house, &(struct seat_map_request){ .may_render = true }, &reply),
                     SEAT_MAP_LOAD);
    assert_true(seat_maps_count(house->maps, org, event, (struct db_time){ NOW }, &counts));
    assert_int_equal(counts.available, 3); /* the seats */
    pg_result_free(&house->areas);
    house->areas = rows_new(AREA_COLUMNS);
    rows_add(house->areas, "floor", "Floor", "20", "8", "3", NULL, "6");
    load_event(house, event);
    cJSON *map = get(house, NULL);
    assert_int_equal(number(floor_of(map), "capacity"), 20);
    assert_int_equal(number(floor_of(map), "held"), 9); /* newer than what was read */
    assert_int_equal(number(floor_of(map), "available"), 8);
    cJSON_Delete(map);
}

/* What was read beside a newer change is older in its counts only. */
static void
a_capacity_that_was_read_stands_beside_newer_counts(void **state)
{
    struct house *house = *state;
    three_seats(house);
    load_event(house, event);
    cJSON *before = get(house, NULL);
    pg_result_free(&house->areas);
    house->areas = rows_new(AREA_COLUMNS);
    rows_add(house->areas, "floor", "The \"floor\"", "8", "2", "3", NULL, "6");
    seats_came(house);
    change_floor(house, 1, 3, 7);
    load_event(house, event);
    cJSON *after = get(house, text(before, "version"));
    assert_string_not_equal(text(after, "version"), text(before, "version"));
    assert_int_equal(number(floor_of(after), "capacity"), 8);
    assert_int_equal(number(floor_of(after), "held"), 1);
    assert_int_equal(number(floor_of(after), "available"), 4);
    cJSON_Delete(after);
    cJSON_Delete(before);
}

/* The read of the first loading may have begun before the change committed. */
static void
a_change_during_the_first_loading_is_not_lost(void **state)
{
    struct house *house = *state;
    struct seat_map_reply reply;
    struct seat_map_request wish = { .may_render = true };
    three_seats(house);
    assert_int_equal(ask(house, &wish, &reply), SEAT_MAP_LOAD);
    struct mono_time began = mono_now();
    change(house, "A", SEAT_HELD, 1, NOW + 5000000);
    assert_true(load_rows(house, event, began));
    assert_int_equal(ask(house, &wish, &reply), SEAT_MAP_LOAD);
    /* From now on changes are taken in, so the second loading can be as old as it likes. */
    change(house, "A", SEAT_HELD, 1, NOW + 5000000);
    assert_true(load_rows(house, event, later()));
    cJSON *map = get(house, NULL);
    assert_string_equal(text(seat_at(map, 0), "status"), "held");
    cJSON_Delete(map);
}

static void
a_seat_that_the_map_does_not_know_asks_for_another_loading(void **state)
{
    struct house *house = *state;
    struct seat_map_reply reply;
    three_seats(house);
    load_event(house, event);
    change(house, "NEW", SEAT_HELD, 1, NOW);
    assert_int_equal(ask(house, &(struct seat_map_request){ .may_render = true }, &reply),
                     SEAT_MAP_LOAD);
}

static void
what_was_invalidated_or_distrusted_or_too_old_is_loaded_again(void **state)
{
    struct house *house = *state;
    struct seat_map_reply reply;
    three_seats(house);
    load_event(house, event);
    seats_came(house);
    load_event(house, event);
    (void)later();
    seat_maps_distrust(house->maps);
    load_event(house, event);
    struct seat_map_request wish = { .fresh_since = { house->began.us + 1 }, .may_render = true };
    assert_int_equal(ask(house, &wish, &reply), SEAT_MAP_LOAD);
    wish.fresh_since.us = house->began.us;
    assert_int_equal(ask(house, &wish, &reply), SEAT_MAP_BODY);
    http_body_put(reply.body);
}

static void
a_reader_is_owed_only_what_was_before_its_request(void **state)
{
    struct house *house = *state;
    struct seat_map_reply reply;
    struct seat_map_request wish = { .arrived = later(), .may_render = true };
    three_seats(house);
    load_event(house, event);
    seats_came(house); /* after the request came */
    assert_int_equal(ask(house, &wish, &reply), SEAT_MAP_BODY);
    http_body_put(reply.body);
    wish.arrived = later();
    assert_int_equal(ask(house, &wish, &reply), SEAT_MAP_LOAD);
}

static void
a_loading_never_takes_a_seat_back(void **state)
{
    struct house *house = *state;
    three_seats(house);
    load_event(house, event);
    change(house, "A", SEAT_SOLD, 4, 0);
    seats_came(house);
    load_event(house, event); /* its rows still say version 0 */
    cJSON *map = get(house, NULL);
    assert_string_equal(text(seat_at(map, 0), "status"), "sold");
    assert_int_equal(number(seat_at(map, 0), "version"), 4);
    cJSON_Delete(map);
}

static void
what_a_loading_finds_different_is_a_change(void **state)
{
    struct house *house = *state;
    three_seats(house);
    load_event(house, event);
    cJSON *before = get(house, NULL);
    struct pg_result *news = rows_new(SEAT_COLUMNS);
    rows_add(news, "A", "main", "2", "9", NULL, "1000", NULL, "2.5", "sold", "f", "3", NULL, "f",
             "f", NULL, NULL, NULL);
    rows_add(news, "B", "main", "2", "10", NULL, "2000", NULL, "2.5", "available", "f", "1", NULL,
             "f", "f", NULL, NULL, NULL);
    rows_add(news, "C", "main", "10", "1", NULL, "1000", NULL, "2.5", "available", "f", "0", NULL,
             "f", "f", NULL, NULL, NULL);
    rows_add(news, "D", "main", "1", "1", NULL, "1000", NULL, "2.5", "available", "f", "0", NULL,
             "f", "f", NULL, NULL, NULL);
    pg_result_free(&house->seats);
    house->seats = news;
    seats_came(house);
    load_event(house, event);
    cJSON *delta = get(house, text(before, "version"));
    assert_null(cJSON_GetObjectItemCaseSensitive(delta, "full"));
    assert_int_equal(seat_count(delta), 3);
    assert_string_equal(text(seat_at(delta, 0), "seat_id"), "D");
    assert_string_equal(text(seat_at(delta, 1), "status"), "sold");
    assert_int_equal(number(seat_at(delta, 2), "price"), 2000);
    cJSON_Delete(delta);
    cJSON_Delete(before);
}

static void
the_same_rows_in_another_order_are_no_change(void **state)
{
    struct house *house = *state;
    three_seats(house);
    load_event(house, event);
    cJSON *before = get(house, NULL);
    pg_result_free(&house->seats);
    house->seats = rows_new(SEAT_COLUMNS);
    add_seat(house, "A", "2", "9", "available", "0", NULL);
    add_seat(house, "C", "10", "1", "available", "0", NULL);
    add_seat(house, "B", "2", "10", "available", "0", NULL);
    seats_came(house);
    load_event(house, event);
    cJSON *after = get(house, NULL);
    assert_true(cJSON_Compare(before, after, true));
    cJSON_Delete(before);
    cJSON_Delete(after);
}

static void
past_the_limit_the_map_longest_unused_goes(void **state)
{
    struct house *house = *state;
    struct seat_map_reply reply;
    three_seats(house);
    load_event(house, slice_of("E1"));
    load_event(house, slice_of("E2"));
    cJSON_Delete(get(house, NULL)); /* E1 is used again */
    load_event(house, slice_of("E3"));
    struct seat_map_request wish = { .event = slice_of("E2") };
    assert_int_equal(ask(house, &wish, &reply), SEAT_MAP_LOAD);
    cJSON_Delete(get(house, NULL));
}

static void
forgotten_maps_have_to_be_loaded_and_old_versions_are_unknown(void **state)
{
    struct house *house = *state;
    three_seats(house);
    load_event(house, event);
    cJSON *before = get(house, NULL);
    seat_maps_forget(house->maps);
    load_event(house, event);
    cJSON *map = get(house, text(before, "version"));
    assert_true(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(map, "full")));
    assert_string_not_equal(text(map, "version"), text(before, "version"));
    cJSON_Delete(map);
    cJSON_Delete(before);
}

/* --- changes and deltas ------------------------------------------------------ */

static void
a_delta_has_only_what_changed_in_display_order(void **state)
{
    struct house *house = *state;
    three_seats(house);
    load_event(house, event);
    cJSON *before = get(house, NULL);
    change(house, "C", SEAT_HELD, 1, NOW + 1000000);
    change(house, "A", SEAT_BLOCKED, 1, 0);
    cJSON *delta = get(house, text(before, "version"));
    assert_int_equal(seat_count(delta), 2);
    assert_string_equal(text(seat_at(delta, 0), "seat_id"), "A");
    assert_string_equal(text(seat_at(delta, 1), "seat_id"), "C");
    cJSON *nothing = get(house, text(delta, "version"));
    assert_int_equal(seat_count(nothing), 0);
    assert_string_equal(text(nothing, "version"), text(delta, "version"));
    cJSON_Delete(nothing);
    cJSON_Delete(delta);
    cJSON_Delete(before);
}

static void
an_older_version_of_a_seat_changes_nothing(void **state)
{
    struct house *house = *state;
    three_seats(house);
    load_event(house, event);
    change(house, "A", SEAT_SOLD, 2, 0);
    cJSON *before = get(house, NULL);
    change(house, "A", SEAT_AVAILABLE, 1, 0);
    change(house, "A", SEAT_SOLD, 2, 0);
    cJSON *after = get(house, NULL);
    assert_string_equal(text(before, "version"), text(after, "version"));
    cJSON_Delete(after);
    cJSON_Delete(before);
}

static void
an_unknown_since_gets_the_whole_map(void **state)
{
    struct house *house = *state;
    static const char *const versions[] = { "", "x", "0123456789abcdef-1", "-",
                                            "99999999999999999999999999-1" };
    three_seats(house);
    load_event(house, event);
    cJSON *whole = get(house, NULL);
    for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
        cJSON *map = get(house, versions[i]);
        assert_true(cJSON_Compare(map, whole, true));
        cJSON_Delete(map);
    }
    /* A position of the future is none of ours. */
    char future[64];
    snprintf(future, sizeof(future), "%s0", text(whole, "version"));
    cJSON *map = get(house, future);
    assert_int_equal(seat_count(map), 3);
    cJSON_Delete(map);
    cJSON_Delete(whole);
}

static void
a_removed_seat_is_in_deltas_only(void **state)
{
    struct house *house = *state;
    three_seats(house);
    load_event(house, event);
    cJSON *before = get(house, NULL);
    change(house, "B", SEAT_REMOVED, 1, 0);
    cJSON *whole = get(house, NULL);
    assert_int_equal(seat_count(whole), 2);
    cJSON *delta = get(house, text(before, "version"));
    assert_int_equal(seat_count(delta), 1);
    assert_string_equal(text(seat_at(delta, 0), "status"), "removed");
    assert_int_equal(number(seat_at(delta, 0), "version"), 1);
    assert_int_equal(cJSON_GetArraySize(seat_at(delta, 0)), 3);
    cJSON_Delete(delta);
    cJSON_Delete(whole);
    cJSON_Delete(before);
}

/* --- ends of holds -------------------------------------------------------------- */

static void
a_hold_past_its_end_shows_as_available_and_counts_as_a_change(void **state)
{
    struct house *house = *state;
    struct seat_map_reply reply;
    three_seats(house);
    load_event(house, event);
    change(house, "A", SEAT_HELD, 1, NOW + 1000);
    cJSON *before = get(house, NULL);
    assert_string_equal(text(seat_at(before, 0), "status"), "held");
    struct seat_map_request wish = { .now = { NOW + 1000 },
                                     .since = slice_of(text(before, "version")) };
    assert_int_equal(ask(house, &wish, &reply), SEAT_MAP_BODY);
    cJSON *delta = parse(&reply);
    assert_string_not_equal(text(delta, "version"), text(before, "version"));
    assert_int_equal(seat_count(delta), 1);
    assert_string_equal(text(seat_at(delta, 0), "status"), "available");
    assert_null(text(seat_at(delta, 0), "held_until"));
    assert_int_equal(number(seat_at(delta, 0), "version"), 1);
    cJSON_Delete(delta);
    cJSON_Delete(before);
}

static void
a_hold_in_payment_is_not_over_at_its_end(void **state)
{
    struct house *house = *state;
    struct seat_map_reply reply;
    rows_add(house->seats, "A", "main", "1", "1", NULL, NULL, NULL, NULL, "held", "t", "3", "1000",
             "f", "f", NULL, NULL, NULL);
    load_event(house, event);
    assert_int_equal(ask(house, &(struct seat_map_request){ .may_render = true }, &reply),
                     SEAT_MAP_BODY);
    cJSON *map = parse(&reply);
    assert_string_equal(text(seat_at(map, 0), "status"), "held");
    cJSON_Delete(map);
}

static void
an_extended_hold_is_held_again(void **state)
{
    struct house *house = *state;
    three_seats(house);
    load_event(house, event);
    change(house, "A", SEAT_HELD, 1, NOW - 1);
    cJSON *over = get(house, NULL);
    assert_string_equal(text(seat_at(over, 0), "status"), "available");
    change(house, "A", SEAT_HELD, 2, NOW + 1);
    cJSON *held = get(house, NULL);
    assert_string_equal(text(seat_at(held, 0), "status"), "held");
    cJSON_Delete(held);
    cJSON_Delete(over);
}

/* --- bodies ------------------------------------------------------------------------ */

static void
one_body_serves_everybody_until_something_changes(void **state)
{
    struct house *house = *state;
    struct seat_map_reply first, second, third;
    struct seat_map_request wish = { .may_render = true };
    three_seats(house);
    load_event(house, event);
    assert_int_equal(ask(house, &wish, &first), SEAT_MAP_BODY);
    wish.may_render = false; /* it is ready: a loop may send it */
    assert_int_equal(ask(house, &wish, &second), SEAT_MAP_BODY);
    assert_ptr_equal(first.body, second.body);
    assert_string_equal(first.etag, second.etag);
    change(house, "A", SEAT_SOLD, 1, 0);
    wish.may_render = true;
    assert_int_equal(ask(house, &wish, &third), SEAT_MAP_BODY);
    assert_ptr_not_equal(first.body, third.body);
    http_body_put(first.body);
    http_body_put(second.body);
    http_body_put(third.body);
}

/* Its tag too: another row of the event makes another one, of the same seats. */
static void
a_show_has_a_body_of_its_own(void **state)
{
    struct house *house = *state;
    struct seat_map_reply first, second, reply;
    struct seat_map_request wish = { .show_version = 1 };
    three_seats(house);
    load_event(house, event);
    cJSON_Delete(get(house, NULL));
    assert_int_equal(ask(house, &wish, &reply), SEAT_MAP_RENDER); /* the map's is none of it */
    wish.may_render = true;
    wish.show = SLICE_LITERAL("{\"name\":\"Hamlet\"}");
    assert_int_equal(ask(house, &wish, &first), SEAT_MAP_BODY);
    struct seat_map_request looped = { .show_version = 1, .if_none_match = slice_of(first.etag) };
    assert_int_equal(ask(house, &looped, &reply), SEAT_MAP_NOT_MODIFIED);
    looped.if_none_match = SLICE_EMPTY;
    assert_int_equal(ask(house, &looped, &reply), SEAT_MAP_BODY);
    assert_ptr_equal(reply.body, first.body);
    http_body_put(reply.body);
    looped.show_version = 2;
    assert_int_equal(ask(house, &looped, &reply), SEAT_MAP_RENDER);
    wish.show_version = 2;
    wish.show = SLICE_LITERAL("{\"name\":\"Macbeth\"}");
    assert_int_equal(ask(house, &wish, &second), SEAT_MAP_BODY);
    assert_string_not_equal(second.etag, first.etag);
    http_body_put(first.body);
    cJSON *map = parse(&second);
    assert_string_equal(text(cJSON_GetObjectItemCaseSensitive(map, "show"), "name"), "Macbeth");
    assert_int_equal(seat_count(map), 3);
    cJSON_Delete(map);
    change(house, "A", SEAT_SOLD, 1, 0);
    looped.show_version = 2;
    assert_int_equal(ask(house, &looped, &reply), SEAT_MAP_RENDER);
}

static void
a_loop_is_sent_away_when_a_body_has_to_be_written(void **state)
{
    struct house *house = *state;
    struct seat_map_reply sent_away, other, reply;
    struct seat_map_request wish = { 0 };
    three_seats(house);
    load_event(house, event);
    assert_int_equal(ask(house, &wish, &sent_away), SEAT_MAP_RENDER);
    /* Another one has it written; it is new enough for the first, though something has changed
     * since. */
    wish.may_render = true;
    assert_int_equal(ask(house, &wish, &other), SEAT_MAP_BODY);
    change(house, "A", SEAT_SOLD, 1, 0);
    wish.may_render = false;
    wish.at_least = sent_away.position;
    assert_int_equal(ask(house, &wish, &reply), SEAT_MAP_BODY);
    assert_ptr_equal(reply.body, other.body);
    wish.at_least = 0;
    assert_int_equal(ask(house, &wish, &sent_away), SEAT_MAP_RENDER);
    http_body_put(other.body);
    http_body_put(reply.body);
}

static void
the_etag_is_good_for_a_304_until_something_changes(void **state)
{
    struct house *house = *state;
    struct seat_map_reply first, reply;
    char list[sizeof(first.etag) + 16];
    three_seats(house);
    load_event(house, event);
    assert_int_equal(ask(house, &(struct seat_map_request){ .may_render = true }, &first),
                     SEAT_MAP_BODY);
    http_body_put(first.body);
    snprintf(list, sizeof(list), "\"other\", %s", first.etag);
    const struct slice good[] = { slice_of(first.etag), slice_of(first.etag + 2), slice_of(list),
                                  slice_of("*") };
    for (size_t i = 0; i < 4; i++) {
        struct seat_map_request wish = { .if_none_match = good[i] };
        assert_int_equal(ask(house, &wish, &reply), SEAT_MAP_NOT_MODIFIED);
        assert_string_equal(reply.etag, first.etag);
    }
    change(house, "A", SEAT_SOLD, 1, 0);
    struct seat_map_request wish = { .if_none_match = slice_of(first.etag), .may_render = true };
    assert_int_equal(ask(house, &wish, &reply), SEAT_MAP_BODY);
    http_body_put(reply.body);
}

static void
inflate_all(const struct http_body *body, char *out, size_t room, size_t *len)
{
    z_stream z = { .next_in = (unsigned char *)(uintptr_t)body->bytes,
                   .avail_in = (uInt)body->len,
                   .next_out = (unsigned char *)out,
                   .avail_out = (uInt)room };
    assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
    assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
    *len = z.total_out;
    inflateEnd(&z);
}

static void
gzip_is_the_same_body_compressed_and_small_ones_stay_plain(void **state)
{
    struct house *house = *state;
    struct seat_map_reply plain, gzip;
    struct seat_map_request wish = { .may_render = true };
    static char out[65536];
    size_t len;
    char id[16];
    for (int i = 0; i < 100; i++) {
        snprintf(id, sizeof(id), "S%d", i);
        add_seat(house, id, "1", id, "available", "0", NULL);
    }
    load_event(house, event);
    assert_int_equal(ask(house, &wish, &plain), SEAT_MAP_BODY);
    wish.gzip = true;
    assert_int_equal(ask(house, &wish, &gzip), SEAT_MAP_BODY);
    assert_true(gzip.gzip);
    inflate_all(gzip.body, out, sizeof(out), &len);
    assert_int_equal(len, plain.body->len);
    assert_memory_equal(out, plain.body->bytes, len);
    assert_string_equal(plain.etag, gzip.etag);
    http_body_put(plain.body);
    http_body_put(gzip.body);
}

static void
a_large_delta_is_not_written_on_a_loop(void **state)
{
    struct house *house = *state;
    struct seat_map_reply reply;
    char id[16];
    for (int i = 0; i < 1000; i++) {
        snprintf(id, sizeof(id), "S%d", i);
        add_seat(house, id, "1", id, "available", "0", NULL);
    }
    load_event(house, event);
    cJSON *before = get(house, NULL);
    for (int i = 0; i < 1000; i++) {
        snprintf(id, sizeof(id), "S%d", i);
        change(house, id, SEAT_SOLD, 1, 0);
    }
    struct seat_map_request wish = { .since = slice_of(text(before, "version")) };
    assert_int_equal(ask(house, &wish, &reply), SEAT_MAP_RENDER);
    cJSON *delta = get(house, text(before, "version"));
    assert_int_equal(seat_count(delta), 1000);
    cJSON_Delete(delta);
    cJSON_Delete(before);
}

/* --- a model, with random changes: a client that follows deltas has the whole map ---- */

static void
follow(cJSON *mine, const cJSON *delta)
{
    const cJSON *seat;
    cJSON *seats = cJSON_GetObjectItemCaseSensitive(mine, "seats");
    cJSON_ArrayForEach(seat, cJSON_GetObjectItemCaseSensitive(delta, "seats"))
    {
        for (int i = 0; i < cJSON_GetArraySize(seats); i++) {
            if (strcmp(text(cJSON_GetArrayItem(seats, i), "seat_id"), text(seat, "seat_id")) == 0)
                cJSON_ReplaceItemInArray(seats, i, cJSON_Duplicate(seat, true));
        }
    }
    cJSON_ReplaceItemInObjectCaseSensitive(mine, "version",
                                           cJSON_CreateString(text(delta, "version")));
}

static void
a_reader_of_deltas_has_the_whole_map(void **state)
{
    struct house *house = *state;
    unsigned seed = (unsigned)mono_now().us;
    int64_t versions[20] = { 0 };
    char id[16];
    print_message("seed %u\n", seed);
    srand(seed);
    for (int i = 0; i < 20; i++) {
        snprintf(id, sizeof(id), "S%d", i);
        add_seat(house, id, "1", id, "available", "0", NULL);
    }
    load_event(house, event);
    cJSON *mine = get(house, NULL);
    for (int round = 0; round < 500; round++) {
        for (int n = rand() % 4; n > 0; n--) {
            int i = rand() % 20;
            snprintf(id, sizeof(id), "S%d", i);
            change(house, id, rand() % 2 ? SEAT_HELD : SEAT_SOLD, ++versions[i],
                   NOW + 1 + rand() % 1000);
        }
        if (rand() % 20 == 0) {
            seats_came(house);
            load_event(house, event);
        }
        cJSON *delta = get(house, text(mine, "version"));
        follow(mine, delta);
        cJSON_Delete(delta);
        cJSON *whole = get(house, NULL);
        assert_true(cJSON_Compare(mine, whole, true));
        cJSON_Delete(whole);
    }
    cJSON_Delete(mine);
}

/* --- threads: changes, readers and loadings at once ---------------------------------- */

static void *
change_for_a_while(void *argument)
{
    struct house *house = argument;
    for (int64_t version = 1; version <= 3000; version++)
        change(house, version % 2 ? "A" : "B", version % 3 ? SEAT_HELD : SEAT_SOLD, version,
               NOW + version);
    return NULL;
}

static void *
read_for_a_while(void *argument)
{
    struct house *house = argument;
    for (int i = 0; i < 600; i++) {
        struct seat_map_reply reply;
        struct seat_map_request wish = { .may_render = i % 2 == 0,
                                         .gzip = i % 3 == 0,
                                         .now = { NOW + i } };
        switch (ask(house, &wish, &reply)) {
        case SEAT_MAP_BODY:
            http_body_put(reply.body);
            break;
        case SEAT_MAP_LOAD:
            assert_true(load_rows(house, event, mono_now()));
            break;
        case SEAT_MAP_NOT_MODIFIED:
        case SEAT_MAP_RENDER:
            break;
        }
        if (i % 50 == 0)
            seats_came(house);
        if (i % 200 == 199)
            seat_maps_forget(house->maps);
    }
    return NULL;
}

static void
threads_change_read_load_and_forget_at_once(void **state)
{
    struct house *house = *state;
    pthread_t threads[4];
    three_seats(house);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL,
                                        i == 0 ? change_for_a_while : read_for_a_while, house),
                         0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(an_unknown_map_has_to_be_loaded),
        CASE(seats_stand_in_the_order_of_people),
        CASE(a_seat_says_all_that_is_known_and_nothing_else),
        CASE(an_event_without_seats_has_an_empty_map),
        CASE(areas_show_what_is_left),
        CASE(an_area_that_took_more_than_fits_is_read_again_and_never_short),
        CASE(a_capacity_that_was_read_stands_beside_newer_counts),
        CASE(a_change_during_the_first_loading_is_not_lost),
        CASE(a_seat_that_the_map_does_not_know_asks_for_another_loading),
        CASE(what_was_invalidated_or_distrusted_or_too_old_is_loaded_again),
        CASE(a_reader_is_owed_only_what_was_before_its_request),
        CASE(a_loading_never_takes_a_seat_back),
        CASE(what_a_loading_finds_different_is_a_change),
        CASE(the_same_rows_in_another_order_are_no_change),
        CASE(past_the_limit_the_map_longest_unused_goes),
        CASE(forgotten_maps_have_to_be_loaded_and_old_versions_are_unknown),
        CASE(a_delta_has_only_what_changed_in_display_order),
        CASE(an_older_version_of_a_seat_changes_nothing),
        CASE(an_unknown_since_gets_the_whole_map),
        CASE(a_removed_seat_is_in_deltas_only),
        CASE(a_hold_past_its_end_shows_as_available_and_counts_as_a_change),
        CASE(a_hold_in_payment_is_not_over_at_its_end),
        CASE(an_extended_hold_is_held_again),
        CASE(one_body_serves_everybody_until_something_changes),
        CASE(a_show_has_a_body_of_its_own),
        CASE(a_loop_is_sent_away_when_a_body_has_to_be_written),
        CASE(the_etag_is_good_for_a_304_until_something_changes),
        CASE(gzip_is_the_same_body_compressed_and_small_ones_stay_plain),
        CASE(a_large_delta_is_not_written_on_a_loop),
        CASE(a_reader_of_deltas_has_the_whole_map),
        CASE(threads_change_read_load_and_forget_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
