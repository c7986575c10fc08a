/* The rule of the single seat over the rows of read_rows: what each op of a batch hears, and when
 * its verdict falls with another one's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "engine_internal.h"
#include "fake_rows.h"

#define H1      "01890000-0000-7000-8000-000000000001"
#define COLUMNS "line:int8 pos:int8 seat:text number:text aisle:bool state:text usr:text hold:uuid"
#define TAKEN   "pos:int8 ord:int4 code:text taken:bool"

#define OPS     4
#define SEATS   3
#define GIANT   2000
#define ASKED   500

/* One seating row, and what up to four ops ask for in it. */
struct scene {
    struct pg_result *rows;
    struct gaps *gaps;
    struct op ops[OPS];
    struct op_seat seats[OPS][SEATS];
    int op_count, asked;
};

static int
set_up(void **state)
{
    struct scene *scene = calloc(1, sizeof(*scene));

    scene->rows = rows_new(COLUMNS);
    scene->gaps = gaps_new(OPS);
    *state = scene;
    return scene->gaps == NULL;
}

static int
tear_down(void **state)
{
    struct scene *scene = *state;

    for (int i = 0; i < OPS; i++)
        arena_fini(&scene->ops[i].arena);
    gaps_free(&scene->gaps);
    pg_result_free(&scene->rows);
    free(scene);
    return 0;
}

/* A letter a seat: f free, t taken, r removed, | an aisle behind the one before; a, b: held by that
 * user, of hold H1. Their ids and numbers are 1, 2, ...; up to nine, so that both orders agree. */
static void
house(struct scene *scene, const char *seats)
{
    int number = 0;

    for (const char *at = seats; *at != '\0'; at++) {
        char text[16], user[2] = { *at, '\0' };
        bool is_held = *at == 'a' || *at == 'b';
        snprintf(text, sizeof(text), "%d", ++number);
        bool has_aisle = at[1] == '|';
        rows_add(scene->rows, "1", NULL, text, text, has_aisle ? "t" : "f",
                 is_held      ? "held"
                 : *at == 't' ? "taken"
                 : *at == 'r' ? "removed"
                              : "free",
                 is_held ? user : NULL, is_held ? H1 : NULL);
        at += has_aisle;
    }
}

/* numbers: "12" asks for seats 1 and 2. */
static struct op *
ask(struct scene *scene, const char *user, const char *numbers)
{
    static const char *const ids[] = { "0", "1", "2", "3", "4", "5", "6", "7", "8", "9" };
    struct op *op = &scene->ops[scene->op_count];

    op->kind = OP_HOLD;
    op->user = slice_of(user);
    op->seats = scene->seats[scene->op_count++];
    for (; *numbers != '\0'; numbers++) {
        char pos[16];
        op->seats[op->seat_count++].id = slice_of(ids[*numbers - '0']);
        snprintf(pos, sizeof(pos), "%d", ++scene->asked);
        if (*numbers != '9') /* there is none */
            rows_add(scene->rows, "1", pos, ids[*numbers - '0'], NULL, NULL, NULL, NULL, NULL);
    }
    gaps_add(scene->gaps, op, op->user, NULL, op->seat_count);
    return op;
}

static void
judge(struct scene *scene)
{
    gaps_read(scene->gaps, &scene->rows);
    gaps_judge(scene->gaps);
}

/* The seats that the op would leave alone, as it is told. */
static void
assert_refused(const struct op *op, const char *numbers)
{
    assert_int_equal(op->gap, OP_GAP_REFUSED);
    assert_int_equal(op->gap_count, (int)strlen(numbers));
    for (int i = 0; i < op->gap_count; i++)
        assert_true(op->gap_seats[i].len == 1 && op->gap_seats[i].ptr[0] == numbers[i]);
}

/* taken: a letter an op, t or f. */
static bool
hold(struct scene *scene, const char *taken)
{
    struct pg_result *rows = rows_new(TAKEN);

    for (int i = 0; i < scene->op_count; i++) {
        char letter[2] = { taken[i], '\0' };
        scene->ops[i].row_first = i;
        rows_add(rows, "1", "0", "ok", letter);
    }
    bool held = gaps_hold(scene->gaps, rows);
    pg_result_free(&rows);
    return held;
}

static void
a_choice_that_leaves_nobody_alone_is_good(void **state)
{
    struct scene *scene = *state;
    house(scene, "ffffff");
    struct op *op = ask(scene, "a", "12");
    judge(scene);
    assert_int_equal(op->gap, OP_GAP_GOOD);
    assert_int_equal(op->gap_count, 0);
    assert_false(gaps_are_shared(scene->gaps));
}

static void
a_choice_is_told_whom_it_leaves_alone(void **state)
{
    struct scene *scene = *state;
    house(scene, "ffffffff");
    struct op *op = ask(scene, "a", "27");
    judge(scene);
    assert_refused(op, "18");
}

static void
what_others_have_is_taken(void **state)
{
    struct scene *scene = *state;
    house(scene, "fbffff");
    struct op *op = ask(scene, "a", "5");
    judge(scene);
    assert_refused(op, "6");
}

static void
aisles_and_removed_seats_are_breaks(void **state)
{
    struct scene *scene = *state;
    house(scene, "fff|fffrf");
    struct op *aisle = ask(scene, "a", "2");
    judge(scene);
    assert_refused(aisle, "13");
}

static void
behind_a_removed_seat_nobody_has_a_neighbour(void **state)
{
    struct scene *scene = *state;
    house(scene, "ffrffff");
    struct op *op = ask(scene, "a", "1");
    judge(scene);
    assert_refused(op, "2");
}

static void
ones_own_seats_are_part_of_the_choice(void **state)
{
    struct scene *scene = *state;
    house(scene, "aaffff");
    struct op *op = ask(scene, "a", "4");
    judge(scene);
    assert_refused(op, "3");
}

static void
what_is_dropped_is_no_part_of_it(void **state)
{
    struct scene *scene = *state;
    struct op_seat drop[] = { { .id = SLICE_LITERAL("1") }, { .id = SLICE_LITERAL("2") } };
    house(scene, "aaffff");
    struct op *op = ask(scene, "a", "4");
    op->drop = drop;
    op->drop_count = 2;
    judge(scene);
    assert_int_equal(op->gap, OP_GAP_GOOD);
}

static void
what_is_replaced_may_be_chosen_again(void **state)
{
    struct scene *scene = *state;
    struct uuid replaced;
    assert_true(uuid_parse(slice_of(H1), &replaced));
    house(scene, "aaffff");
    struct op *op = ask(scene, "a", "123");
    gaps_replace(scene->gaps, &replaced, 1);
    judge(scene);
    assert_int_equal(op->gap, OP_GAP_GOOD);
}

static void
a_choice_of_what_one_has_or_cannot_get_is_not_judged(void **state)
{
    struct scene *scene = *state;
    house(scene, "afbtffff");
    struct op *own = ask(scene, "a", "12");
    struct op *taken = ask(scene, "a", "23");
    struct op *sold = ask(scene, "a", "4");
    struct op *nothing = ask(scene, "a", "59");
    judge(scene);
    assert_int_equal(own->gap, OP_GAP_OWN);
    assert_int_equal(taken->gap, OP_GAP_LOOKED);
    assert_int_equal(sold->gap, OP_GAP_LOOKED);
    assert_int_equal(nothing->gap, OP_GAP_LOOKED);
    assert_false(gaps_are_shared(scene->gaps));
}

static void
those_judged_good_before_count_as_taken(void **state)
{
    struct scene *scene = *state;
    house(scene, "fffffff");
    struct op *first = ask(scene, "a", "3");
    struct op *second = ask(scene, "b", "5");
    struct op *third = ask(scene, "c", "4");
    judge(scene);
    assert_int_equal(first->gap, OP_GAP_GOOD);
    assert_refused(second, "4");
    assert_int_equal(third->gap, OP_GAP_GOOD);
    assert_true(gaps_are_shared(scene->gaps));
    assert_true(hold(scene, "tft"));
    assert_refused(second, "4");
}

static void
of_one_user_in_one_batch_the_second_choice_goes_with_the_first(void **state)
{
    struct scene *scene = *state;
    house(scene, "ffffff");
    struct op *first = ask(scene, "a", "12");
    struct op *second = ask(scene, "a", "4");
    struct op *third = ask(scene, "a", "3");
    judge(scene);
    assert_int_equal(first->gap, OP_GAP_GOOD);
    assert_refused(second, "3");
    assert_int_equal(third->gap, OP_GAP_GOOD);
}

static void
a_refusal_falls_when_the_one_that_it_rests_on_gets_nothing(void **state)
{
    struct scene *scene = *state;
    house(scene, "fffffff");
    ask(scene, "a", "3");
    ask(scene, "b", "5");
    judge(scene);
    assert_false(hold(scene, "ff"));
}

static void
a_grant_falls_when_the_one_that_it_rests_on_gets_nothing(void **state)
{
    struct scene *scene = *state;
    house(scene, "ffffff");
    struct op *first = ask(scene, "a", "1");
    struct op *second = ask(scene, "b", "2");
    judge(scene);
    assert_int_equal(first->gap, OP_GAP_GOOD);
    assert_int_equal(second->gap, OP_GAP_GOOD);
    assert_false(hold(scene, "ft"));
}

static void
what_nobody_rests_on_may_come_to_nothing(void **state)
{
    struct scene *scene = *state;
    house(scene, "ffffffff");
    ask(scene, "a", "1");
    ask(scene, "b", "8");
    struct op *third = ask(scene, "c", "3");
    judge(scene);
    assert_refused(third, "2");
    assert_true(hold(scene, "tff"));
    assert_refused(third, "2");
}

/* All seats of an event in one row, and as many asked for as may be: each is found. */
static void
a_giant_row_has_each_seat_that_is_asked_for(void **state)
{
    struct scene *scene = *state;
    static struct op_seat seats[ASKED];
    static char ids[GIANT][8];
    struct op *op = &scene->ops[0];

    for (int i = 0; i < GIANT; i++) {
        snprintf(ids[i], sizeof(ids[i]), "%05d", i);
        rows_add(scene->rows, "1", NULL, ids[i], ids[i], "f", "free", NULL, NULL);
    }
    for (int i = 0; i < ASKED; i++) {
        char pos[16];
        snprintf(pos, sizeof(pos), "%d", i + 1);
        seats[i].id = slice_of(ids[GIANT - 2 - i]); /* the last one stays alone */
        rows_add(scene->rows, "1", pos, ids[GIANT - 2 - i], NULL, NULL, NULL, NULL, NULL);
    }
    *op = (struct op){ .kind = OP_HOLD, .seats = seats, .seat_count = ASKED };
    gaps_add(scene->gaps, op, slice_of("x"), NULL, ASKED);
    judge(scene);
    assert_int_equal(op->gap, OP_GAP_REFUSED);
    assert_int_equal(op->gap_count, 1);
    assert_true(slice_is(op->gap_seats[0], ids[GIANT - 1]));
}

int
main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(a_choice_that_leaves_nobody_alone_is_good),
        CASE(a_giant_row_has_each_seat_that_is_asked_for),
        CASE(a_choice_is_told_whom_it_leaves_alone),
        CASE(what_others_have_is_taken),
        CASE(aisles_and_removed_seats_are_breaks),
        CASE(behind_a_removed_seat_nobody_has_a_neighbour),
        CASE(ones_own_seats_are_part_of_the_choice),
        CASE(what_is_dropped_is_no_part_of_it),
        CASE(what_is_replaced_may_be_chosen_again),
        CASE(a_choice_of_what_one_has_or_cannot_get_is_not_judged),
        CASE(those_judged_good_before_count_as_taken),
        CASE(of_one_user_in_one_batch_the_second_choice_goes_with_the_first),
        CASE(a_refusal_falls_when_the_one_that_it_rests_on_gets_nothing),
        CASE(a_grant_falls_when_the_one_that_it_rests_on_gets_nothing),
        CASE(what_nobody_rests_on_may_come_to_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
