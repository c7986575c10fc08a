/* Changes as bytes: small, the same when read back, and hostile bytes are only refused. */
#include "feed_fixture.h"

#define MANY 64

static struct feed_change changes[MANY];

static struct slice
write_all(int count)
{
    static char bytes[64 * 1024];
    size_t most;
    assert_int_equal(codec_fit(changes, count, &most), count);
    assert_true(most <= sizeof(bytes));
    size_t len = codec_write(bytes, changes, count);
    assert_true(len <= most);
    return (struct slice){ bytes, len };
}

static void
assert_same(const struct feed_change *a, const struct feed_change *b)
{
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->reason, b->reason);
    assert_int_equal(a->status, b->status);
    assert_int_equal(a->in_payment, b->in_payment);
    assert_true(slice_equal(a->org, b->org));
    assert_true(slice_equal(a->event, b->event));
    assert_true(slice_equal(a->item, b->item));
    assert_true(a->version == b->version);
    assert_true(uuid_equal(&a->hold_id, &b->hold_id));
    assert_true(slice_equal(a->user, b->user));
    assert_true(a->held_until.us == b->held_until.us);
    assert_true(a->at.us == b->at.us);
    assert_true(a->held == b->held && a->sold == b->sold);
}

static void
assert_read_back(int count)
{
    struct codec_reader reader;
    struct feed_change change;
    uint32_t counted;
    uint64_t events;
    struct slice bytes = write_all(count);

    assert_true(codec_check(bytes, &counted, &events));
    assert_int_equal(counted, count);
    codec_begin(&reader, bytes);
    for (int i = 0; i < count; i++) {
        assert_int_equal(codec_next(&reader, &change), CODEC_CHANGE);
        assert_same(&change, &changes[i]);
        assert_true(events & codec_event_bit(changes[i].event));
    }
    assert_int_equal(codec_next(&reader, &change), CODEC_END);
    assert_int_equal(codec_next(&reader, &change), CODEC_END);
}

static void
every_kind_is_read_back(void **state)
{
    (void)state;
    changes[0] = seat_change("gig", "A1", 1);
    changes[1] = (struct feed_change){ .kind = FEED_SEAT,
                                       .reason = FEED_TTL_EXPIRED,
                                       .status = SEAT_AVAILABLE,
                                       .org = slice_of("acme"),
                                       .event = slice_of("gig"),
                                       .item = slice_of("A1"),
                                       .version = INT64_MAX };
    changes[2] = (struct feed_change){ .kind = FEED_AREA,
                                       .org = slice_of("acme"),
                                       .event = slice_of("gig"),
                                       .item = slice_of("floor"),
                                       .version = 77,
                                       .held = 1000000,
                                       .sold = INT64_MAX,
                                       .at = { INT64_MIN } };
    changes[3] = (struct feed_change){ .kind = FEED_EVENT,
                                       .org = slice_of("other"),
                                       .event = slice_of("gig"),
                                       .version = 3,
                                       .at = { INT64_MAX } };
    changes[4] = (struct feed_change){ .kind = FEED_SEATS,
                                       .org = slice_of("other"),
                                       .event = slice_of("gig2") };
    changes[5] = seat_change("gig2", "B", 0);
    changes[5].in_payment = true;
    changes[5].reason = FEED_UNBLOCKED;
    changes[5].status = SEAT_REMOVED;
    assert_read_back(6);
}

static void
a_record_may_be_empty(void **state)
{
    (void)state;
    assert_int_equal(write_all(0).len, 1);
    assert_read_back(0);
}

static void
owners_are_told_once_whatever_comes_between(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        changes[i] = seat_change("gig", "A1", 5);
        changes[i].at.us = 1700000000000000;
        if (i % 2 == 0) { /* somebody else's hold on the seat was over */
            changes[i] = (struct feed_change){ .kind = FEED_SEAT,
                                               .reason = FEED_TTL_EXPIRED,
                                               .org = slice_of("acme"),
                                               .event = slice_of("gig"),
                                               .item = slice_of("A1"),
                                               .version = 4,
                                               .at = { 1700000000000000 } };
        }
    }
    size_t before = write_all(2).len, four = write_all(8).len;
    assert_true(four - before == 6 * (2 + 3 + 1)); /* flags, seat, version */
    assert_read_back(8);
}

static void
random_changes_are_read_back(void **state)
{
    (void)state;
    static const char *const texts[] = { "a", "bb", "ccc-ccc_ccc.ccc" };
    unsigned seed = 7;
    for (int round = 0; round < 2000; round++) {
        int count = rand_r(&seed) % MANY;
        for (int i = 0; i < count; i++) {
            struct feed_change *change = &changes[i];
            *change = (struct feed_change){ .kind = (enum feed_kind)(rand_r(&seed) % 4),
                                            .org = slice_of(texts[rand_r(&seed) % 2]),
                                            .event = slice_of(texts[rand_r(&seed) % 3]),
                                            .item = SLICE_EMPTY,
                                            .user = SLICE_EMPTY,
                                            .at = { rand_r(&seed) % 3 } };
            if (change->kind <= FEED_AREA)
                change->item = slice_of(texts[rand_r(&seed) % 3]);
            if (change->kind != FEED_SEATS)
                change->version = rand_r(&seed) >> (rand_r(&seed) % 31);
            if (change->kind == FEED_AREA)
                change->held = rand_r(&seed), change->sold = rand_r(&seed) % 2;
            if (change->kind != FEED_SEAT)
                continue;
            change->status = (enum seat_status)(rand_r(&seed) % 5);
            change->reason = (enum feed_reason)(rand_r(&seed) % 8);
            change->in_payment = rand_r(&seed) % 2;
            change->hold_id.bytes[rand_r(&seed) % 16] = (uint8_t)(rand_r(&seed) % 2);
            if (rand_r(&seed) % 2)
                change->user = slice_of(texts[rand_r(&seed) % 3]);
            if (rand_r(&seed) % 2)
                change->held_until.us = rand_r(&seed) % 3 - 1;
        }
        assert_read_back(count);
    }
}

/* A batch of one-seat holds of one event: what the "bytes per hold" is made of. */
static void
a_hold_takes_less_than_70_bytes(void **state)
{
    (void)state;
    static char seats[32][24], users[32][24];
    for (int i = 0; i < 32; i++) {
        snprintf(seats[i], sizeof(seats[i]), "section-12-row-34-%02d", i);
        snprintf(users[i], sizeof(users[i]), "user-0123456789ab-%02d", i);
        assert_int_equal(strlen(seats[i]), 20);
        assert_int_equal(strlen(users[i]), 20);
        changes[i] = seat_change("event-0123456789abcd", seats[i], 3);
        changes[i].user = slice_of(users[i]);
        changes[i].hold_id = uuid_v7_new();
    }
    size_t len = write_all(32).len;
    print_message("%.1f bytes a hold\n", (double)len / 32);
    assert_true(len < 32 * 70);
    assert_read_back(32);
}

/* Of one hold of 8 seats the others only name their seats. */
static void
a_further_seat_of_a_hold_takes_its_name_and_3_bytes(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++)
        changes[i] = seat_change("gig", "A-12", 3);
    size_t one = write_all(1).len;
    assert_int_equal(write_all(8).len, one + 7 * (2 + 5 + 1));
    assert_read_back(8);
}

static void
what_memory_must_not_get_is_not_written(void **state)
{
    (void)state;
    static char bytes[4096];
    static char longest[ID_BYTES_MAX + 1];
    memset(longest, 'x', sizeof(longest));
    struct feed_change good = seat_change("gig", "A1", 1);
    struct feed_change bad[9];
    for (int i = 0; i < 9; i++)
        bad[i] = good;
    bad[0].org = SLICE_EMPTY;
    bad[1].event = SLICE_EMPTY;
    bad[2].item = SLICE_EMPTY;
    bad[3].item = (struct slice){ longest, sizeof(longest) };
    bad[4].user = (struct slice){ longest, sizeof(longest) };
    bad[5].item = (struct slice){ "A\0B", 3 };
    bad[6].version = -1;
    bad[7].kind = FEED_EVENT; /* with a seat */
    bad[8].kind = FEED_AREA;
    bad[8].held = -1;
    assert_true(codec_write(bytes, &good, 1) > 0);
    for (int i = 0; i < 9; i++)
        assert_int_equal(codec_write(bytes, &bad[i], 1), 0);
}

static void
read_hostile(const uint8_t *bytes, size_t len)
{
    uint8_t *copy = malloc(len + 1); /* exactly as long, for the sanitizer */
    uint32_t count;
    uint64_t events;
    memcpy(copy, bytes, len);
    copy = realloc(copy, len == 0 ? 1 : len);
    bool good = codec_check((struct slice){ (char *)copy, len }, &count, &events);
    free(copy);
    if (good)
        assert_true(count * 2 < len); /* a change takes two bytes at the least */
}

static void
hostile_bytes_are_only_refused(void **state)
{
    (void)state;
    uint32_t count;
    uint64_t events;
    changes[0] = seat_change("gig", "A1", 1);
    changes[1] = (struct feed_change){ .kind = FEED_AREA,
                                       .org = slice_of("acme"),
                                       .event = slice_of("gig"),
                                       .item = slice_of("floor"),
                                       .version = 77 };
    struct slice whole = write_all(2);
    size_t one = write_all(1).len;
    (void)write_all(2);
    for (size_t len = 0; len < whole.len; len++) {
        read_hostile((const uint8_t *)whole.ptr, len);
        if (len != 1 && len != one) /* cut between changes it is a shorter record */
            assert_false(codec_check((struct slice){ whole.ptr, len }, &count, &events));
    }
    for (size_t at = 0; at < whole.len; at++) {
        for (int byte = 0; byte < 256; byte++) {
            uint8_t bytes[256];
            memcpy(bytes, whole.ptr, whole.len);
            bytes[at] = (uint8_t)byte;
            read_hostile(bytes, whole.len);
        }
    }
    unsigned seed = 11;
    for (int round = 0; round < 20000; round++) {
        uint8_t bytes[64];
        for (size_t i = 0; i < sizeof(bytes); i++)
            bytes[i] = (uint8_t)(rand_r(&seed) >> 7);
        bytes[0] = 1;
        read_hostile(bytes, 1 + (size_t)rand_r(&seed) % sizeof(bytes));
    }
}

static bool
is_garbled(const char *bytes, size_t len)
{
    uint32_t count;
    uint64_t events;
    return !codec_check((struct slice){ bytes, len }, &count, &events);
}

static void
what_nobody_writes_is_garbled(void **state)
{
    (void)state;
    static const char event[] = "\x01\x02\x00\x01o\x01"
                                "e\x05\x00"; /* kind EVENT, version 5, at 0 */
    assert_false(is_garbled(event, sizeof(event) - 1));
    assert_true(is_garbled("", 0));
    assert_true(is_garbled("\x02", 1)); /* format */
    assert_true(is_garbled("\x01\x02\x40\x01o\x01"
                           "e\x05\x00",
                           9));                         /* unknown flag */
    assert_true(is_garbled("\x01\x02\x02\x05\x00", 5)); /* the same event as none */
    assert_true(is_garbled("\x01\x06\x00\x01o\x01"
                           "e\x05\x00",
                           9)); /* an event with a status */
    assert_true(is_garbled("\x01\x14\x04\x01o\x01"
                           "e\x01s\x05",
                           9)); /* status 5 */
    assert_true(is_garbled("\x01\x02\x00\x01o\x01"
                           "e\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02\x00",
                           18));
    assert_true(is_garbled("\x01\x02\x00\x01o\x01"
                           "e\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00",
                           18)); /* < 0 */
    assert_true(is_garbled("\x01\x02\x00\x41o", 5));
    assert_true(is_garbled("\x01\x00\x1c\x01o\x01"
                           "e\x01s\x05",
                           10)); /* an owner given and the same */
}

static void
reasons_are_read_as_they_are_written(void **state)
{
    (void)state;
    assert_null(feed_reason_word(FEED_REASON_NONE));
    for (int i = FEED_TTL_EXPIRED; i <= FEED_UNBLOCKED; i++)
        assert_int_equal(feed_reason_parse(slice_of(feed_reason_word((enum feed_reason)i))), i);
    assert_int_equal(feed_reason_parse(slice_of("boredom")), FEED_REASON_NONE);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_is_read_back),
        cmocka_unit_test(a_record_may_be_empty),
        cmocka_unit_test(owners_are_told_once_whatever_comes_between),
        cmocka_unit_test(random_changes_are_read_back),
        cmocka_unit_test(a_hold_takes_less_than_70_bytes),
        cmocka_unit_test(a_further_seat_of_a_hold_takes_its_name_and_3_bytes),
        cmocka_unit_test(what_memory_must_not_get_is_not_written),
        cmocka_unit_test(hostile_bytes_are_only_refused),
        cmocka_unit_test(what_nobody_writes_is_garbled),
        cmocka_unit_test(reasons_are_read_as_they_are_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
