/*
 * hot_memory.c - what a held seat costs in the hot table: bytes and time to find it.
 *
 * Fills a table as the server has it (64 shards) with SEATS held seats of one event, each
 * with an armed timer, and prints how much the resident set grew by each; then looks all
 * of them up in an order that no cache likes. Prints:
 *     seats N
 *     bytes_per_seat N
 *     lookup_ns N        the mean
 *     lookup_p50_ns N
 *     lookup_p99_ns N
 *
 * hot_memory [SEATS]     1,000,000 unless told otherwise; exit status 2: usage, 1: it failed.
 */
#include "holdfast/hot_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define SEATS_USUAL 1000000
#define SEATS_MOST  10000000 /* so that a seat's name has seven digits at most */
#define HOLD_US     (INT64_C(900) * TIME_US_PER_S)

static int64_t
resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL) {
        return -1;
    }
    long pages = -1;
    if (fscanf(file, "%*s %ld", &pages) != 1) {
        pages = -1;
    }
    (void)fclose(file);
    return pages < 0 ? -1 : (int64_t)pages * sysconf(_SC_PAGESIZE);
}

static int64_t
now_ns(void)
{
    struct timespec now;
    hf_must(clock_gettime(CLOCK_MONOTONIC, &now));
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static struct seat_key
seat_number(long number, char text[16])
{
    int bytes = snprintf(text, 16, "S%06ld", number);
    return (
        struct seat_key){ SLICE_LITERAL("demo"), SLICE_LITERAL("show-1"), { text, (size_t)bytes } };
}

static void
fill(struct hot_table *table, long seats, struct db_time now)
{
    char text[16];
    struct mono_time began = mono_now();
    for (long i = 0; i < seats; i++) {
        struct seat_key key = seat_number(i, text);
        struct seat_view view = {
            .status = SEAT_HELD,
            .hold_id = uuid_v7_new(),
            .user_hash = hash_seeded(&i, sizeof(i)),
            .held_until = { now.us + HOLD_US + i * 10 },
            .version = 1,
        };
        hot_table_learn(table, &key, &view, began, true);
    }
}

static int
compare_times(const void *a, const void *b)
{
    int32_t left = *(const int32_t *)a, right = *(const int32_t *)b;
    return (left > right) - (left < right);
}

/* Looks up every seat once, far from its neighbours; times[] gets each one's nanoseconds. */
static long
look_up(struct hot_table *table, long seats, struct db_time now, int32_t *times)
{
    char text[16];
    struct mono_time mono = mono_now();
    long found = 0;
    long step = 7919; /* a prime that doesn't divide the number of seats: visits all */
    while (seats % step == 0) {
        step += 2;
    }
    for (long i = 0, number = 0; i < seats; i++, number = (number + step) % seats) {
        struct seat_key key = seat_number(number, text);
        struct seat_view view;
        int64_t begin_ns = now_ns();
        found += hot_table_refuses(table, &key, 0, now, 0, mono, &view);
        times[i] = (int32_t)(now_ns() - begin_ns);
    }
    return found;
}

static int
measure(long seats)
{
    const struct hot_table_limits limits = { .shards = 64,
                                             .seats_max = seats,
                                             .parked_max = 1000,
                                             .lease_us = TIME_US_PER_S,
                                             .tombstone_us = 10 * TIME_US_PER_S };
    struct db_time now = { (int64_t)time(NULL) * TIME_US_PER_S };
    int32_t *times = malloc((size_t)seats * sizeof(*times));
    if (times == NULL) {
        return 1;
    }
    int64_t before = resident_bytes();
    struct hot_table *table = hot_table_new(&limits);
    if (table == NULL) {
        free(times);
        return 1;
    }
    hot_table_set_trusted(table, true);
    struct hot_due due;
    (void)hot_table_tick(table, now, &due, 1);
    fill(table, seats, now);
    int64_t grown = resident_bytes() - before;

    long found = look_up(table, seats, now, times);
    int64_t sum_ns = 0;
    for (long i = 0; i < seats; i++) {
        sum_ns += times[i];
    }
    qsort(times, (size_t)seats, sizeof(*times), compare_times);
    printf("seats %ld\n", found);
    printf("bytes_per_seat %" PRId64 "\n", (grown + seats - 1) / seats);
    printf("lookup_ns %" PRId64 "\n", sum_ns / seats);
    printf("lookup_p50_ns %" PRId32 "\n", times[seats / 2]);
    printf("lookup_p99_ns %" PRId32 "\n", times[seats - seats / 100 - 1]);
    hot_table_free(&table);
    free(times);
    return found == seats ? 0 : 1;
}

int
main(int argc, char **argv)
{
    char *end = NULL;
    long seats = argc > 1 ? strtol(argv[1], &end, 10) : SEATS_USUAL;
    if (argc > 2 || (end != NULL && *end != '\0') || seats < 1 || seats > SEATS_MOST) {
        (void)fprintf(stderr, "usage: %s [SEATS]\n", argv[0]);
        return 2;
    }
    return measure(seats);
}
