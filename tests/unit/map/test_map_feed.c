/* Maps moved by the feed: what another node's reader lacks, and who watches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "fake_rows.h"
#include "holdfast/http.h"
#include "map_internal.h"
#include "map_rows.h"

#define NOW   1000000000000LL
#define LATER (NOW + 60 * TIME_US_PER_S) /* well after what was read at NOW */
#define ME    10                         /* incarnations */
#define PEER  20
#define SEATS 6
static const struct slice org = { "acme", 4 };
static const struct slice event = { "E1", 2 };

/* One node: its maps, its feed's position, and what its watcher was told. */
struct site {
    struct seat_maps *maps;
    struct feed_position feed;
    struct seat_map_watcher watcher;
    char told[2000];
    int counted, forgotten;
};
struct house {
    struct site here, there;
    int64_t versions[SEATS]; /* as Postgres has them */
    const char *status[SEATS];
};

static struct feed_position
position(uint64_t me, uint64_t peer)
{
    return (struct feed_position){ .count = 2, .marks = { { ME, me }, { PEER, peer } } };
}

static void
site_init(struct site *site)
{
    site->maps = seat_maps_new(4);
    seat_maps_set_trusted(site->maps, true);
    site->feed = position(0, 0);
}

static int
set_up(void **state)
{
    struct house *house = calloc(1, sizeof(*house));
    site_init(&house->here);
    site_init(&house->there);
    for (int i = 0; i < SEATS; i++)
        house->status[i] = "available";
    *state = house;
    return 0;
}

static int
tear_down(void **state)
{
    struct house *house = *state;
    seat_maps_free(&house->here.maps);
    seat_maps_free(&house->there.maps);
    free(house);
    return 0;
}

/* A time after everything that was done so far: one microsecond is too short to tell. */
static struct mono_time
tick(void)
{
    struct mono_time now = mono_now();
    struct mono_time next;
    do {
        next = mono_now();
    } while (next.us == now.us);
    return next;
}

static struct pg_result *
rows_of(const struct house *house)
{
    struct pg_result *rows = rows_new(SEAT_COLUMNS);
    for (int i = 0; i < SEATS; i++) {
        char id[8], version[24];
        if (house->status[i] == NULL)
            continue; /* it isn't there yet */
        snprintf(id, sizeof(id), "S%d", i);
        snprintf(version, sizeof(version), "%lld", (long long)house->versions[i]);
        rows_add(rows, id, "main", "1", id, NULL, "1000", NULL, NULL, house->status[i], "f",
                 version, NULL, "f", "f", NULL, NULL, NULL);
    }
    return rows;
}

static void
load_at(struct house *house, struct site *site, int64_t now)
{
    struct feed_position before = site->feed;
    struct seat_map_reading reading = { .began = tick(), .now = { now }, .feed = &before };
    struct seat_map_request wish = { .org = org, .event = event, .may_render = true };
    struct seat_map_reply reply;
    if (seat_maps_get(site->maps, &wish, &reply) == SEAT_MAP_BODY)
        http_body_put(reply.body);
    struct pg_result *seats = rows_of(house);
    struct pg_result *areas = rows_new(AREA_COLUMNS);
    rows_add(areas, "floor", "floor", "10", "2", "3", NULL, "5");
    reading.began = tick();
    assert_true(seat_maps_load(site->maps, org, event, seats, areas, &reading));
    pg_result_free(&areas);
    pg_result_free(&seats);
}

static void
load(struct house *house, struct site *site)
{
    load_at(house, site, NOW);
}

/* A committed change: Postgres has it. */
static int64_t
commit(struct house *house, int seat, const char *status)
{
    house->status[seat] = status;
    return ++house->versions[seat];
}

/* Record `from` of a change of `seat` comes to a site. */
static void
hear(struct site *site, int seat, int64_t version, const char *status, struct feed_mark from)
{
    char id[8];
    enum seat_status word;
    snprintf(id, sizeof(id), "S%d", seat);
    assert_true(seat_status_parse(slice_of(status), &word));
    struct feed_change change = { .kind = FEED_SEAT,
                                  .status = word,
                                  .org = org,
                                  .event = event,
                                  .item = slice_of(id),
                                  .version = version,
                                  .held_until = { INT64_MAX / 2 },
                                  .at = { NOW } };
    assert_true(feed_position_add(&site->feed, from) >= 0);
    struct feed_position after = site->feed;
    seat_maps_take(site->maps, &change, from, &after);
}

/* Seats were added or changed: no record says which. */
static void
seats_come(struct site *site)
{
    struct feed_change change = { .kind = FEED_SEATS, .org = org, .event = event };
    seat_maps_take(site->maps, &change, (struct feed_mark){ 0 }, NULL);
}

/* What a reader is answered: the seats as "S1=held@3 ...", "full " before a whole map. */
struct answer {
    char text[1000];
    char version[SEAT_MAP_ETAG_BYTES];
};

static void
describe(const struct http_body *body, struct answer *answer)
{
    char *json = strndup(body->bytes, body->len);
    answer->text[0] = '\0';
    if (strstr(json, "\"full\":true") != NULL)
        strcat(answer->text, "full ");
    for (char *at = strstr(json, "{\"seat_id\":\""); at != NULL;
         at = strstr(at + 1, "{\"seat_id\":\"")) {
        char status[16];
        int seat, version;
        assert_int_equal(sscanf(at, "{\"seat_id\":\"S%d\"", &seat), 1);
        assert_int_equal(sscanf(strstr(at, "\"status\":\""),
                                "\"status\":\"%15[a-z]\",\"version\":%d", status, &version),
                         2);
        sprintf(answer->text + strlen(answer->text), "S%d=%s@%d ", seat, status, version);
    }
    free(json);
}

static struct answer
ask_at(struct site *site, const struct answer *since, int64_t now)
{
    struct answer answer;
    struct seat_map_reply reply;
    struct feed_position feed = site->feed;
    struct seat_map_request wish = { .org = org,
                                     .event = event,
                                     .since =
                                         since == NULL ? SLICE_EMPTY : slice_of(since->version),
                                     .now = { now },
                                     .feed = &feed,
                                     .may_render = true };
    assert_int_equal(seat_maps_get(site->maps, &wish, &reply), SEAT_MAP_BODY);
    describe(reply.body, &answer);
    http_body_put(reply.body);
    /* W/"E1-<version>" */
    snprintf(answer.version, sizeof(answer.version), "%.*s", (int)strlen(reply.etag) - 7,
             reply.etag + 6);
    return answer;
}

static struct answer
ask(struct site *site, const struct answer *since)
{
    return ask_at(site, since, LATER);
}

#define FULL "full "

/* --- another node's reader --------------------------------------------------------------- */

static void
another_nodes_reader_gets_exactly_what_they_lack(void **state)
{
    struct house *house = *state;
    load(house, &house->here);
    load(house, &house->there);
    struct answer theirs = ask(&house->there, NULL);
    assert_memory_equal(theirs.text, FULL, 5);
    int64_t version = commit(house, 1, "held");
    hear(&house->there, 1, version, "held", (struct feed_mark){ ME, 1 });
    theirs = ask(&house->there, &theirs);
    assert_string_equal(theirs.text, "S1=held@1 ");
    hear(&house->here, 1, version, "held", (struct feed_mark){ ME, 1 });
    hear(&house->here, 2, commit(house, 2, "sold"), "sold", (struct feed_mark){ ME, 2 });
    struct answer ours = ask(&house->here, &theirs);
    assert_string_equal(ours.text, "S2=sold@1 ");
    assert_string_equal(ask(&house->here, &ours).text, "");
    /* Back there, where record 2 has not come yet: nothing is lost, and nothing taken back. */
    assert_string_equal(ask(&house->there, &ours).text, "");
}

static void
who_lacks_some_of_the_base_gets_the_whole(void **state)
{
    struct house *house = *state;
    load(house, &house->there);
    struct answer theirs = ask(&house->there, NULL);
    int64_t version = commit(house, 1, "sold");
    house->here.feed = position(1, 0); /* heard before the map here was read */
    load(house, &house->here);
    assert_memory_equal(ask(&house->here, &theirs).text, FULL, 5);
    hear(&house->there, 1, version, "sold", (struct feed_mark){ ME, 1 });
    theirs = ask(&house->there, &theirs);
    assert_string_equal(ask(&house->here, &theirs).text, "");
}

static void
a_version_from_soon_after_the_base_is_not_told_from(void **state)
{
    struct house *house = *state;
    load(house, &house->there);
    load(house, &house->here);
    struct answer theirs = ask_at(&house->there, NULL, NOW + TIME_US_PER_S);
    assert_memory_equal(ask(&house->here, &theirs).text, FULL, 5);
    /* The body there has been written too soon; it is written once more when it can be told
     * from. */
    theirs = ask(&house->there, NULL);
    assert_string_equal(ask(&house->here, &theirs).text, "");
    struct answer again = ask_at(&house->there, NULL, LATER + TIME_US_PER_S);
    assert_string_equal(again.version, theirs.version);
}

static void
a_reader_from_a_lost_node_gets_the_whole(void **state)
{
    struct house *house = *state;
    load(house, &house->here);
    load(house, &house->there);
    struct answer theirs = ask(&house->there, NULL);
    house->here.feed = (struct feed_position){ .count = 1, .marks = { { ME, 0 } } };
    assert_memory_equal(ask(&house->here, &theirs).text, FULL, 5);
}

/* It never knew of the one that had left: what that one did it has read. */
static void
a_reader_from_a_newcomer_lacks_nothing_of_who_left_before(void **state)
{
    struct house *house = *state;
    load(house, &house->here);
    hear(&house->here, 1, commit(house, 1, "sold"), "sold", (struct feed_mark){ ME, 1 });
    load(house, &house->here);
    house->there.feed = (struct feed_position){ .count = 1, .marks = { { PEER, 0 } } };
    load(house, &house->there);
    struct answer theirs = ask(&house->there, NULL);
    assert_string_equal(ask(&house->here, &theirs).text, "");
    /* One from before it came names nobody later. */
    house->there.feed = (struct feed_position){ .count = 1, .marks = { { ME - 1, 0 } } };
    seats_come(&house->there);
    load(house, &house->there);
    theirs = ask(&house->there, NULL);
    assert_int_equal(feed_position_add(&house->here.feed, (struct feed_mark){ ME - 1, 0 }), 0);
    assert_memory_equal(ask(&house->here, &theirs).text, FULL, 5);
}

static void
a_map_that_is_not_whole_tells_no_other_node(void **state)
{
    struct house *house = *state;
    load(house, &house->here);
    load(house, &house->there);
    seat_maps_set_trusted(house->there.maps, false);
    struct answer theirs = ask(&house->there, NULL);
    assert_null(strchr(strchr(theirs.version, '-') + 1, '-')); /* boot and position, no more */
    assert_memory_equal(ask(&house->here, &theirs).text, FULL, 5);
    seat_maps_set_trusted(house->there.maps, true);
    theirs = ask(&house->there, NULL);
    assert_string_equal(ask(&house->here, &theirs).text, "");
    seat_maps_set_trusted(house->here.maps, false);
    assert_memory_equal(ask(&house->here, &theirs).text, FULL, 5);
}

/* Read from Postgres before its record came: only then it can be said who lacks it. */
static void
a_change_that_was_read_is_marked_when_its_record_comes(void **state)
{
    struct house *house = *state;
    load(house, &house->there);
    int64_t version = commit(house, 3, "held");
    load(house, &house->here);
    struct answer theirs = ask(&house->there, NULL);
    struct answer ours = ask(&house->here, &theirs);
    hear(&house->here, 3, version, "held", (struct feed_mark){ PEER, 1 });
    assert_string_equal(ask(&house->here, &theirs).text, "S3=held@1 ");
    assert_string_equal(ask(&house->here, &ours).text, "S3=held@1 ");
    hear(&house->there, 3, version, "held", (struct feed_mark){ PEER, 1 });
    theirs = ask(&house->there, &theirs);
    assert_string_equal(ask(&house->here, &theirs).text, "");
}

/* An older record comes, whose newer change was read: who lacks the older is owed the seat. */
static void
an_older_record_of_a_seat_that_was_read_is_owed_too(void **state)
{
    struct house *house = *state;
    load(house, &house->there);
    int64_t first = commit(house, 3, "held");
    int64_t second = commit(house, 3, "sold");
    load(house, &house->here);
    struct answer theirs = ask(&house->there, NULL);
    hear(&house->here, 3, first, "held", (struct feed_mark){ PEER, 1 });
    assert_string_equal(ask(&house->here, &theirs).text, "S3=sold@2 ");
    hear(&house->here, 3, second, "sold", (struct feed_mark){ ME, 1 });
    assert_string_equal(ask(&house->here, &theirs).text, "S3=sold@2 ");
    hear(&house->there, 3, first, "held", (struct feed_mark){ PEER, 1 });
    hear(&house->there, 3, second, "sold", (struct feed_mark){ ME, 1 });
    theirs = ask(&house->there, &theirs);
    assert_string_equal(ask(&house->here, &theirs).text, "");
}

static void
an_end_that_passed_is_told_to_everybody(void **state)
{
    struct house *house = *state;
    load(house, &house->here);
    load(house, &house->there);
    struct feed_change change = { .kind = FEED_SEAT,
                                  .status = SEAT_HELD,
                                  .org = org,
                                  .event = event,
                                  .item = SLICE_LITERAL("S0"),
                                  .version = 1,
                                  .held_until = { LATER + TIME_US_PER_S } };
    struct feed_mark from = { ME, 1 };
    house->here.feed = house->there.feed = position(1, 0);
    seat_maps_take(house->here.maps, &change, from, &house->here.feed);
    seat_maps_take(house->there.maps, &change, from, &house->there.feed);
    struct answer theirs = ask(&house->there, NULL);
    assert_non_null(strstr(theirs.text, "S0=held@1"));
    assert_string_equal(ask_at(&house->here, &theirs, LATER + 2 * TIME_US_PER_S).text,
                        "S0=available@1 ");
}

static void
a_new_base_is_measured_anew(void **state)
{
    struct house *house = *state;
    load(house, &house->here);
    load(house, &house->there);
    struct answer theirs = ask(&house->there, NULL);
    /* Something was missed here: what a killed node did is found by reading. */
    commit(house, 4, "sold");
    seat_maps_distrust(house->here.maps);
    load_at(house, &house->here, LATER);
    assert_memory_equal(ask_at(&house->here, &theirs, LATER + TIME_US_PER_S).text, FULL, 5);
}

static void
what_is_no_version_gets_the_whole(void **state)
{
    struct house *house = *state;
    load(house, &house->here);
    struct answer good = ask(&house->here, NULL);
    struct answer bad;
    assert_string_equal(ask(&house->here, &good).text, "");
    for (size_t len = BOOT_TEXT_BYTES - 1; len < strlen(good.version); len++) {
        bad = good;
        bad.version[len] = '\0';
        (void)ask(&house->here, &bad); /* no harm, whatever it is */
        bad = good;
        bad.version[len] = '!';
        assert_memory_equal(ask(&house->here, &bad).text, FULL, 5);
    }
    strcat(bad.version, "-1-2-3-4");
    assert_memory_equal(ask(&house->here, &bad).text, FULL, 5);
}

/*
 * Three nodes change seats; records come late and in any order between nodes; readers ask any node
 * with what they were told by another, and must end with what Postgres has.
 */
static void
readers_that_wander_between_nodes_lose_nothing(void **state)
{
    struct house *house = *state;
    struct site *sites[2] = { &house->here, &house->there };
    struct {
        int seat;
        int64_t version;
        const char *status;
        struct feed_mark from;
    } sent[2][2000];
    int count[2] = { 0 }, taken[2][2] = { { 0 } };
    unsigned seed = (unsigned)mono_now().us;
    struct answer reader = { .version = "" };
    int64_t versions[SEATS] = { 0 };
    bool was_told = false;
    print_message("seed %u\n", seed);
    srand(seed);
    load(house, sites[0]);
    load(house, sites[1]);
    for (int round = 0; round < 4000; round++) {
        int who = rand() % 2, seat = rand() % SEATS, at = rand() % 2;
        if (rand() % 2 == 0 && count[who] < 2000) {
            const char *status = rand() % 2 ? "held" : "sold";
            sent[who][count[who]].seat = seat;
            sent[who][count[who]].status = status;
            sent[who][count[who]].version = commit(house, seat, status);
            sent[who][count[who]].from =
                (struct feed_mark){ who == 0 ? ME : PEER, (uint64_t)count[who] + 1 };
            count[who]++;
        }
        /* Some of what `who` sent comes to `at`. */
        for (int n = rand() % 3; n > 0 && taken[at][who] < count[who]; n--) {
            int i = taken[at][who]++;
            hear(sites[at], sent[who][i].seat, sent[who][i].version, sent[who][i].status,
                 sent[who][i].from);
        }
        if (rand() % 50 == 0)
            load(house, sites[at]);
        if (rand() % 5 != 0)
            continue;
        struct answer answer = ask(sites[at], was_told ? &reader : NULL);
        was_told = true;
        char *rest = answer.text;
        if (strncmp(rest, FULL, 5) == 0)
            rest += 5;
        for (char *word = strtok(rest, " "); word != NULL; word = strtok(NULL, " ")) {
            int which, version;
            assert_int_equal(sscanf(word, "S%d=%*[a-z]@%d", &which, &version), 2);
            if (version > versions[which])
                versions[which] = version;
        }
        reader = answer;
    }
    for (int at = 0; at < 2; at++) {
        for (int who = 0; who < 2; who++) {
            for (; taken[at][who] < count[who]; taken[at][who]++) {
                int i = taken[at][who];
                hear(sites[at], sent[who][i].seat, sent[who][i].version, sent[who][i].status,
                     sent[who][i].from);
            }
        }
    }
    struct answer last = ask(sites[rand() % 2], &reader);
    char *rest = strncmp(last.text, FULL, 5) == 0 ? last.text + 5 : last.text;
    for (char *word = strtok(rest, " "); word != NULL; word = strtok(NULL, " ")) {
        int which, version;
        assert_int_equal(sscanf(word, "S%d=%*[a-z]@%d", &which, &version), 2);
        versions[which] = version;
    }
    for (int i = 0; i < SEATS; i++)
        assert_int_equal(versions[i], house->versions[i]);
}

/* --- who watches ---------------------------------------------------------------------------- */

static struct site *
site_of(struct seat_map_watcher *watcher)
{
    return (struct site *)((char *)watcher - offsetof(struct site, watcher));
}

static void
moved(struct seat_map_watcher *watcher, const struct seat_map_news *news)
{
    struct site *site = site_of(watcher);
    sprintf(site->told + strlen(site->told), "%s%.*s=%s@%lld%s ",
            news->added ? "+" : (news->freed ? "!" : ""), SLICE_ARG(news->seat),
            seat_status_word(news->status), (long long)news->version,
            news->after == NULL ? "?" : "");
}

static void
counted(struct seat_map_watcher *watcher)
{
    site_of(watcher)->counted++;
}

static void
forgotten(struct seat_map_watcher *watcher)
{
    site_of(watcher)->forgotten++;
}

static void
watch(struct site *site)
{
    site->watcher = (struct seat_map_watcher){ moved, counted, forgotten };
    assert_true(seat_maps_watch(site->maps, org, event, &site->watcher));
}

static void
expect_told(struct site *site, const char *text)
{
    assert_string_equal(site->told, text);
    site->told[0] = '\0';
}

static void
a_watcher_is_told_each_change_once_and_in_order(void **state)
{
    struct house *house = *state;
    struct site *here = &house->here;
    watch(here);
    assert_false(seat_maps_is_whole(here->maps, org, event));
    load(house, here);
    expect_told(here, "");
    assert_true(seat_maps_is_whole(here->maps, org, event));
    hear(here, 1, 1, "held", (struct feed_mark){ ME, 1 });
    hear(here, 1, 3, "held", (struct feed_mark){ PEER, 1 });
    hear(here, 1, 2, "available", (struct feed_mark){ ME, 2 }); /* overtaken */
    hear(here, 1, 3, "held", (struct feed_mark){ PEER, 1 });
    expect_told(here, "S1=held@1 S1=held@3 ");
    seat_maps_unwatch(here->maps, org, event);
    hear(here, 1, 4, "sold", (struct feed_mark){ ME, 3 });
    expect_told(here, "");
}

static void
what_is_found_by_reading_is_told_without_a_position(void **state)
{
    struct house *house = *state;
    struct site *here = &house->here;
    house->status[5] = NULL;
    watch(here);
    load(house, here);
    commit(house, 2, "sold");
    house->status[5] = "available";
    seats_come(here);
    assert_false(seat_maps_is_whole(here->maps, org, event));
    hear(here, 0, 1, "held", (struct feed_mark){ ME, 1 });
    expect_told(here, "S0=held@1? "); /* the map may lack something */
    load(house, here);
    expect_told(here, "S2=sold@1? +S5=available@0? ");
    hear(here, 0, 2, "sold", (struct feed_mark){ ME, 2 });
    expect_told(here, "S0=sold@2 ");
    /* The record of what was read comes late: now it has a position. */
    hear(here, 2, 1, "sold", (struct feed_mark){ PEER, 1 });
    expect_told(here, "S2=sold@1 ");
    hear(here, 2, 1, "sold", (struct feed_mark){ PEER, 1 });
    expect_told(here, "");
    seat_maps_unwatch(here->maps, org, event);
}

static void
a_removed_seat_that_comes_back_is_added(void **state)
{
    struct house *house = *state;
    struct site *here = &house->here;
    watch(here);
    load(house, here);
    hear(here, 1, 1, "removed", (struct feed_mark){ ME, 1 });
    hear(here, 1, 2, "available", (struct feed_mark){ ME, 2 });
    expect_told(here, "S1=removed@1 +S1=available@2 ");
    seat_maps_unwatch(here->maps, org, event);
}

static void
counts_of_areas_and_seats_are_told_and_counted(void **state)
{
    struct house *house = *state;
    struct site *here = &house->here;
    struct seat_map_counts counts;
    assert_false(seat_maps_count(here->maps, org, event, (struct db_time){ NOW }, &counts));
    house->status[0] = "sold";
    house->status[1] = "blocked";
    house->status[2] = "removed";
    house->status[3] = "held"; /* its end is long past */
    watch(here);
    load(house, here);
    int before = here->counted;
    struct feed_change change = { .kind = FEED_AREA,
                                  .org = org,
                                  .event = event,
                                  .item = SLICE_LITERAL("floor"),
                                  .version = 6,
                                  .held = 4,
                                  .sold = 3 };
    seat_maps_take(here->maps, &change, (struct feed_mark){ ME, 1 }, NULL);
    seat_maps_take(here->maps, &change, (struct feed_mark){ ME, 1 }, NULL);
    assert_int_equal(here->counted, before + 1);
    assert_true(seat_maps_count(here->maps, org, event, (struct db_time){ NOW }, &counts));
    assert_int_equal(counts.total, 5 + 10);
    assert_int_equal(counts.sold, 1 + 3);
    assert_int_equal(counts.held, 4);
    assert_int_equal(counts.blocked, 1);
    assert_int_equal(counts.available, 15 - 4 - 4 - 1);
    seat_maps_unwatch(here->maps, org, event);
}

static void
a_watched_map_stays_and_is_emptied_when_all_is_void(void **state)
{
    struct house *house = *state;
    struct site *here = &house->here;
    struct seat_map_request wish = { .org = org, .event = event, .now = { NOW } };
    struct seat_map_reply reply;
    watch(here);
    load(house, here);
    for (int i = 0; i < 5; i++) {
        char id[8];
        snprintf(id, sizeof(id), "F%d", i);
        wish.event = slice_of(id);
        wish.may_render = true;
        assert_int_equal(seat_maps_get(here->maps, &wish, &reply), SEAT_MAP_LOAD);
    }
    assert_true(seat_maps_is_whole(here->maps, org, event));
    seat_maps_forget(here->maps);
    assert_int_equal(here->forgotten, 1);
    assert_false(seat_maps_is_whole(here->maps, org, event));
    commit(house, 1, "sold");
    load(house, here);
    expect_told(here, ""); /* they have to read it anew */
    assert_true(seat_maps_is_whole(here->maps, org, event));
    seat_maps_unwatch(here->maps, org, event);
}

/* A full table of maps that are all watched would keep every other event from being read. */
static void
a_quarter_of_the_maps_is_left_to_those_that_nobody_watches(void **state)
{
    struct house *house = *state;
    struct seat_map_watcher watchers[5] = { { moved, counted, forgotten } };
    struct seat_map_request wish = { .org = org, .event = event, .may_render = true };
    struct seat_map_reply reply;
    static const char *const names[] = { "A", "B", "C", "D", "E" };
    for (int i = 0; i < 3; i++)
        assert_true(seat_maps_watch(house->here.maps, org, slice_of(names[i]), &watchers[i]));
    assert_int_equal(seat_maps_get(house->here.maps, &wish, &reply), SEAT_MAP_LOAD);
    assert_false(seat_maps_watch(house->here.maps, org, slice_of("D"), &watchers[3]));
    assert_false(seat_maps_watch(house->here.maps, org, event, &watchers[3])); /* it is there */
    load(house, &house->here);
    (void)ask(&house->here, NULL);
    seat_maps_unwatch(house->here.maps, org, slice_of("A"));
    assert_true(seat_maps_watch(house->here.maps, org, slice_of("D"), &watchers[3]));
    assert_false(seat_maps_watch(house->here.maps, org, slice_of("E"), &watchers[4]));
    for (int i = 1; i < 4; i++)
        seat_maps_unwatch(house->here.maps, org, slice_of(names[i]));
}

/* Nobody may rest on it after the node stood still, before it was looked at. */
static void
trust_lapses_by_itself(void **state)
{
    struct house *house = *state;
    struct site *here = &house->here;
    load(house, here);
    load(house, &house->there);
    seat_maps_trust_until(here->maps, (struct mono_time){ mono_now().us + TIME_US_PER_S * 1000 });
    assert_true(seat_maps_trusted(here->maps));
    assert_true(seat_maps_is_whole(here->maps, org, event));
    seat_maps_trust_until(here->maps, mono_now());
    assert_false(seat_maps_trusted(here->maps));
    assert_false(seat_maps_is_whole(here->maps, org, event));
    struct answer theirs = ask(&house->there, NULL);
    assert_memory_equal(ask(here, &theirs).text, FULL, 5); /* no difference can be told */
    seat_maps_trust_until(here->maps, (struct mono_time){ INT64_MAX });
    assert_true(seat_maps_is_whole(here->maps, org, event));
    assert_string_equal(ask(here, &theirs).text, "");
}

static void
a_seat_is_freed_that_was_not_free(void **state)
{
    struct house *house = *state;
    struct site *here = &house->here;
    watch(here);
    load(house, here);
    hear(here, 1, 1, "available", (struct feed_mark){ ME, 1 }); /* another price */
    hear(here, 1, 2, "held", (struct feed_mark){ ME, 2 });
    hear(here, 1, 3, "available", (struct feed_mark){ ME, 3 });
    expect_told(here, "S1=available@1 S1=held@2 !S1=available@3 ");
    house->status[2] = "held";
    house->versions[2] = 1;
    load(house, here);
    commit(house, 2, "available");
    commit(house, 3, "available");
    load(house, here);
    expect_told(here, "S2=held@1? !S2=available@2? S3=available@1? ");
    seat_maps_unwatch(here->maps, org, event);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(another_nodes_reader_gets_exactly_what_they_lack),
        CASE(who_lacks_some_of_the_base_gets_the_whole),
        CASE(a_version_from_soon_after_the_base_is_not_told_from),
        CASE(a_reader_from_a_lost_node_gets_the_whole),
        CASE(a_reader_from_a_newcomer_lacks_nothing_of_who_left_before),
        CASE(a_map_that_is_not_whole_tells_no_other_node),
        CASE(a_change_that_was_read_is_marked_when_its_record_comes),
        CASE(an_older_record_of_a_seat_that_was_read_is_owed_too),
        CASE(an_end_that_passed_is_told_to_everybody),
        CASE(a_new_base_is_measured_anew),
        CASE(what_is_no_version_gets_the_whole),
        CASE(readers_that_wander_between_nodes_lose_nothing),
        CASE(a_watcher_is_told_each_change_once_and_in_order),
        CASE(what_is_found_by_reading_is_told_without_a_position),
        CASE(a_removed_seat_that_comes_back_is_added),
        CASE(counts_of_areas_and_seats_are_told_and_counted),
        CASE(a_watched_map_stays_and_is_emptied_when_all_is_void),
        CASE(a_quarter_of_the_maps_is_left_to_those_that_nobody_watches),
        CASE(trust_lapses_by_itself),
        CASE(a_seat_is_freed_that_was_not_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
