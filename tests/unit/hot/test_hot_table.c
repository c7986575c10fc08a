/* The hot table's contract: claims, trust, versions, fills, expiry, bounds. */
#include "hot_fixture.h"

#define TICK (10 * MS)

/* --- claims and parked requests ------------------------------------------ */

static void
a_claim_on_an_unknown_seat_is_pending(void **state)
{
    (void)state;
    struct hot_table *table = table_usual();
    struct hot_waiter waiter;
    assert_int_equal(claim(table, "A1", ANNA, &waiter), HOT_CLAIMED);
    assert_int_equal(numbers_of(table).claims, 1);
    assert_int_equal(numbers_of(table).entries, 1);
    assert_int_equal(read_version(table, "A1", 0, 0), 0);
    hot_table_validate(table);
    assert_null(settle(table, "A1", NULL));
    table_end(table);
}

static void
a_dropped_claim_on_an_unknown_seat_leaves_nothing(void **state)
{
    (void)state;
    struct hot_table *table = table_usual();
    struct hot_waiter waiter;
    assert_int_equal(claim(table, "A1", ANNA, &waiter), HOT_CLAIMED);
    assert_null(settle(table, "A1", NULL));
    assert_int_equal(numbers_of(table).entries, 0);
    assert_int_equal(numbers_of(table).claims, 0);
    assert_int_equal(claim(table, "A1", BERT, &waiter), HOT_CLAIMED);
    assert_null(settle(table, "A1", NULL));
    table_end(table);
}

static void
a_dropped_claim_keeps_what_was_known(void **state)
{
    (void)state;
    struct hot_table *table = table_usual();
    struct hot_waiter waiter;
    learn(table, "A1", view_of(SEAT_AVAILABLE, 7), false);
    assert_int_equal(claim(table, "A1", ANNA, &waiter), HOT_CLAIMED);
    assert_int_equal(read_version(table, "A1", 0, 0), 0); /* not settled */
    assert_null(settle(table, "A1", NULL));
    assert_int_equal(read_version(table, "A1", 0, 0), 7);
    table_end(table);
}

static void
requests_that_meet_a_claim_come_back_first_come_first(void **state)
{
    (void)state;
    struct hot_table *table = table_usual();
    struct hot_waiter owner, parked[5];
    assert_int_equal(claim(table, "A1", ANNA, &owner), HOT_CLAIMED);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(claim(table, "A1", ANNA + (uint64_t)i, &parked[i]), HOT_PARKED);
    }
    assert_int_equal(numbers_of(table).parked, 5);
    hot_table_validate(table);

    struct seat_view view = view_held(1, ANNA, db_at(HOUR));
    struct hot_waiter *waiter = settle(table, "A1", &view);
    for (int i = 0; i < 5; i++) {
        assert_ptr_equal(waiter, &parked[i]);
        waiter = waiter->next;
    }
    assert_null(waiter);
    assert_int_equal(numbers_of(table).parked, 0);
    table_end(table);
}

static void
after_a_settle_others_are_refused_and_the_same_user_claims(void **state)
{
    (void)state;
    struct hot_table *table = table_usual();
    struct hot_waiter owner, same, other;
    assert_int_equal(claim(table, "A1", ANNA, &owner), HOT_CLAIMED);
    assert_int_equal(claim(table, "A1", BERT, &other), HOT_PARKED);
    assert_int_equal(claim(table, "A1", ANNA, &same), HOT_PARKED);
    struct seat_view view = view_held(1, ANNA, db_at(HOUR));
    assert_ptr_equal(settle(table, "A1", &view), &other);

    struct seat_key key = seat_of_show("A1");
    struct seat_view told = { 0 };
    assert_int_equal(
        hot_table_claim(table, &key, BERT, true, db_at(0), ERROR_US, mono_at(0), &other, &told),
        HOT_REFUSED);
    assert_int_equal(told.status, SEAT_HELD);
    assert_int_equal(told.version, 1);
    assert_int_equal(told.held_until.us, db_at(HOUR).us);
    assert_true(uuid_equal(&told.hold_id, &view.hold_id));

    assert_int_equal(claim(table, "A1", ANNA, &same), HOT_CLAIMED);
    assert_null(settle(table, "A1", &view));
    table_end(table);
}

static void
after_a_drop_the_first_who_comes_back_has_the_claim(void **state)
{
    (void)state;
    struct hot_table *table = table_usual();
    struct hot_waiter owner, first, second;
    assert_int_equal(claim(table, "A1", 1, &owner), HOT_CLAIMED);
    assert_int_equal(claim(table, "A1", 2, &first), HOT_PARKED);
    assert_int_equal(claim(table, "A1", 3, &second), HOT_PARKED);
    struct hot_waiter *back = settle(table, "A1", NULL);
    assert_ptr_equal(back, &first);
    assert_ptr_equal(back->next, &second);
    assert_int_equal(claim(table, "A1", 2, &first), HOT_CLAIMED);
    assert_int_equal(claim(table, "A1", 3, &second), HOT_PARKED);
    assert_ptr_equal(settle(table, "A1", NULL), &second);
    table_end(table);
}

static void
a_request_that_memory_may_not_refuse_is_claimed_or_parked(void **state)
{
    (void)state;
    struct hot_table *table = table_usual();
    struct seat_key key = seat_of_show("A1");
    struct seat_view view = view_of(SEAT_SOLD, 3);
    struct hot_waiter first, second;
    learn(table, "A1", view, false);
    assert_int_equal(
        hot_table_claim(table, &key, BERT, false, db_at(0), ERROR_US, mono_at(0), &first, &view),
        HOT_CLAIMED);
    assert_int_equal(
        hot_table_claim(table, &key, BERT, false, db_at(0), ERROR_US, mono_at(0), &second, &view),
        HOT_PARKED);
    assert_int_equal(claim(table, "A1", BERT, &second), HOT_REFUSED); /* it may: it is sold */
    assert_ptr_equal(settle(table, "A1", NULL), &second);
    table_end(table);
}

static void
seats_of_other_events_and_orgs_are_other_seats(void **state)
{
    (void)state;
    struct hot_table *table = table_usual();
    struct seat_view view = view_of(SEAT_SOLD, 3);
    const struct seat_key keys[] = {
        { slice_of("demo"), slice_of("show-1"), slice_of("A1") },
        { slice_of("demo"), slice_of("show-2"), slice_of("A1") },
        { slice_of("demo2"), slice_of("show-1"), slice_of("A1") },
        { slice_of("demo"), slice_of("show-1"), slice_of("A") },
        { slice_of("demo"), slice_of("show-"), slice_of("1A1") },
    };
    hot_table_learn(table, &keys[0], &view, mono_at(0), false);
    assert_true(hot_table_refuses(table, &keys[0], ANNA, db_at(0), 0, mono_at(0), &view));
    for (int i = 1; i < 5; i++) {
        assert_false(hot_table_refuses(table, &keys[i], ANNA, db_at(0), 0, mono_at(0), &view));
    }
    table_end(table);
}

static void
ids_of_every_length_are_told_as_they_came(void **state)
{
    (void)state;
    struct hot_table *table = table_usual();
    char id[ID_BYTES_MAX + 1];
    memset(id, 'x', sizeof(id));
    id[0] = '~';
    for (size_t len = 1; len <= ID_BYTES_MAX; len++) {
        struct seat_key key = { { id, len }, { id, len }, { id, len } };
        struct seat_view view = view_held(1, ANNA, db_at(SECOND));
        hot_table_learn(table, &key, &view, mono_at(0), true);
    }
    hot_table_validate(table);
    struct hot_due due[ID_BYTES_MAX];
    assert_int_equal(hot_table_tick(table, db_at(2 * SECOND), due, ID_BYTES_MAX), ID_BYTES_MAX);
    uint64_t lengths = 0;
    for (int i = 0; i < ID_BYTES_MAX; i++) {
        size_t len = strlen(due[i].seat);
        assert_int_equal(strncmp(due[i].seat, id, len), 0);
        assert_string_equal(due[i].org, due[i].seat);
        assert_string_equal(due[i].event, due[i].seat);
        lengths |= UINT64_C(1) << (len - 1);
    }
    assert_true(lengths == UINT64_MAX);
    table_end(table);
}

static void
the_order_of_seats_is_total(void **state)
{
    (void)state;
    enum { SEATS = 40 };
    struct hot_table *table = table_usual();
    char ids[SEATS][8];
    for (int i = 0; i < SEATS; i++) {
        (void)snprintf(ids[i], sizeof(ids[i]), "S%d", i);
    }
    for (int a = 0; a < SEATS; a++) {
        struct seat_key key_a = seat_of_show(ids[a]);
        for (int b = 0; b < SEATS; b++) {
            struct seat_key key_b = seat_of_show(ids[b]);
            int order = hot_table_order(table, &key_a, &key_b);
            assert_true((order == 0) == (a == b));
            assert_true((order < 0) == (hot_table_order(table, &key_b, &key_a) > 0));
            for (int c = 0; c < SEATS; c++) {
                struct seat_key key_c = seat_of_show(ids[c]);
                if (order < 0 && hot_table_order(table, &key_b, &key_c) < 0) {
                    assert_true(hot_table_order(table, &key_a, &key_c) < 0);
                }
            }
        }
    }
    table_end(table);
}

/* --- what refuses -------------------------------------------------------- */

static void
sold_and_blocked_refuse_everybody(void **state)
{
    (void)state;
    struct hot_table *table = table_usual();
    struct seat_view sold = view_of(SEAT_SOLD, 2);
    sold.user_hash = ANNA;
    learn(table, "A1", sold, false);
    learn(table, "A2", view_of(SEAT_BLOCKED, 2), false);
    assert_true(refuses(table, "A1", ANNA, 0, 0));
    assert_true(refuses(table, "A1", BERT, 0, 0));
    assert_true(refuses(table, "A2", ANNA, 0, 0));
    table_end(table);
}

static void
available_removed_and_unknown_refuse_nobody(void **state)
{
    (void)state;
    struct hot_table *table = table_usual();
    learn(table, "A1", view_of(SEAT_AVAILABLE, 2), false);
    learn(table, "A2", view_of(SEAT_REMOVED, 2), false);
    assert_false(refuses(table, "A1", ANNA, 0, 0));
    assert_false(refuses(table, "A2", ANNA, 0, 0));
    assert_false(refuses(table, "A3", ANNA, 0, 0));
    assert_int_equal(read_version(table, "A1", 0, 0), 2);
    assert_int_equal(read_version(table, "A2", 0, 0), 2);
    table_end(table);
}

static void
a_hold_near_its_end_neither_refuses_nor_is_told(void **state)
{
    (void)state;
    struct hot_table *table = table_usual();
    learn(table, "A1", view_held(1, ANNA, db_at(SECOND)), false);
    const int64_t last_us = SECOND - ERROR_US;
    assert_true(refuses(table, "A1", BERT, last_us - 1, 0));
    assert_false(refuses(table, "A1", BERT, last_us, 0));
    assert_false(refuses(table, "A1", BERT, HOUR, 0));
    assert_int_equal(read_version(table, "A1", last_us - 1, 0), 1);
    assert_int_equal(read_version(table, "A1", last_us, 0), 0);
    table_end(table);
}

static void
a_hold_in_payment_refuses_past_its_end(void **state)
{
    (void)state;
    struct hot_table *table = table_usual();
    struct seat_view view = view_held(1, ANNA, db_at(SECOND));
    view.in_payment = true;
    learn(table, "A1", view, false);
    assert_true(refuses(table, "A1", BERT, HOUR, 0));
    assert_false(refuses(table, "A1", ANNA, HOUR, 0));
    assert_int_equal(read_version(table, "A1", HOUR, 0), 1);
    table_end(table);
}

/* --- trust --------------------------------------------------------------- */

static void
among_others_an_entry_is_trusted_for_its_lease(void **state)
{
    (void)state;
    struct hot_table *table = table_usual();
    learn(table, "A1", view_of(SEAT_SOLD, 2), false);
    assert_true(refuses(table, "A1", ANNA, 0, HOUR));
    hot_table_set_trusted(table, false);
    assert_true(refuses(table, "A1", ANNA, 0, LEASE_US - 1));
    assert_false(refuses(table, "A1", ANNA, 0, LEASE_US));
    assert_int_equal(read_version(table, "A1", 0, LEASE_US - 1), 2);
    assert_int_equal(read_version(table, "A1", 0, LEASE_US), 0);
    table_end(table);
}

/* Nobody may rest on it after the node stood still, before it was looked at. */
static void
trust_lapses_by_itself(void **state)
{
    (void)state;
    struct hot_table *table = table_usual();
    learn(table, "A1", view_of(SEAT_SOLD, 2), false);
    hot_table_trust_until(table, mono_at(HOUR));
    assert_true(refuses(table, "A1", ANNA, 0, HOUR - 1));
    assert_false(refuses(table, "A1", ANNA, 0, HOUR));
    assert_int_equal(read_version(table, "A1", 0, HOUR), 0);
    hot_table_trust_until(table, mono_at(HOUR + 1));
    assert_true(refuses(table, "A1", ANNA, 0, HOUR));
    table_end(table);
}

static void
a_new_table_is_not_trusted(void **state)
{
    (void)state;
    struct hot_table_limits limits = limits_usual();
    struct hot_table *table = hot_table_new(&limits);
    assert_non_null(table);
    learn(table, "A1", view_of(SEAT_SOLD, 2), false);
    assert_true(refuses(table, "A1", ANNA, 0, 0));
    assert_false(refuses(table, "A1", ANNA, 0, LEASE_US));
    table_end(table);
}

static void
the_same_version_renews_the_lease(void **state)
{
    (void)state;
    struct hot_table *table = table_usual();
    hot_table_set_trusted(table, false);
    struct seat_key key = seat_of_show("A1");
    struct seat_view view = view_of(SEAT_SOLD, 2);
    hot_table_learn(table, &key, &view, mono_at(0), false);
    hot_table_learn(table, &key, &view, mono_at(5 * SECOND), false);
    assert_true(refuses(table, "A1", ANNA, 0, 5 * SECOND + LEASE_US - 1));
    /* An older read that comes late doesn't shorten it. */
    hot_table_learn(table, &key, &view, mono_at(SECOND), false);
    assert_true(refuses(table, "A1", ANNA, 0, 5 * SECOND + LEASE_US - 1));
    assert_false(refuses(table, "A1", ANNA, 0, 5 * SECOND + LEASE_US));
    table_end(table);
}

/* A time that is later than all that was before, in the microseconds of the clock. */
static struct mono_time
next_moment(void)
{
    struct mono_time now = mono_now(), next = now;
    while (next.us == now.us) {
        next = mono_now();
    }
    return next;
}

static void
a_distrust_voids_every_entry_until_it_is_learned_anew(void **state)
{
    (void)state;
    struct hot_table *table = table_usual();
    struct seat_key key = seat_of_show("A1");
    struct seat_view view = view_of(SEAT_SOLD, 2);
    struct mono_time before = next_moment();
    hot_table_learn(table, &key, &view, before, false);
    assert_true(refuses(table, "A1", ANNA, 0, 0));
    (void)next_moment();
    hot_table_set_trusted(table, false);
    hot_table_set_trusted(table, true); /* a peer came and died */
    assert_false(refuses(table, "A1", ANNA, 0, 0));
    assert_int_equal(read_version(table, "A1", 0, 0), 0);
    assert_int_equal(numbers_of(table).entries, 1);

    hot_table_learn(table, &key, &view, before, false); /* began before it: proves nothing */
    assert_false(refuses(table, "A1", ANNA, 0, 0));
    hot_table_learn(table, &key, &view, mono_at(0), false);
    assert_true(refuses(table, "A1", ANNA, 0, 0));
    table_end(table);
}

static void
a_distrust_leaves_claims_and_timers(void **state)
{
    (void)state;
    struct hot_table *table = table_usual();
    struct hot_waiter owner, parked;
    learn(table, "A1", view_held(1, ANNA, db_at(SECOND)), true);
    assert_int_equal(claim(table, "A2", ANNA, &owner), HOT_CLAIMED);
    hot_table_distrust(table);
    assert_int_equal(claim(table, "A2", BERT, &parked), HOT_PARKED);
    assert_ptr_equal(settle(table, "A2", NULL), &parked);
    struct hot_due due;
    assert_int_equal(hot_table_tick(table, db_at(2 * SECOND), &due, 1), 1);
    table_end(table);
}

static void
being_trusted_already_is_no_distrust(void **state)
{
    (void)state;
    struct hot_table *table = table_usual();
    struct seat_key key = seat_of_show("A1");
    struct seat_view view = view_of(SEAT_SOLD, 2);
    hot_table_learn(table, &key, &view, next_moment(), false);
    (void)next_moment(); /* a distrust of now would count */
    hot_table_set_trusted(table, true);
    assert_true(refuses(table, "A1", ANNA, 0, 0));
    table_end(table);
}

/* --- versions ------------------------------------------------------------ */

static void
an_older_version_is_ignored_wherever_it_comes_from(void **state)
{
    (void)state;
    struct hot_table *table = table_usual();
    struct hot_waiter owner, parked;
    learn(table, "A1", view_held(5, ANNA, db_at(HOUR)), false);
    learn(table, "A1", view_of(SEAT_AVAILABLE, 4), false);
    assert_int_equal(read_version(table, "A1", 0, 0), 5);

    assert_int_equal(claim(table, "A1", ANNA, &owner), HOT_CLAIMED);
    assert_int_equal(claim(table, "A1", ANNA, &parked), HOT_PARKED);
    struct seat_view old = view_of(SEAT_SOLD, 3);
    assert_ptr_equal(settle(table, "A1", &old), &parked); /* the claim ends all the same */
    assert_int_equal(numbers_of(table).claims, 0);
    assert_int_equal(read_version(table, "A1", 0, 0), 5);
    assert_false(refuses(table, "A1", ANNA, 0, 0));
    table_end(table);
}

static void
news_during_a_claim_are_learned_and_leave_the_claim(void **state)
{
    (void)state;
    struct hot_table *table = table_usual();
    struct hot_waiter owner, parked;
    assert_int_equal(claim(table, "A1", ANNA, &owner), HOT_CLAIMED);
    assert_int_equal(claim(table, "A1", BERT, &parked), HOT_PARKED);
    learn(table, "A1", view_held(9, UINT64_C(333), db_at(HOUR)), false);
    assert_int_equal(numbers_of(table).claims, 1);
    assert_true(refuses(table, "A1", BERT, 0, 0));
    hot_table_validate(table);
    struct seat_view older = view_held(8, ANNA, db_at(HOUR));
    assert_ptr_equal(settle(table, "A1", &older), &parked);
    assert_int_equal(read_version(table, "A1", 0, 0), 9);
    table_end(table);
}

static void
of_two_tales_of_one_version_the_younger_counts(void **state)
{
    (void)state;
    struct hot_table *table = table_usual();
    struct seat_key key = seat_of_show("A1");
    struct seat_view held = view_held(5, ANNA, db_at(HOUR));
    struct seat_view sold = view_of(SEAT_SOLD, 5);
    hot_table_learn(table, &key, &held, mono_at(SECOND), true);
    hot_table_learn(table, &key, &sold, mono_at(0), false);
    assert_false(refuses(table, "A1", ANNA, 0, SECOND));
    hot_table_learn(table, &key, &sold, mono_at(2 * SECOND), false);
    assert_true(refuses(table, "A1", ANNA, 0, 2 * SECOND));
    assert_int_equal(numbers_of(table).timers, 0);
    table_end(table);
}

/* --- fills --------------------------------------------------------------- */

static bool
fill(struct hot_table *table, const char *seat, struct seat_view view, uint64_t change_count)
{
    struct seat_key key = seat_of_show(seat);
    return hot_table_fill(table, &key, &view, mono_at(0), change_count);
}

static uint64_t
change_count(struct hot_table *table, const char *seat)
{
    struct seat_key key = seat_of_show(seat);
    return hot_table_change_count(table, &key);
}

static void
a_read_fills_if_nothing_changed_meanwhile(void **state)
{
    (void)state;
    struct hot_table *table = table_usual();
    uint64_t count = change_count(table, "A1");
    assert_true(fill(table, "A1", view_of(SEAT_SOLD, 4), count));
    assert_true(refuses(table, "A1", ANNA, 0, 0));
    assert_true(fill(table, "A1", view_of(SEAT_SOLD, 4), count)); /* another read of then */
    assert_false(fill(table, "A1", view_of(SEAT_AVAILABLE, 3), count));
    assert_true(refuses(table, "A1", ANNA, 0, 0));
    table_end(table);
}

static void
a_read_does_not_fill_past_a_change_of_its_shard(void **state)
{
    (void)state;
    struct hot_table_limits limits = limits_usual();
    limits.shards = 1;
    struct hot_table *table = table_with(limits);
    struct hot_waiter waiter;

    uint64_t count = change_count(table, "A1");
    learn(table, "A2", view_of(SEAT_SOLD, 4), false);
    assert_false(fill(table, "A1", view_of(SEAT_SOLD, 4), count));
    assert_int_equal(numbers_of(table).entries, 1);

    count = change_count(table, "A1");
    assert_int_equal(claim(table, "A1", ANNA, &waiter), HOT_CLAIMED);
    struct seat_view view = view_held(5, ANNA, db_at(HOUR));
    assert_null(settle(table, "A1", &view));
    assert_false(fill(table, "A1", view_of(SEAT_AVAILABLE, 4), count));

    /* A request that failed may have committed all the same. */
    count = change_count(table, "A3");
    assert_int_equal(claim(table, "A3", ANNA, &waiter), HOT_CLAIMED);
    assert_null(settle(table, "A3", NULL));
    assert_false(fill(table, "A3", view_of(SEAT_AVAILABLE, 4), count));

    count = change_count(table, "A3");
    hot_table_distrust(table);
    assert_false(fill(table, "A3", view_of(SEAT_AVAILABLE, 4), count));
    table_end(table);
}

static void
old_news_are_no_change(void **state)
{
    (void)state;
    struct hot_table *table = table_usual();
    learn(table, "A1", view_of(SEAT_SOLD, 4), false);
    uint64_t count = change_count(table, "A1");
    learn(table, "A1", view_of(SEAT_SOLD, 4), false);
    learn(table, "A1", view_of(SEAT_AVAILABLE, 3), false);
    assert_true(fill(table, "A1", view_of(SEAT_SOLD, 4), count));
    table_end(table);
}

static void
a_fill_leaves_claim_and_timer(void **state)
{
    (void)state;
    struct hot_table *table = table_usual();
    struct hot_waiter waiter;
    struct seat_view view = view_held(1, ANNA, db_at(SECOND));
    learn(table, "A1", view, true);
    assert_int_equal(claim(table, "A1", ANNA, &waiter), HOT_CLAIMED);
    assert_true(fill(table, "A1", view, change_count(table, "A1")));
    assert_int_equal(numbers_of(table).timers, 1);
    assert_int_equal(numbers_of(table).claims, 1);
    assert_null(settle(table, "A1", NULL));
    table_end(table);
}

/* --- expiry -------------------------------------------------------------- */

static void
a_hold_is_due_at_its_end_not_before(void **state)
{
    (void)state;
    struct hot_table *table = table_usual();
    struct hot_due due[4];
    assert_int_equal(hot_table_tick(table, db_at(0), due, 4), 0);
    struct seat_view view = view_held(3, ANNA, db_at(900 * SECOND));
    learn(table, "A1", view, true);
    assert_int_equal(numbers_of(table).timers, 1);
    assert_int_equal(hot_table_tick(table, db_at(900 * SECOND - 1), due, 4), 0);
    assert_int_equal(hot_table_tick(table, db_at(900 * SECOND + TICK), due, 4), 1);
    assert_string_equal(due[0].org, "demo");
    assert_string_equal(due[0].event, "show-1");
    assert_string_equal(due[0].seat, "A1");
    assert_true(uuid_equal(&due[0].hold_id, &view.hold_id));
    assert_int_equal(due[0].held_until.us, view.held_until.us);
    assert_int_equal(numbers_of(table).timers, 0);
    assert_int_equal(hot_table_tick(table, db_at(HOUR), due, 4), 0);
    table_end(table);
}

static void
only_own_holds_out_of_payment_are_armed(void **state)
{
    (void)state;
    struct hot_table *table = table_usual();
    struct seat_view paying = view_held(3, ANNA, db_at(SECOND));
    paying.in_payment = true;
    learn(table, "A1", paying, true);
    learn(table, "A2", view_of(SEAT_SOLD, 3), true);
    learn(table, "A3", view_of(SEAT_AVAILABLE, 3), true);
    learn(table, "A4", view_held(3, ANNA, db_at(SECOND)), false);
    assert_int_equal(numbers_of(table).timers, 0);
    /* The own commit after its own message of the same version. */
    learn(table, "A4", view_held(3, ANNA, db_at(SECOND)), true);
    assert_int_equal(numbers_of(table).timers, 1);
    learn(table, "A4", view_held(3, ANNA, db_at(SECOND)), false);
    assert_int_equal(numbers_of(table).timers, 1);
    table_end(table);
}

static void
a_newer_version_replaces_the_timer(void **state)
{
    (void)state;
    struct hot_table *table = table_usual();
    struct hot_due due[4];
    learn(table, "A1", view_held(1, ANNA, db_at(SECOND)), true);
    learn(table, "A1", view_held(2, ANNA, db_at(5 * SECOND)), true); /* extended */
    assert_int_equal(numbers_of(table).timers, 1);
    assert_int_equal(hot_table_tick(table, db_at(4 * SECOND), due, 4), 0);
    learn(table, "A1", view_of(SEAT_SOLD, 3), true);
    assert_int_equal(numbers_of(table).timers, 0);
    learn(table, "A2", view_held(1, ANNA, db_at(5 * SECOND)), true);
    learn(table, "A2", view_held(2, BERT, db_at(5 * SECOND)), false); /* a peer's now */
    assert_int_equal(numbers_of(table).timers, 0);
    assert_int_equal(hot_table_tick(table, db_at(HOUR), due, 4), 0);
    table_end(table);
}

static void
a_settled_hold_is_armed(void **state)
{
    (void)state;
    struct hot_table *table = table_usual();
    struct hot_waiter waiter;
    struct hot_due due[4];
    assert_int_equal(claim(table, "A1", ANNA, &waiter), HOT_CLAIMED);
    struct seat_view view = view_held(1, ANNA, db_at(SECOND));
    assert_null(settle(table, "A1", &view));
    assert_int_equal(hot_table_tick(table, db_at(SECOND + TICK), due, 4), 1);
    table_end(table);
}

static void
a_timer_fires_also_while_a_claim_is_pending(void **state)
{
    (void)state;
    struct hot_table *table = table_usual();
    struct hot_waiter waiter;
    struct hot_due due[4];
    learn(table, "A1", view_held(1, ANNA, db_at(SECOND)), true);
    assert_int_equal(claim(table, "A1", ANNA, &waiter), HOT_CLAIMED);
    assert_int_equal(hot_table_tick(table, db_at(2 * SECOND), due, 4), 1);
    hot_table_validate(table);
    struct seat_view view = view_held(2, ANNA, db_at(5 * SECOND));
    assert_null(settle(table, "A1", &view));
    assert_int_equal(numbers_of(table).timers, 1);
    table_end(table);
}

static void
a_tick_gives_no_more_than_it_may_and_the_rest_in_the_next_call(void **state)
{
    (void)state;
    enum { SEATS = 500, MAX = 7 };
    struct hot_table *table = table_usual();
    char seat[16];
    for (int i = 0; i < SEATS; i++) {
        (void)snprintf(seat, sizeof(seat), "S%d", i);
        learn(table, seat, view_held(1, ANNA, db_at(SECOND)), true);
    }
    struct hot_due due[MAX];
    bool seen[SEATS] = { false };
    int count, calls = 0, all = 0;
    do {
        count = hot_table_tick(table, db_at(2 * SECOND), due, MAX);
        for (int i = 0; i < count; i++) {
            int number = atoi(due[i].seat + 1);
            assert_false(seen[number]);
            seen[number] = true;
            all++;
        }
        calls++;
    } while (count == MAX);
    assert_int_equal(all, SEATS);
    assert_int_equal(calls, SEATS / MAX + 1);
    assert_int_equal(hot_table_tick(table, db_at(2 * SECOND), due, 0), 0);
    table_end(table);
}

static void
an_expiry_that_came_early_is_armed_again(void **state)
{
    (void)state;
    struct hot_table *table = table_usual();
    struct seat_key key = seat_of_show("A1");
    struct hot_due due[4];
    struct seat_view view = view_held(1, ANNA, db_at(SECOND));
    learn(table, "A1", view, true);
    assert_int_equal(hot_table_tick(table, db_at(SECOND + TICK), due, 4), 1);
    assert_true(hot_table_rearm(table, &key, &due[0].hold_id, db_at(3 * SECOND)));
    assert_true(hot_table_rearm(table, &key, &due[0].hold_id, db_at(4 * SECOND))); /* moves it */
    assert_int_equal(numbers_of(table).timers, 1);
    assert_int_equal(hot_table_tick(table, db_at(4 * SECOND - 1), due, 4), 0);
    assert_int_equal(hot_table_tick(table, db_at(4 * SECOND + TICK), due, 4), 1);
    assert_int_equal(due[0].held_until.us, view.held_until.us);

    /* In the same tick, for a time that has come: once more, with the next tick. */
    assert_true(hot_table_rearm(table, &key, &due[0].hold_id, db_at(SECOND)));
    assert_int_equal(hot_table_tick(table, db_at(4 * SECOND + TICK), due, 4), 0);
    assert_int_equal(hot_table_tick(table, db_at(4 * SECOND + 2 * TICK), due, 4), 1);
    table_end(table);
}

static void
a_rearm_is_nothing_if_the_entry_moved_on(void **state)
{
    (void)state;
    struct hot_table *table = table_usual();
    struct seat_key key = seat_of_show("A1"), unknown = seat_of_show("A9");
    struct uuid hold = hold_number(1), other = hold_number(2);
    assert_false(hot_table_rearm(table, &unknown, &hold, db_at(SECOND)));
    learn(table, "A1", view_held(1, ANNA, db_at(SECOND)), false);
    assert_false(hot_table_rearm(table, &key, &other, db_at(SECOND)));
    assert_int_equal(numbers_of(table).timers, 0);
    struct seat_view paying = view_held(2, ANNA, db_at(SECOND));
    paying.in_payment = true;
    learn(table, "A1", paying, false);
    assert_false(hot_table_rearm(table, &key, &other, db_at(SECOND)));
    assert_int_equal(numbers_of(table).timers, 0);
    struct seat_view sold = view_of(SEAT_SOLD, 3);
    sold.hold_id = other;
    learn(table, "A1", sold, false);
    assert_false(hot_table_rearm(table, &key, &other, db_at(SECOND)));
    assert_int_equal(numbers_of(table).timers, 0);
    table_end(table);
}

static void
far_holds_and_jumping_clocks_expire_in_time(void **state)
{
    (void)state;
    struct hot_table *table = table_usual();
    struct hot_due due[4];
    learn(table, "A1", view_held(1, ANNA, db_at(40 * DAY)), true);
    learn(table, "A2", view_held(1, ANNA, db_at(10 * SECOND)), true);
    assert_int_equal(hot_table_tick(table, db_at(9 * SECOND), due, 4), 0);
    assert_int_equal(hot_table_tick(table, db_at(-HOUR), due, 4), 0);
    assert_int_equal(hot_table_tick(table, db_at(10 * SECOND - 1), due, 4), 0);
    assert_int_equal(hot_table_tick(table, db_at(10 * SECOND + TICK), due, 4), 1);
    assert_int_equal(hot_table_tick(table, db_at(40 * DAY - 1), due, 4), 0);
    assert_int_equal(hot_table_tick(table, db_at(40 * DAY + TICK), due, 4), 1);
    assert_string_equal(due[0].seat, "A1");
    table_end(table);
}

/* --- bounds -------------------------------------------------------------- */

static struct hot_table *
table_small(uint32_t shards, int64_t seats_max)
{
    struct hot_table_limits limits = limits_usual();
    limits.shards = shards;
    limits.seats_max = seats_max;
    return table_with(limits);
}

/* Moves the clock so that tombstones age: in steps, for a jump counts for a second only. */
static void
tick_seconds(struct hot_table *table, int64_t from_us, int seconds)
{
    struct hot_due due[4];
    for (int i = 0; i <= seconds; i++) {
        assert_int_equal(hot_table_tick(table, db_at(from_us + i * SECOND), due, 4), 0);
    }
}

static void
a_full_table_of_claims_and_own_timers_is_full(void **state)
{
    (void)state;
    struct hot_table *table = table_small(4, 4);
    struct hot_waiter waiters[4];
    assert_int_equal(claim(table, "A1", ANNA, &waiters[0]), HOT_CLAIMED);
    assert_int_equal(claim(table, "A2", ANNA, &waiters[1]), HOT_CLAIMED);
    learn(table, "A3", view_held(1, ANNA, db_at(HOUR)), true);
    learn(table, "A4", view_held(1, ANNA, db_at(HOUR)), true);
    assert_int_equal(claim(table, "A5", ANNA, &waiters[2]), HOT_FULL);
    learn(table, "A6", view_of(SEAT_SOLD, 1), false); /* no room, no harm */
    assert_false(refuses(table, "A6", ANNA, 0, 0));
    assert_false(fill(table, "A6", view_of(SEAT_SOLD, 1), change_count(table, "A6")));
    assert_int_equal(numbers_of(table).entries, 4);
    assert_int_equal(claim(table, "A1", ANNA, &waiters[3]), HOT_PARKED); /* known seats go on */
    assert_ptr_equal(settle(table, "A1", NULL), &waiters[3]);
    assert_int_equal(claim(table, "A5", ANNA, &waiters[2]), HOT_CLAIMED);
    assert_null(settle(table, "A2", NULL));
    assert_null(settle(table, "A5", NULL));
    table_end(table);
}

static void
freed_seats_stay_their_time_and_then_go_first(void **state)
{
    (void)state;
    struct hot_table *table = table_small(1, 3);
    tick_seconds(table, 0, 1);
    learn(table, "A1", view_of(SEAT_AVAILABLE, 5), false);
    learn(table, "A2", view_of(SEAT_REMOVED, 5), false);
    tick_seconds(table, SECOND, 5);
    learn(table, "A3", view_of(SEAT_AVAILABLE, 5), false);
    learn(table, "A4", view_of(SEAT_SOLD, 5), false); /* no room: all are too young */
    assert_int_equal(read_version(table, "A4", 0, 0), 0);
    tick_seconds(table, 6 * SECOND, 5);
    learn(table, "A4", view_of(SEAT_SOLD, 5), false); /* the oldest goes */
    assert_int_equal(read_version(table, "A1", 0, 0), 0);
    assert_int_equal(read_version(table, "A4", 0, 0), 5);
    learn(table, "A5", view_of(SEAT_SOLD, 5), false); /* a freed one before one in use */
    assert_int_equal(read_version(table, "A2", 0, 0), 0);
    learn(table, "A6", view_of(SEAT_SOLD, 5), false); /* A3 is too young: a sold one goes */
    assert_int_equal(read_version(table, "A3", 0, 0), 5);
    assert_int_equal(read_version(table, "A6", 0, 0), 5);
    assert_int_equal(numbers_of(table).entries, 3);
    table_end(table);
}

static void
a_jump_of_the_clock_does_not_age_freed_seats(void **state)
{
    (void)state;
    struct hot_table *table = table_small(1, 1);
    struct hot_due due[1];
    learn(table, "A1", view_of(SEAT_AVAILABLE, 5), false);
    assert_int_equal(hot_table_tick(table, db_at(0), due, 1), 0);
    assert_int_equal(hot_table_tick(table, db_at(DAY), due, 1), 0);
    assert_int_equal(hot_table_tick(table, db_at(0), due, 1), 0);
    assert_int_equal(hot_table_tick(table, db_at(DAY), due, 1), 0);
    learn(table, "A2", view_of(SEAT_SOLD, 5), false);
    assert_int_equal(read_version(table, "A1", 0, 0), 5);
    tick_seconds(table, DAY, 8);
    learn(table, "A2", view_of(SEAT_SOLD, 5), false);
    assert_int_equal(read_version(table, "A2", 0, 0), 5);
    table_end(table);
}

static void
peers_entries_go_farthest_from_use(void **state)
{
    (void)state;
    struct hot_table *table = table_small(1, 3);
    learn(table, "A1", view_held(1, ANNA, db_at(HOUR)), false);
    learn(table, "A2", view_of(SEAT_SOLD, 1), false);
    learn(table, "A3", view_of(SEAT_BLOCKED, 1), false);
    assert_true(refuses(table, "A1", BERT, 0, 0)); /* A1 is in use */
    learn(table, "A4", view_of(SEAT_SOLD, 1), false);
    assert_true(refuses(table, "A1", BERT, 0, 0));
    assert_false(refuses(table, "A2", BERT, 0, 0));
    assert_true(refuses(table, "A3", BERT, 0, 0));
    assert_true(refuses(table, "A4", BERT, 0, 0));
    table_end(table);
}

static void
eviction_passes_over_only_so_many_in_use(void **state)
{
    (void)state;
    enum { SEATS = 100 };
    struct hot_table *table = table_small(1, SEATS);
    char seat[16];
    for (int i = 0; i < SEATS; i++) {
        (void)snprintf(seat, sizeof(seat), "S%d", i);
        learn(table, seat, view_of(SEAT_SOLD, 1), false);
        assert_true(refuses(table, seat, ANNA, 0, 0));
    }
    for (int i = 0; i < SEATS; i++) {
        (void)snprintf(seat, sizeof(seat), "T%d", i);
        learn(table, seat, view_of(SEAT_SOLD, 1), false);
        assert_true(refuses(table, seat, ANNA, 0, 0));
        assert_int_equal(numbers_of(table).entries, SEATS);
    }
    table_end(table);
}

static void
a_full_shard_takes_room_from_another(void **state)
{
    (void)state;
    struct hot_table *table = table_small(4, 1);
    char seat[16];
    for (int i = 0; i < 50; i++) {
        (void)snprintf(seat, sizeof(seat), "S%d", i);
        learn(table, seat, view_of(SEAT_SOLD, 1), false);
        assert_true(refuses(table, seat, ANNA, 0, 0));
        assert_int_equal(numbers_of(table).entries, 1);
    }
    table_end(table);
}

static void
a_claimed_entry_is_not_evicted(void **state)
{
    (void)state;
    struct hot_table *table = table_small(1, 2);
    struct hot_waiter waiter;
    learn(table, "A1", view_held(4, ANNA, db_at(HOUR)), false);
    assert_int_equal(claim(table, "A1", ANNA, &waiter), HOT_CLAIMED);
    for (int i = 0; i < 10; i++) {
        char seat[16];
        (void)snprintf(seat, sizeof(seat), "S%d", i);
        learn(table, seat, view_of(SEAT_SOLD, 1), false);
    }
    assert_null(settle(table, "A1", NULL));
    assert_int_equal(read_version(table, "A1", 0, 0), 4);
    table_end(table);
}

static void
whose_time_is_up_is_given_back_wherever_it_stands(void **state)
{
    (void)state;
    struct hot_table *table = table_usual();
    struct hot_waiter owners[2], late[2], patient, timeless, *back;
    late[0].until.us = late[1].until.us = 10;
    patient.until.us = 20;
    timeless.until.us = INT64_MAX;
    assert_int_equal(claim(table, "A1", ANNA, &owners[0]), HOT_CLAIMED);
    assert_int_equal(claim(table, "A2", ANNA, &owners[1]), HOT_CLAIMED);
    assert_int_equal(claim(table, "A1", BERT, &late[0]), HOT_PARKED);
    assert_int_equal(claim(table, "A1", BERT, &patient), HOT_PARKED);
    assert_int_equal(claim(table, "A1", BERT, &timeless), HOT_PARKED);
    assert_int_equal(claim(table, "A2", BERT, &late[1]), HOT_PARKED);
    hot_table_take_late(table, (struct mono_time){ 9 }, &back);
    assert_null(back);
    hot_table_take_late(table, (struct mono_time){ 10 }, &back);
    assert_true(back == &late[0] || back == &late[1]);
    assert_ptr_equal(back->next, back == &late[0] ? &late[1] : &late[0]);
    assert_null(back->next->next);
    assert_int_equal(numbers_of(table).parked, 2);
    hot_table_validate(table);
    assert_null(settle(table, "A2", NULL)); /* the claims themselves stand */
    struct hot_waiter *waiter = settle(table, "A1", NULL);
    assert_ptr_equal(waiter, &patient);
    assert_ptr_equal(waiter->next, &timeless);
    assert_null(timeless.next);
    assert_int_equal(numbers_of(table).parked, 0);
    table_end(table);
}

/* More than are looked at in one go, over two seats; some are late, first, last and between. */
static void
the_late_ones_of_a_crowd_leave_and_the_others_keep_their_order(void **state)
{
    (void)state;
    enum { CROWD = 1000 };
    static struct hot_waiter crowds[2][CROWD];
    struct hot_waiter owners[2], *back;
    static const char *const seats[2] = { "A1", "A2" };
    struct hot_table_limits limits = limits_usual();
    limits.shards = 1;
    limits.parked_max = 2 * CROWD;
    struct hot_table *table = table_with(limits);
    for (int s = 0; s < 2; s++) {
        assert_int_equal(claim(table, seats[s], ANNA, &owners[s]), HOT_CLAIMED);
        for (int i = 0; i < CROWD; i++) {
            crowds[s][i].until.us = i % 3 == 0 ? 10 : i == 500 ? 15 : 20;
            assert_int_equal(claim(table, seats[s], BERT, &crowds[s][i]), HOT_PARKED);
        }
    }
    int late = 0;
    hot_table_take_late(table, (struct mono_time){ 10 }, &back);
    for (; back != NULL; back = back->next, late++)
        assert_int_equal(back->until.us, 10);
    assert_int_equal(late, 2 * 334);
    hot_table_take_late(table, (struct mono_time){ 14 }, &back);
    assert_null(back);
    hot_table_take_late(table, (struct mono_time){ 15 }, &back); /* the next time was kept */
    assert_true(back == &crowds[0][500] || back == &crowds[1][500]);
    assert_non_null(back->next);
    assert_null(back->next->next);
    for (int s = 0; s < 2; s++) {
        struct hot_waiter *waiter = settle(table, seats[s], NULL);
        for (int i = 0; i < CROWD; i++) {
            if (i % 3 == 0 || i == 500)
                continue;
            assert_ptr_equal(waiter, &crowds[s][i]);
            waiter = waiter->next;
        }
        assert_null(waiter);
    }
    assert_int_equal(numbers_of(table).parked, 0);
    table_end(table);
}

static void
no_more_are_parked_than_may_be(void **state)
{
    (void)state;
    struct hot_table_limits limits = limits_usual();
    limits.parked_max = 2;
    struct hot_table *table = table_with(limits);
    struct hot_waiter owners[2], parked[4];
    assert_int_equal(claim(table, "A1", ANNA, &owners[0]), HOT_CLAIMED);
    assert_int_equal(claim(table, "A2", ANNA, &owners[1]), HOT_CLAIMED);
    assert_int_equal(claim(table, "A1", BERT, &parked[0]), HOT_PARKED);
    assert_int_equal(claim(table, "A2", BERT, &parked[1]), HOT_PARKED);
    assert_int_equal(claim(table, "A1", BERT, &parked[2]), HOT_FULL);
    assert_int_equal(numbers_of(table).parked, 2);
    assert_ptr_equal(settle(table, "A1", NULL), &parked[0]);
    assert_int_equal(claim(table, "A2", BERT, &parked[2]), HOT_PARKED);
    assert_ptr_equal(settle(table, "A2", NULL), &parked[1]);
    assert_ptr_equal(parked[1].next, &parked[2]);
    table_end(table);
}

/* --- numbers ------------------------------------------------------------- */

static void
held_seats_of_an_event_are_counted(void **state)
{
    (void)state;
    struct hot_table *table = table_usual();
    struct seat_view view = view_held(1, ANNA, db_at(SECOND));
    struct seat_view paying = view;
    paying.in_payment = true;
    learn(table, "A1", view, true);
    learn(table, "A2", view, false);
    learn(table, "A3", paying, false);
    learn(table, "A4", view_of(SEAT_SOLD, 1), false);
    struct seat_key elsewhere = { slice_of("demo"), slice_of("show-2"), slice_of("A1") };
    hot_table_learn(table, &elsewhere, &view, mono_at(0), true);
    struct slice demo = slice_of("demo"), show = slice_of("show-1");
    assert_int_equal(hot_table_count_held(table, demo, show, db_at(0)), 3);
    assert_int_equal(hot_table_count_held(table, demo, show, db_at(SECOND)), 1);
    assert_int_equal(hot_table_count_held(table, demo, slice_of("show-2"), db_at(0)), 1);
    assert_int_equal(hot_table_count_held(table, demo, slice_of("show-3"), db_at(0)), 0);
    table_end(table);
}

static void
words_of_a_status_are_read_back(void **state)
{
    (void)state;
    for (int i = SEAT_AVAILABLE; i <= SEAT_REMOVED; i++) {
        enum seat_status status;
        assert_true(seat_status_parse(slice_of(seat_status_word((enum seat_status)i)), &status));
        assert_int_equal(status, i);
    }
    enum seat_status status;
    assert_string_equal(seat_status_word(SEAT_HELD), "held");
    assert_false(seat_status_parse(slice_of("Held"), &status));
    assert_false(seat_status_parse(SLICE_EMPTY, &status));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_claim_on_an_unknown_seat_is_pending),
        cmocka_unit_test(a_dropped_claim_on_an_unknown_seat_leaves_nothing),
        cmocka_unit_test(a_dropped_claim_keeps_what_was_known),
        cmocka_unit_test(requests_that_meet_a_claim_come_back_first_come_first),
        cmocka_unit_test(after_a_settle_others_are_refused_and_the_same_user_claims),
        cmocka_unit_test(after_a_drop_the_first_who_comes_back_has_the_claim),
        cmocka_unit_test(a_request_that_memory_may_not_refuse_is_claimed_or_parked),
        cmocka_unit_test(seats_of_other_events_and_orgs_are_other_seats),
        cmocka_unit_test(ids_of_every_length_are_told_as_they_came),
        cmocka_unit_test(the_order_of_seats_is_total),
        cmocka_unit_test(sold_and_blocked_refuse_everybody),
        cmocka_unit_test(available_removed_and_unknown_refuse_nobody),
        cmocka_unit_test(a_hold_near_its_end_neither_refuses_nor_is_told),
        cmocka_unit_test(a_hold_in_payment_refuses_past_its_end),
        cmocka_unit_test(among_others_an_entry_is_trusted_for_its_lease),
        cmocka_unit_test(trust_lapses_by_itself),
        cmocka_unit_test(a_new_table_is_not_trusted),
        cmocka_unit_test(the_same_version_renews_the_lease),
        cmocka_unit_test(a_distrust_voids_every_entry_until_it_is_learned_anew),
        cmocka_unit_test(a_distrust_leaves_claims_and_timers),
        cmocka_unit_test(being_trusted_already_is_no_distrust),
        cmocka_unit_test(an_older_version_is_ignored_wherever_it_comes_from),
        cmocka_unit_test(news_during_a_claim_are_learned_and_leave_the_claim),
        cmocka_unit_test(of_two_tales_of_one_version_the_younger_counts),
        cmocka_unit_test(a_read_fills_if_nothing_changed_meanwhile),
        cmocka_unit_test(a_read_does_not_fill_past_a_change_of_its_shard),
        cmocka_unit_test(old_news_are_no_change),
        cmocka_unit_test(a_fill_leaves_claim_and_timer),
        cmocka_unit_test(a_hold_is_due_at_its_end_not_before),
        cmocka_unit_test(only_own_holds_out_of_payment_are_armed),
        cmocka_unit_test(a_newer_version_replaces_the_timer),
        cmocka_unit_test(a_settled_hold_is_armed),
        cmocka_unit_test(a_timer_fires_also_while_a_claim_is_pending),
        cmocka_unit_test(a_tick_gives_no_more_than_it_may_and_the_rest_in_the_next_call),
        cmocka_unit_test(an_expiry_that_came_early_is_armed_again),
        cmocka_unit_test(a_rearm_is_nothing_if_the_entry_moved_on),
        cmocka_unit_test(far_holds_and_jumping_clocks_expire_in_time),
        cmocka_unit_test(a_full_table_of_claims_and_own_timers_is_full),
        cmocka_unit_test(freed_seats_stay_their_time_and_then_go_first),
        cmocka_unit_test(a_jump_of_the_clock_does_not_age_freed_seats),
        cmocka_unit_test(peers_entries_go_farthest_from_use),
        cmocka_unit_test(eviction_passes_over_only_so_many_in_use),
        cmocka_unit_test(a_full_shard_takes_room_from_another),
        cmocka_unit_test(a_claimed_entry_is_not_evicted),
        cmocka_unit_test(whose_time_is_up_is_given_back_wherever_it_stands),
        cmocka_unit_test(the_late_ones_of_a_crowd_leave_and_the_others_keep_their_order),
        cmocka_unit_test(no_more_are_parked_than_may_be),
        cmocka_unit_test(held_seats_of_an_event_are_counted),
        cmocka_unit_test(words_of_a_status_are_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
