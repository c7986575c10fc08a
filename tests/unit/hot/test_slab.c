/* The slab: places are reused, and empty chunks go. */
#include "hot_fixture.h"
#include "slab.h"

#define ITEMS 2000

struct item {
    void *bytes;
    uint16_t place;
};

static void
slab_items_do_not_overlap_and_are_aligned(void **state)
{
    (void)state;
    struct slab slab;
    slab_init(&slab, 152);
    struct item items[ITEMS];
    for (int i = 0; i < ITEMS; i++) {
        items[i].bytes = slab_take(&slab, &items[i].place);
        assert_non_null(items[i].bytes);
        assert_int_equal((uintptr_t)items[i].bytes % 8, 0);
        memset(items[i].bytes, i & 0xff, 152);
    }
    for (int i = 0; i < ITEMS; i++) {
        const uint8_t *bytes = items[i].bytes;
        for (int b = 0; b < 152; b++) {
            assert_int_equal(bytes[b], i & 0xff);
        }
    }
    slab_validate(&slab);
    slab_fini(&slab);
}

static void
slab_gives_empty_chunks_back(void **state)
{
    (void)state;
    struct slab slab;
    slab_init(&slab, 208);
    struct item items[ITEMS];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < ITEMS; i++) {
            items[i].bytes = slab_take(&slab, &items[i].place);
            assert_non_null(items[i].bytes);
        }
        assert_int_equal(slab.items, ITEMS);
        for (int i = 0; i < ITEMS; i++) {
            int other = (i * 7 + round) % ITEMS; /* 7 and 2000 have no common factor */
            slab_give(&slab, items[other].bytes, items[other].place);
            if (i % 100 == 0) {
                slab_validate(&slab);
            }
        }
        assert_int_equal(slab.items, 0);
        assert_true(link_is_empty(&slab.open));
        assert_true(link_is_empty(&slab.full));
    }
    slab_fini(&slab);
}

static void
slab_uses_a_place_again_before_it_takes_a_new_chunk(void **state)
{
    (void)state;
    struct slab slab;
    slab_init(&slab, 152);
    struct item first, second, again;
    first.bytes = slab_take(&slab, &first.place);
    second.bytes = slab_take(&slab, &second.place);
    assert_non_null(first.bytes);
    assert_non_null(second.bytes);
    slab_give(&slab, first.bytes, first.place);
    again.bytes = slab_take(&slab, &again.place);
    assert_ptr_equal(again.bytes, first.bytes);
    assert_int_equal(again.place, first.place);
    slab_validate(&slab);
    slab_fini(&slab);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slab_items_do_not_overlap_and_are_aligned),
        cmocka_unit_test(slab_gives_empty_chunks_back),
        cmocka_unit_test(slab_uses_a_place_again_before_it_takes_a_new_chunk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
