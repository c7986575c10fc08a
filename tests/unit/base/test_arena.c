/* Memory of one request: zeroed, aligned, freed at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "holdfast/arena.h"

static void
what_it_gives_is_zeroed_and_aligned_and_does_not_overlap(void **state)
{
    struct arena arena = { 0 };
    unsigned char *given[200];

    (void)state;
    for (size_t i = 0; i < 200; i++) {
        given[i] = arena_alloc(&arena, i * 7);
        assert_non_null(given[i]);
        assert_int_equal((uintptr_t)given[i] % _Alignof(max_align_t), 0);
        for (size_t at = 0; at < i * 7; at++)
            assert_int_equal(given[i][at], 0);
        memset(given[i], (int)i, i * 7);
    }
    for (size_t i = 1; i < 200; i++)
        assert_int_equal(given[i][i * 7 - 1], i & 255);
    arena_fini(&arena);
    assert_null(arena.blocks);
}

static void
something_large_does_not_waste_what_is_left(void **state)
{
    struct arena arena = { 0 };
    char *before = arena_alloc(&arena, 16);

    (void)state;
    assert_non_null(arena_alloc(&arena, 1 << 20));
    assert_ptr_equal(arena_alloc(&arena, 16), before + 16);
    arena_fini(&arena);
}

static void
a_copy_ends_in_nul(void **state)
{
    struct arena arena = { 0 };
    struct slice copy = arena_copy(&arena, (struct slice){ "abcd", 3 });

    (void)state;
    assert_int_equal(copy.len, 3);
    assert_string_equal(copy.ptr, "abc");
    copy = arena_copy(&arena, (struct slice){ NULL, 0 });
    assert_string_equal(copy.ptr, "");
    arena_fini(&arena);
}

static void
what_cannot_be_is_null(void **state)
{
    struct arena arena = { 0 };

    (void)state;
    assert_null(arena_alloc(&arena, SIZE_MAX));
    assert_null(arena_alloc(&arena, SIZE_MAX / 2 + 1));
    arena_fini(&arena);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_it_gives_is_zeroed_and_aligned_and_does_not_overlap),
        cmocka_unit_test(something_large_does_not_waste_what_is_left),
        cmocka_unit_test(a_copy_ends_in_nul),
        cmocka_unit_test(what_cannot_be_is_null),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
