/*
 * One event under comparison, with a Postgres and a Redis of the test's own. Whatever is asked of
 * either is a chance for the world to move on (`meanwhile`), so each race can be held still.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fake_rows.h"
#include "holdfast/log.h"
#include "repair_internal.h"

#define SEATS_MAX   2500
#define MEMBERS_MAX 64
#define TEXT_BYTES  96
#define NOW_US      INT64_C(1770000000000000)

/* --- the world ---------------------------------------------------------------------------- */

struct truth {
    bool held;
    bool over;
    int hold; /* a number that becomes an id */
    int64_t version;
};

struct copy {
    char key[TEXT_BYTES]; /* "": none */
    bool details;         /* member and meta of `hold` */
    int hold;
};

static struct truth truths[SEATS_MAX];
static struct copy copies[SEATS_MAX];
static char strays[MEMBERS_MAX][TEXT_BYTES]; /* members of no seat's present hold */
static int seat_count;

static bool redis_fails, postgres_fails, event_is_there;
static int pages, questions, redis_reads, mends;
static bool trusted, rebuilt, doubted;

enum moment { BEFORE_REDIS, BEFORE_POSTGRES, BEFORE_DROP, BEFORE_MEND, WITHIN_MEND };
static void (*meanwhile)(enum moment moment);

static void
moment_comes(enum moment moment)
{
    if (meanwhile != NULL)
        meanwhile(moment);
}

static void
hold_text(int hold, char text[UUID_TEXT_BYTES])
{
    snprintf(text, UUID_TEXT_BYTES, "00000000-0000-7000-8000-%012d", hold);
}

static int
seat_number(struct slice seat)
{
    return seat.len == 5 && seat.ptr[0] == 'S' ? atoi(seat.ptr + 1) : -1;
}

static void
value_text(int hold, int64_t version, char text[TEXT_BYTES])
{
    snprintf(text, TEXT_BYTES, "hold %d version %lld", hold, (long long)version);
}

/* What the engine does after its commit. */
static void
engine_puts(int seat, int hold, int64_t version)
{
    value_text(hold, version, copies[seat].key);
    copies[seat].details = true;
    copies[seat].hold = hold;
}

static void
engine_removes(int seat, int hold)
{
    char begin[TEXT_BYTES];

    snprintf(begin, sizeof(begin), "hold %d ", hold);
    if (strncmp(copies[seat].key, begin, strlen(begin)) == 0)
        copies[seat].key[0] = '\0';
    if (copies[seat].hold == hold)
        copies[seat].details = false;
}

static void
hold_seat(int seat, int hold)
{
    truths[seat] =
        (struct truth){ .held = true, .hold = hold, .version = truths[seat].version + 1 };
}

static void
free_seat(int seat)
{
    truths[seat] = (struct truth){ .version = truths[seat].version + 1 };
}

static bool
is_equal(int seat)
{
    const struct truth *truth = &truths[seat];
    const struct copy *copy = &copies[seat];
    char text[TEXT_BYTES] = "";

    if (truth->held)
        value_text(truth->hold, truth->version, text);
    bool details = copy->details && copy->hold == truth->hold;
    return strcmp(copy->key, text) == 0 && (truth->held ? details : !copy->details);
}

static void
assert_equal_world(void)
{
    for (int seat = 0; seat < seat_count; seat++) {
        if (!is_equal(seat))
            fail_msg("seat %d: held %d by %d version %lld, Redis has '%s' details %d of %d", seat,
                     truths[seat].held, truths[seat].hold, (long long)truths[seat].version,
                     copies[seat].key, copies[seat].details, copies[seat].hold);
    }
}

/* --- what stands in for cold ------------------------------------------------------------------ */

#define COLUMNS                                                                                    \
    "seat:text status:text hold:uuid usr:text version:int8 until:time now:time cart:text "         \
    "source:text born:time"

static void
add_row(struct pg_result *rows, struct slice seat)
{
    int number = seat_number(seat);
    char id[16], hold[UUID_TEXT_BYTES], version[24], until[24], now[24];

    snprintf(id, sizeof(id), "%.*s", SLICE_ARG(seat));
    snprintf(now, sizeof(now), "%lld", (long long)NOW_US);
    if (number < 0 || number >= seat_count) {
        rows_add(rows, id, NULL, NULL, NULL, NULL, NULL, now, NULL, NULL, NULL);
        return;
    }
    const struct truth *truth = &truths[number];
    bool held = truth->held;
    hold_text(truth->hold, hold);
    snprintf(version, sizeof(version), "%lld", (long long)truth->version);
    snprintf(until, sizeof(until), "%lld", (long long)NOW_US + (truth->over ? -1 : 60000000));
    rows_add(rows, id, held ? "held" : "available", held ? hold : NULL, held ? "anna" : NULL,
             version, held ? until : NULL, now, held ? "cart" : NULL, held ? "web" : NULL,
             held ? now : NULL);
}

static struct pg_result *
page_after(struct slice after)
{
    struct pg_result *rows = rows_new(COLUMNS);
    int first = after.len == 0 ? 0 : seat_number(after) + 1;

    pages++;
    for (int seat = first; seat < seat_count && seat < first + PORTION; seat++) {
        char id[16];
        snprintf(id, sizeof(id), "S%04d", seat);
        add_row(rows, slice_of(id));
    }
    return rows;
}

/* The elements of a text[] in Postgres' format. */
static struct pg_result *
those_of(const char *array)
{
    struct pg_result *rows = rows_new(COLUMNS);
    uint32_t dimensions, count, len;

    questions++;
    memcpy(&dimensions, array, 4);
    memcpy(&count, array + 12, 4);
    const char *at = array + 20;
    for (uint32_t i = 0; dimensions != 0 && i < be32toh(count); i++) {
        memcpy(&len, at, 4);
        add_row(rows, (struct slice){ at + 4, be32toh(len) });
        at += 4 + be32toh(len);
    }
    return rows;
}

enum pg_outcome
pg_run(struct pg *pg, enum pg_statement statement, const struct pg_params *params,
       struct mono_time deadline, struct pg_result **result)
{
    (void)pg;
    (void)deadline;
    moment_comes(BEFORE_POSTGRES);
    if (postgres_fails)
        return PG_UNAVAILABLE;
    if (statement == STATEMENT_WARM_EVENT) {
        *result = rows_new("event_exists:bool");
        rows_add(*result, event_is_there ? "t" : "f");
    } else if (statement == STATEMENT_WARM_SEAT_PAGE) {
        *result = page_after((struct slice){ params->values[2], (size_t)params->lengths[2] });
    } else {
        assert_int_equal(statement, STATEMENT_WARM_SEATS);
        *result = those_of(params->values[2]);
    }
    return PG_DONE;
}

int64_t
engine_outstanding(struct engine *engine)
{
    (void)engine;
    return 0;
}

const char *
pg_last_error(const struct pg *pg)
{
    (void)pg;
    return "away";
}

/* --- what stands in for warm --------------------------------------------------------------------
 */

uint64_t
warm_tier_ticket(struct warm_tier *tier, struct slice org, struct slice event)
{
    (void)tier, (void)org, (void)event;
    return 7;
}

bool
warm_tier_is_rebuilt(struct warm_tier *tier, struct slice org, struct slice event)
{
    (void)tier, (void)org, (void)event;
    return trusted;
}

void
warm_tier_rebuilt(struct warm_tier *tier, struct slice org, struct slice event, uint64_t ticket)
{
    (void)tier, (void)org, (void)event;
    assert_int_equal(ticket, 7);
    rebuilt = true;
}

void
warm_tier_doubt(struct warm_tier *tier, struct slice org, struct slice event)
{
    (void)tier, (void)org, (void)event;
    doubted = true;
}

int64_t
warm_count(struct warm *warm, struct slice org, struct slice event)
{
    (void)warm, (void)org, (void)event;
    return 0;
}

bool
warm_read_seats(struct warm *warm, struct slice org, struct slice event, const struct slice *seats,
                int count, warm_visit *visit, void *context)
{
    (void)warm, (void)org, (void)event;
    redis_reads++;
    moment_comes(BEFORE_REDIS);
    for (int i = 0; !redis_fails && i < count; i++) {
        const char *key = copies[seat_number(seats[i])].key;
        struct warm_found found = { .seat = seats[i], .text = slice_of(key) };
        if (key[0] != '\0' && !visit(context, &found))
            return true;
    }
    return !redis_fails;
}

static int
hold_number(const struct warm_hold *hold)
{
    char text[UUID_TEXT_BYTES];

    uuid_format(&hold->hold_id, text);
    return atoi(text + 24);
}

bool
warm_read_details(struct warm *warm, const struct warm_hold *holds, int count, bool *right)
{
    (void)warm;
    for (int i = 0; i < count; i++) {
        const struct copy *copy = &copies[seat_number(holds[i].seat)];
        right[i] = copy->details && copy->hold == hold_number(&holds[i]);
    }
    return !redis_fails;
}

bool
warm_read_members(struct warm *warm, struct slice org, struct slice event, warm_visit *visit,
                  void *context)
{
    (void)warm, (void)org, (void)event;
    moment_comes(BEFORE_REDIS);
    for (int i = 0; !redis_fails && i < MEMBERS_MAX; i++) {
        struct warm_found found = { .seat = { strays[i], strcspn(strays[i], ":") },
                                    .text = slice_of(strays[i]) };
        if (strays[i][0] != '\0' && !visit(context, &found))
            return true;
    }
    return !redis_fails;
}

bool
warm_scan_seats(struct warm *warm, struct slice org, struct slice event, struct mono_time deadline,
                warm_visit *visit, void *context)
{
    (void)warm, (void)org, (void)event, (void)deadline, (void)visit, (void)context;
    return !redis_fails;
}

bool
warm_value_is(struct slice text, const struct warm_hold *hold)
{
    char value[TEXT_BYTES];

    value_text(hold_number(hold), hold->version, value);
    return slice_is(text, value);
}

int
warm_drop_seats(struct warm *warm, struct slice org, struct slice event,
                const struct warm_found *found, int count)
{
    int went = 0;

    (void)warm, (void)org, (void)event;
    moment_comes(BEFORE_DROP);
    for (int i = 0; i < count; i++) {
        char *key = copies[seat_number(found[i].seat)].key;
        if (!slice_is(found[i].text, key))
            continue;
        key[0] = '\0';
        went++;
    }
    return went;
}

int
warm_drop_members(struct warm *warm, struct slice org, struct slice event,
                  const struct warm_found *found, int count)
{
    int went = 0;

    (void)warm, (void)org, (void)event;
    for (int i = 0; i < count; i++) {
        for (int j = 0; j < MEMBERS_MAX; j++) {
            if (strays[j][0] == '\0' || !slice_is(found[i].text, strays[j]))
                continue;
            strays[j][0] = '\0';
            went++;
        }
    }
    return went;
}

bool
warm_mend(struct warm *warm, const struct warm_hold *holds, int count)
{
    (void)warm;
    mends += count;
    moment_comes(BEFORE_MEND);
    for (int i = 0; i < count; i++) {
        int seat = seat_number(holds[i].seat), old_hold = 0;
        long long old_version = 0;
        bool newer =
            sscanf(copies[seat].key, "hold %d version %lld", &old_hold, &old_version) == 2 &&
            old_hold == hold_number(&holds[i]) && old_version > holds[i].version;
        if (newer)
            continue;
        value_text(hold_number(&holds[i]), holds[i].version, copies[seat].key);
        moment_comes(WITHIN_MEND);
        copies[seat].details = true;
        copies[seat].hold = hold_number(&holds[i]);
    }
    return true;
}

bool
warm_remove(struct warm *warm, const struct warm_hold *holds, int count)
{
    (void)warm;
    for (int i = 0; i < count; i++)
        engine_removes(seat_number(holds[i].seat), hold_number(&holds[i]));
    return true;
}

bool
warm_collect(struct warm *warm)
{
    (void)warm;
    return true;
}

/* --- cases
 * ---------------------------------------------------------------------------------------- */

static struct node node;
static struct repair_report report;
static _Atomic bool stopping;

/* Even seats are held, and Redis knows it. */
static int
make_world(void **state)
{
    (void)state;
    log_init(LOG_ERROR + 1, "test");
    memset(truths, 0, sizeof(truths));
    memset(copies, 0, sizeof(copies));
    memset(strays, 0, sizeof(strays));
    seat_count = 10;
    for (int seat = 0; seat < SEATS_MAX; seat += 2) {
        hold_seat(seat, 1000 + seat);
        engine_puts(seat, 1000 + seat, 1);
    }
    redis_fails = postgres_fails = trusted = rebuilt = doubted = stopping = false;
    event_is_there = true;
    pages = questions = redis_reads = mends = 0;
    meanwhile = NULL;
    return 0;
}

static enum hf_status
compare(enum repair_mode mode)
{
    struct comparison c = { .node = &node,
                            .org = SLICE_LITERAL("acme"),
                            .event = SLICE_LITERAL("show"),
                            .mode = mode,
                            .deadline = { mono_now().us + 10 * TIME_US_PER_S },
                            .stopping = &stopping,
                            .report = &report };

    return compare_event(&c);
}

static void
an_equal_event_is_trusted_after_one_look(void **state)
{
    (void)state;
    assert_int_equal(compare(REPAIR_LOOK), HF_OK);
    assert_true(report.equal && rebuilt && !doubted);
    assert_int_equal(questions, 0);
    assert_int_equal(redis_reads, 1);
}

static void
what_is_lost_is_written_and_what_is_wrong_removed(void **state)
{
    (void)state;
    copies[0].key[0] = '\0';
    copies[2].details = false;
    strcpy(copies[4].key, "hold 7 version 9");
    strcpy(copies[3].key, "hold 8 version 1");
    strcpy(copies[6].key, "hold 1006 version 99"); /* of this hold, and newer than the truth */
    strcpy(strays[0], "S0001:00000000-0000-7000-8000-000000000005:anna");
    strcpy(strays[1], "nonsense");
    assert_int_equal(compare(REPAIR_MEND), HF_OK);
    assert_true(report.equal && rebuilt);
    assert_int_equal(report.restored, 4);
    assert_int_equal(report.removed, 3);
    assert_int_equal(report.differing, 7);
    assert_equal_world();
}

static void
a_look_changes_nothing_and_makes_the_event_doubtful(void **state)
{
    (void)state;
    trusted = true;
    copies[0].key[0] = '\0';
    strcpy(copies[3].key, "hold 8 version 1");
    strcpy(strays[0], "S0001:00000000-0000-7000-8000-000000000005:anna");
    assert_int_equal(compare(REPAIR_LOOK), HF_OK);
    assert_true(!report.equal && !rebuilt && doubted);
    assert_int_equal(report.differing, 3);
    assert_int_equal(report.restored + report.removed + mends, 0);
    assert_string_equal(copies[3].key, "hold 8 version 1");
    assert_string_not_equal(strays[0], "");
}

static void
a_hold_that_is_over_may_be_there_or_not(void **state)
{
    (void)state;
    truths[0].over = truths[2].over = truths[4].over = true;
    copies[0].key[0] = '\0';
    copies[0].details = false;
    strcpy(copies[4].key, "hold 9 version 1");
    assert_int_equal(compare(REPAIR_MEND), HF_OK);
    assert_int_equal(report.restored, 0);
    assert_int_equal(report.removed, 1);
    assert_string_equal(copies[0].key, "");
    assert_string_equal(copies[2].key, "hold 1002 version 1");
    assert_string_equal(copies[4].key, "");
}

/* The engine's own word comes between the first look and the second. */
static void
engine_tells_of_seat_1(enum moment moment)
{
    if (moment == BEFORE_REDIS && redis_reads == 2)
        engine_puts(1, 77, truths[1].version);
}

static void
what_is_on_its_way_is_no_drift(void **state)
{
    (void)state;
    trusted = true;
    hold_seat(1, 77);
    meanwhile = engine_tells_of_seat_1;
    assert_int_equal(compare(REPAIR_MEND), HF_OK);
    assert_true(report.equal);
    assert_int_equal(report.differing + report.restored, 0);
    assert_equal_world();
}

static void
seat_0_ends(enum moment moment)
{
    if (moment != BEFORE_MEND || !truths[0].held)
        return;
    free_seat(0);
    engine_removes(0, 1000);
}

static void
what_ended_while_it_was_mended_is_taken_back(void **state)
{
    (void)state;
    copies[0].key[0] = '\0';
    meanwhile = seat_0_ends;
    assert_int_equal(compare(REPAIR_MEND), HF_OK);
    assert_true(report.equal);
    assert_equal_world();
}

static void
seat_0_ends_between_its_key_and_its_member(enum moment moment)
{
    if (moment != WITHIN_MEND || !truths[0].held)
        return;
    free_seat(0);
    engine_removes(0, 1000);
}

static void
what_ended_while_half_of_it_was_written_is_taken_back(void **state)
{
    (void)state;
    copies[0].key[0] = '\0';
    copies[0].details = false;
    meanwhile = seat_0_ends_between_its_key_and_its_member;
    assert_int_equal(compare(REPAIR_MEND), HF_OK);
    assert_true(report.equal);
    assert_equal_world();
}

static void
seat_0_changes_hands(enum moment moment)
{
    if (moment != BEFORE_MEND || truths[0].hold != 1000)
        return;
    free_seat(0);
    engine_removes(0, 1000);
    hold_seat(0, 55);
    engine_puts(0, 55, truths[0].version);
}

static void
the_next_owner_is_put_back_where_the_last_one_was_written_over_him(void **state)
{
    (void)state;
    copies[0].key[0] = '\0';
    meanwhile = seat_0_changes_hands;
    assert_int_equal(compare(REPAIR_MEND), HF_OK);
    assert_true(report.equal);
    assert_equal_world();
}

static void
seat_3_is_taken(enum moment moment)
{
    if (moment != BEFORE_DROP || truths[3].held)
        return;
    hold_seat(3, 66);
    engine_puts(3, 66, truths[3].version);
}

static void
a_key_that_was_replaced_meanwhile_is_not_dropped(void **state)
{
    (void)state;
    strcpy(copies[3].key, "hold 8 version 1");
    meanwhile = seat_3_is_taken;
    assert_int_equal(compare(REPAIR_MEND), HF_OK);
    assert_int_equal(report.removed, 0);
    assert_equal_world();
}

static void
seat_3_is_taken_before_the_second_look(enum moment moment)
{
    if (moment != BEFORE_REDIS || redis_reads != 2)
        return;
    hold_seat(3, 66);
    engine_puts(3, 66, truths[3].version);
}

/* Redis is read first: what it has by a later commit, Postgres knows by then. */
static void
a_key_that_is_newer_than_the_first_look_is_not_dropped(void **state)
{
    (void)state;
    strcpy(copies[3].key, "hold 8 version 1");
    meanwhile = seat_3_is_taken_before_the_second_look;
    assert_int_equal(compare(REPAIR_MEND), HF_OK);
    assert_int_equal(report.removed + report.restored, 0);
    assert_equal_world();
}

static void
seat_0_moves_on(enum moment moment)
{
    if (moment == BEFORE_POSTGRES)
        truths[0].version++;
}

static void
a_seat_that_moves_with_each_look_is_no_drift(void **state)
{
    (void)state;
    trusted = true;
    meanwhile = seat_0_moves_on;
    assert_int_equal(compare(REPAIR_LOOK), HF_OK);
    assert_true(report.equal && !doubted);
    assert_int_equal(report.differing, 0);
}

static void
what_we_wrote_and_could_not_look_at_leaves_the_event_doubtful(void **state)
{
    (void)state;
    trusted = true;
    meanwhile = seat_0_moves_on;
    assert_int_equal(compare(REPAIR_MEND), HF_OK);
    assert_true(!report.equal && !rebuilt && doubted);
}

static void
an_event_of_many_seats_is_read_in_portions(void **state)
{
    (void)state;
    seat_count = SEATS_MAX;
    for (int seat = 0; seat < SEATS_MAX; seat += 4)
        copies[seat].key[0] = '\0';
    assert_int_equal(compare(REPAIR_MEND), HF_OK);
    assert_int_equal(pages, 3);
    assert_int_equal(report.db_count, SEATS_MAX / 2);
    assert_int_equal(report.restored, SEATS_MAX / 4);
    assert_equal_world();
}

static void
stores_that_fail_are_told_and_nothing_is_trusted(void **state)
{
    (void)state;
    redis_fails = true;
    assert_int_equal(compare(REPAIR_MEND), HF_OVERLOADED);
    redis_fails = false;
    postgres_fails = true;
    assert_int_equal(compare(REPAIR_MEND), HF_STORE_UNAVAILABLE);
    postgres_fails = false;
    event_is_there = false;
    assert_int_equal(compare(REPAIR_MEND), HF_EVENT_NOT_FOUND);
    assert_false(rebuilt || report.equal);
}

static void
who_is_told_to_stop_stops_before_the_next_portion(void **state)
{
    (void)state;
    seat_count = SEATS_MAX;
    stopping = true;
    assert_int_equal(compare(REPAIR_MEND), HF_OVERLOADED);
    assert_int_equal(pages, 1);
    assert_false(rebuilt);
}

/* --- a busy engine ------------------------------------------------------------------------------
 */

#define BUSY_SEATS 4
#define QUEUE_MAX  4096

/* What the engine has committed and not told Redis yet, in order. */
static struct {
    bool put;
    int seat, hold;
    int64_t version;
} queue[QUEUE_MAX];
static int queue_first, queue_end, next_hold;
static unsigned dice;

static unsigned
roll(unsigned sides)
{
    dice = dice * 1664525u + 1013904223u;
    return (dice >> 16) % sides;
}

static void
engine_tells_next(void)
{
    int i = queue_first++;
    if (queue[i].put)
        engine_puts(queue[i].seat, queue[i].hold, queue[i].version);
    else
        engine_removes(queue[i].seat, queue[i].hold);
}

static void
engine_commits(void)
{
    int seat = (int)roll(BUSY_SEATS), hold = truths[seat].hold;
    bool release = truths[seat].held && roll(2) == 0;

    if (queue_end == QUEUE_MAX)
        return;
    if (release)
        free_seat(seat);
    else
        hold_seat(seat, truths[seat].held ? hold : ++next_hold);
    queue[queue_end].put = !release;
    queue[queue_end].seat = seat;
    queue[queue_end].hold = release ? hold : truths[seat].hold;
    queue[queue_end++].version = truths[seat].version;
}

static void
engine_is_busy(enum moment moment)
{
    (void)moment;
    for (unsigned i = roll(4); i > 0; i--) {
        if (roll(2) == 0)
            engine_commits();
        else if (queue_first < queue_end)
            engine_tells_next();
    }
}

static void
damage(void)
{
    struct copy *copy = &copies[roll(BUSY_SEATS)];

    switch (roll(4)) {
    case 0:
        copy->key[0] = '\0';
        break;
    case 1:
        copy->details = false;
        break;
    case 2:
        snprintf(copy->key, sizeof(copy->key), "hold %d version %u", (int)roll(20), roll(99));
        break;
    default:
        break;
    }
}

static void
whatever_the_engine_does_meanwhile_a_repair_leaves_no_trace(void **state)
{
    for (unsigned seed = 1; seed <= 1000; seed++) {
        make_world(state);
        seat_count = BUSY_SEATS;
        dice = seed;
        queue_first = queue_end = 0;
        next_hold = 5000;
        for (int i = 0; i < 3; i++)
            damage();
        meanwhile = engine_is_busy;
        assert_int_equal(compare(REPAIR_MEND), HF_OK);
        meanwhile = NULL;
        while (queue_first < queue_end)
            engine_tells_next();
        if (!report.equal)
            assert_int_equal(compare(REPAIR_MEND), HF_OK);
        for (int seat = 0; seat < seat_count; seat++) {
            if (!is_equal(seat))
                fail_msg(
                    "seed %u, seat %d: held %d by %d version %lld, Redis has '%s' details %d of %d",
                    seed, seat, truths[seat].held, truths[seat].hold,
                    (long long)truths[seat].version, copies[seat].key, copies[seat].details,
                    copies[seat].hold);
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(an_equal_event_is_trusted_after_one_look, make_world),
        cmocka_unit_test_setup(what_is_lost_is_written_and_what_is_wrong_removed, make_world),
        cmocka_unit_test_setup(a_look_changes_nothing_and_makes_the_event_doubtful, make_world),
        cmocka_unit_test_setup(a_hold_that_is_over_may_be_there_or_not, make_world),
        cmocka_unit_test_setup(what_is_on_its_way_is_no_drift, make_world),
        cmocka_unit_test_setup(what_ended_while_it_was_mended_is_taken_back, make_world),
        cmocka_unit_test_setup(what_ended_while_half_of_it_was_written_is_taken_back, make_world),
        cmocka_unit_test_setup(the_next_owner_is_put_back_where_the_last_one_was_written_over_him,
                               make_world),
        cmocka_unit_test_setup(a_key_that_was_replaced_meanwhile_is_not_dropped, make_world),
        cmocka_unit_test_setup(a_key_that_is_newer_than_the_first_look_is_not_dropped, make_world),
        cmocka_unit_test_setup(a_seat_that_moves_with_each_look_is_no_drift, make_world),
        cmocka_unit_test_setup(what_we_wrote_and_could_not_look_at_leaves_the_event_doubtful,
                               make_world),
        cmocka_unit_test_setup(an_event_of_many_seats_is_read_in_portions, make_world),
        cmocka_unit_test_setup(stores_that_fail_are_told_and_nothing_is_trusted, make_world),
        cmocka_unit_test_setup(who_is_told_to_stop_stops_before_the_next_portion, make_world),
        cmocka_unit_test_setup(whatever_the_engine_does_meanwhile_a_repair_leaves_no_trace,
                               make_world),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
