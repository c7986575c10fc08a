/*
 * Which texts are identifiers, and what our own look like.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "holdfast/ids.h"

#define THREADS        4
#define IDS_PER_THREAD 20000

static void
ids_are_1_to_64_letters_digits_dots_dashes_underscores(void **state)
{
    char longest[65];

    (void)state;
    memset(longest, 'x', sizeof(longest));
    assert_true(id_is_valid(SLICE_LITERAL("a")));
    assert_true(id_is_valid(SLICE_LITERAL("FL-123_v2.Az09")));
    assert_true(id_is_valid((struct slice){ longest, 64 }));
    assert_false(id_is_valid((struct slice){ longest, 65 }));
    assert_false(id_is_valid(SLICE_EMPTY));
}

static void
ids_have_no_other_byte(void **state)
{
    (void)state;
    for (int c = 0; c < 256; c++) {
        char text[3] = { 'a', (char)c, 'b' };
        bool allowed = c != 0 && strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                        "0123456789._-",
                                        c) != NULL;
        assert_int_equal(id_is_valid((struct slice){ text, 3 }), allowed);
    }
}

static uint64_t
uuid_ms(const struct uuid *uuid)
{
    uint64_t ms = 0;

    for (int i = 0; i < 6; i++)
        ms = ms << 8 | uuid->bytes[i];
    return ms;
}

static uint64_t
wall_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME, &ts);
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static void
uuid_has_version_7_its_variant_and_the_time(void **state)
{
    uint64_t before = wall_ms();
    struct uuid uuid = uuid_v7_new();
    uint64_t after = wall_ms();

    (void)state;
    assert_int_equal(uuid.bytes[6] >> 4, 7);
    assert_int_equal(uuid.bytes[8] >> 6, 2);
    assert_in_range(uuid_ms(&uuid), before, after);
    assert_false(uuid_is_nil(&uuid));
}

static void *
draw_ids(void *into)
{
    struct uuid *ids = into;

    for (int i = 0; i < IDS_PER_THREAD; i++)
        ids[i] = uuid_v7_new();
    return NULL;
}

static int
uuid_compare(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct uuid));
}

/* More of them than a millisecond has sequence numbers. */
static void
uuids_of_one_thread_only_rise(void **state)
{
    struct uuid *ids = calloc(IDS_PER_THREAD, sizeof(*ids));

    (void)state;
    assert_non_null(ids);
    draw_ids(ids);
    for (int i = 1; i < IDS_PER_THREAD; i++)
        assert_true(uuid_compare(&ids[i - 1], &ids[i]) < 0);
    free(ids);
}

static void
uuids_of_several_threads_are_all_different(void **state)
{
    struct uuid *ids = calloc(THREADS * IDS_PER_THREAD, sizeof(*ids));
    pthread_t threads[THREADS];

    (void)state;
    assert_non_null(ids);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, draw_ids, ids + i * IDS_PER_THREAD), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    qsort(ids, THREADS * IDS_PER_THREAD, sizeof(*ids), uuid_compare);
    for (int i = 1; i < THREADS * IDS_PER_THREAD; i++)
        assert_false(uuid_equal(&ids[i - 1], &ids[i]));
    free(ids);
}

static void
uuid_text_comes_back_in_either_case(void **state)
{
    struct uuid uuid;
    char text[UUID_TEXT_BYTES];

    (void)state;
    assert_true(uuid_parse(SLICE_LITERAL("0190163D-8694-739B-aea5-966c26F8ad91"), &uuid));
    uuid_format(&uuid, text);
    assert_string_equal(text, "0190163d-8694-739b-aea5-966c26f8ad91");
}

static void
uuid_text_of_another_form_is_refused(void **state)
{
    static const char *const refused[] = {
        "",
        "0190163d-8694-739b-aea5-966c26f8ad9",
        "0190163d-8694-739b-aea5-966c26f8ad911",
        "0190163d8694739baea5966c26f8ad91",
        "{0190163d-8694-739b-aea5-966c26f8ad91}",
        "0190163d-8694-739b-aea5-966c26f8ad9g",
        "0190163d+8694-739b-aea5-966c26f8ad91",
        "0190163-d8694-739b-aea5-966c26f8ad91",
        " 190163d-8694-739b-aea5-966c26f8ad91",
    };
    struct uuid uuid;

    (void)state;
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
        assert_false(uuid_parse(slice_of(refused[i]), &uuid));
}

static void
nil_uuid_is_all_zeros(void **state)
{
    struct uuid uuid = { { 0 } };

    (void)state;
    assert_true(uuid_is_nil(&uuid));
    uuid.bytes[15] = 1;
    assert_false(uuid_is_nil(&uuid));
}

static void
stable_hash_is_xxh3_on_every_node(void **state)
{
    (void)state;
    assert_true(hash_stable("", 0, 0) == UINT64_C(0x2D06800538D394C2));
    assert_true(hash_stable("seat", 4, 1) != hash_stable("seat", 4, 2));
}

static void
seeded_hash_is_steady_but_no_one_elses(void **state)
{
    (void)state;
    assert_true(hash_seeded("seat", 4) == hash_seeded("seat", 4));
    assert_true(hash_seeded("seat", 4) != hash_seeded("seat", 3));
    assert_true(hash_seeded("seat", 4) != hash_stable("seat", 4, 0));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_1_to_64_letters_digits_dots_dashes_underscores),
        cmocka_unit_test(ids_have_no_other_byte),
        cmocka_unit_test(uuid_has_version_7_its_variant_and_the_time),
        cmocka_unit_test(uuids_of_one_thread_only_rise),
        cmocka_unit_test(uuids_of_several_threads_are_all_different),
        cmocka_unit_test(uuid_text_comes_back_in_either_case),
        cmocka_unit_test(uuid_text_of_another_form_is_refused),
        cmocka_unit_test(nil_uuid_is_all_zeros),
        cmocka_unit_test(stable_hash_is_xxh3_on_every_node),
        cmocka_unit_test(seeded_hash_is_steady_but_no_one_elses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
