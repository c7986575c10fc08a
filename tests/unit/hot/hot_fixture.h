/*
 * hot_fixture.h - short words for the tests of the hot table: a table, seats, views, moved clocks.
 *
 * Time on the database's clock is moved by hand. mono_time is, too, but lies an hour ahead of
 * the real one, because a distrust takes the real time as its own.
 */
#ifndef HOLDFAST_TESTS_HOT_FIXTURE_H
#define HOLDFAST_TESTS_HOT_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "holdfast/hot_table.h"

#define MS           INT64_C(1000)
#define SECOND       INT64_C(1000000)
#define HOUR         (3600 * SECOND)
#define DAY          (24 * HOUR)
#define LEASE_US     SECOND
#define TOMBSTONE_US (10 * SECOND)
#define ERROR_US     (2 * MS)
#define ANNA         UINT64_C(111)
#define BERT         UINT64_C(222)

static inline struct db_time
db_at(int64_t us)
{
    return (struct db_time){ INT64_C(1790000000) * SECOND + us };
}

static inline struct mono_time
mono_at(int64_t us)
{
    static int64_t base_us;
    if (base_us == 0) {
        base_us = mono_now().us + HOUR;
    }
    return (struct mono_time){ base_us + us };
}

static inline struct hot_table_limits
limits_usual(void)
{
    return (struct hot_table_limits){ .shards = 4,
                                      .seats_max = 1000,
                                      .parked_max = 100,
                                      .lease_us = LEASE_US,
                                      .tombstone_us = TOMBSTONE_US };
}

static inline struct hot_table *
table_with(struct hot_table_limits limits)
{
    struct hot_table *table = hot_table_new(&limits);
    assert_non_null(table);
    hot_table_set_trusted(table, true);
    return table;
}

static inline struct hot_table *
table_usual(void)
{
    return table_with(limits_usual());
}

static inline void
table_end(struct hot_table *table)
{
    hot_table_validate(table);
    hot_table_free(&table);
    assert_null(table);
}

static inline struct seat_key
seat_of_show(const char *seat)
{
    return (struct seat_key){ SLICE_LITERAL("demo"), SLICE_LITERAL("show-1"), slice_of(seat) };
}

static inline struct uuid
hold_number(uint8_t number)
{
    return (struct uuid){ { number } };
}

static inline struct seat_view
view_held(int64_t version, uint64_t user, struct db_time until)
{
    return (struct seat_view){ .status = SEAT_HELD,
                               .hold_id = hold_number((uint8_t)version),
                               .user_hash = user,
                               .held_until = until,
                               .version = version };
}

static inline struct seat_view
view_of(enum seat_status status, int64_t version)
{
    return (struct seat_view){ .status = status, .version = version };
}

/* Claims at db 0 and mono 0 as a usual request. */
static inline enum hot_answer
claim(struct hot_table *table, const char *seat, uint64_t user, struct hot_waiter *waiter)
{
    struct seat_key key = seat_of_show(seat);
    struct seat_view view;
    return hot_table_claim(table, &key, user, true, db_at(0), ERROR_US, mono_at(0), waiter, &view);
}

static inline struct hot_waiter *
settle(struct hot_table *table, const char *seat, const struct seat_view *view)
{
    struct seat_key key = seat_of_show(seat);
    struct hot_waiter *waiters = (struct hot_waiter *)&key; /* must be overwritten */
    hot_table_settle(table, &key, view, mono_at(0), true, &waiters);
    return waiters;
}

static inline void
learn(struct hot_table *table, const char *seat, struct seat_view view, bool arm)
{
    struct seat_key key = seat_of_show(seat);
    hot_table_learn(table, &key, &view, mono_at(0), arm);
}

static inline bool
refuses(struct hot_table *table, const char *seat, uint64_t user, int64_t db_us, int64_t mono_us)
{
    struct seat_key key = seat_of_show(seat);
    struct seat_view view;
    return hot_table_refuses(table, &key, user, db_at(db_us), ERROR_US, mono_at(mono_us), &view);
}

/* The version that a read tells; 0: it tells nothing. */
static inline int64_t
read_version(struct hot_table *table, const char *seat, int64_t db_us, int64_t mono_us)
{
    struct seat_key key = seat_of_show(seat);
    struct seat_view view;
    return hot_table_read(table, &key, db_at(db_us), ERROR_US, mono_at(mono_us), &view)
               ? view.version
               : 0;
}

static inline struct hot_numbers
numbers_of(struct hot_table *table)
{
    struct hot_numbers numbers;
    hot_table_numbers(table, &numbers);
    return numbers;
}

/* A seed that a failing run can be repeated with: HOLDFAST_SEED=... in the environment. */
static inline uint64_t
seed_printed(const char *test)
{
    const char *text = getenv("HOLDFAST_SEED");
    uint64_t seed = text != NULL ? strtoull(text, NULL, 10) : (uint64_t)mono_now().us;
    printf("%s: HOLDFAST_SEED=%llu\n", test, (unsigned long long)seed);
    return seed;
}

/* splitmix64: enough for a test, and the same everywhere. */
static inline uint64_t
random_next(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static inline int64_t
random_below(uint64_t *state, int64_t bound)
{
    return (int64_t)(random_next(state) % (uint64_t)bound);
}

#endif
