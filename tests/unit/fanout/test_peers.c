/*
 * Trust, clause by clause of fanout.h, with a clock that the test moves. This node is n1,
 * incarnation 1; the usual peer is n2, incarnation 2.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fanout_internal.h"

#define MS      TIME_US_PER_MS
#define SILENCE FANOUT_SILENCE_US

static struct peers peers;
static struct mono_time now;
static struct peers_verdict verdict;
static bool in_doubt;
static uint64_t serials[100]; /* of each incarnation */
static struct fanout_table table;

/* --- what happens ------------------------------------------------------------ */

static void
later(int64_t us)
{
    now.us += us;
}

static bool
trusted(void)
{
    peers_judge(&peers, in_doubt, now, &verdict);
    return verdict.trusted;
}

/* Trusted all along, and memory stays as it is. */
static bool
undisturbed(void)
{
    return trusted() && !verdict.changed && !verdict.missed;
}

/* Trusted all along, but what memory knows was made void. */
static bool
distrusted_once(void)
{
    return trusted() && !verdict.changed && verdict.missed && undisturbed();
}

/* Reads the table as it stands. */
static void
read_table(void)
{
    table.began = now;
    peers_know_table(&peers, &table);
}

static void
enter(const char *id, int64_t incarnation)
{
    struct fanout_node *node = &table.others[table.count++];
    snprintf(node->id, sizeof(node->id), "%s", id);
    node->incarnation = incarnation;
    table.newest = incarnation > table.newest ? incarnation : table.newest;
}

static void
leave(int64_t incarnation)
{
    int kept = 0;
    for (int i = 0; i < table.count; i++)
        if (table.others[i].incarnation != incarnation)
            table.others[kept++] = table.others[i];
    table.count = kept;
}

/* A frame, sent `age_us` ago, with records first..last; first 0: a heartbeat. */
static struct frame
frame_of(const char *id, int64_t incarnation, uint64_t last)
{
    struct frame frame = { .incarnation = incarnation,
                           .serial = ++serials[incarnation],
                           .last = last,
                           .records = SLICE_EMPTY };
    snprintf(frame.node, sizeof(frame.node), "%s", id);
    return frame;
}

static enum peers_hearing
hear(struct frame frame, int64_t age_us)
{
    struct mono_time sent_at = { age_us < 0 ? NEVER_US : now.us - age_us };
    return peers_hear(&peers, &frame, sent_at, now);
}

static void
beat(const char *id, int64_t incarnation, uint64_t last)
{
    (void)hear(frame_of(id, incarnation, last), 0);
}

static void
hear_records(int64_t incarnation, uint64_t first, uint64_t last)
{
    static struct buf bytes;
    struct frame frame = frame_of("n2", incarnation, last);
    buf_clear(&bytes);
    for (uint64_t number = first; number <= last; number++)
        frame_add(&bytes, number, SLICE_LITERAL("x"));
    frame.records = buf_slice(&bytes);
    (void)hear(frame, 0);
}

static void
farewell(const char *id, int64_t incarnation, uint64_t last)
{
    struct frame frame = frame_of(id, incarnation, last);
    frame.farewell = true;
    (void)hear(frame, 0);
}

/* --- where cases begin --------------------------------------------------------- */

static int
alone(void **state)
{
    (void)state;
    now.us = 1000 * (int64_t)TIME_US_PER_S;
    in_doubt = false;
    memset(serials, 0, sizeof(serials));
    table = (struct fanout_table){ .incarnation = 1, .mine = true, .newest = 1 };
    peers_init(&peers, "n1", 1);
    read_table();
    assert_true(trusted() && verdict.changed);
    return 0;
}

/* n2 has been here for long, and is at record 5. */
static int
two(void **state)
{
    (void)alone(state);
    enter("n2", 2);
    read_table();
    assert_false(trusted());
    peers_joined(&peers);
    beat("n1", 1, 0);
    beat("n2", 2, 5);
    assert_true(trusted() && verdict.changed);
    assert_true(undisturbed());
    return 0;
}

/* --- how long it lasts if nobody looks any more ----------------------------------- */

static void
trust_in_the_table_ends_with_its_age(void **state)
{
    (void)state;
    assert_true(trusted());
    assert_int_equal(verdict.until.us, table.began.us + TABLE_AGE_US);
}

static void
trust_in_peers_ends_with_their_silence(void **state)
{
    (void)state;
    int64_t heard_us = now.us;
    later(100 * MS);
    beat("n2", 2, 5);
    assert_true(trusted());
    assert_int_equal(verdict.until.us, heard_us + SILENCE); /* our own was heard then */
    beat("n1", 1, 0);
    assert_true(trusted());
    assert_int_equal(verdict.until.us, now.us + SILENCE);
}

/* Everybody says something, the table is read: nothing but time passes. */
static void
a_while(void)
{
    later(200 * MS);
    read_table();
    beat("n1", 1, 0);
    beat("n2", 2, 5);
}

/* --- alone ------------------------------------------------------------------------ */

static void
who_is_alone_needs_to_hear_nobody(void **state)
{
    (void)state;
    peers_deaf(&peers);
    assert_true(undisturbed());
    later(TABLE_AGE_US);
    assert_true(undisturbed());
}

static void
before_the_table_was_read_nobody_is_trusted(void **state)
{
    (void)state;
    peers_init(&peers, "n1", 1);
    assert_false(trusted());
}

static void
a_table_that_is_too_old_is_none(void **state)
{
    (void)state;
    later(TABLE_AGE_US + 1);
    assert_false(trusted());
    read_table();
    assert_true(trusted() && verdict.changed);
}

static void
a_table_that_cant_be_read_is_none(void **state)
{
    (void)state;
    peers_table_is_unreadable(&peers);
    assert_false(trusted());
    read_table();
    assert_true(trusted());
}

static void
who_is_not_in_the_table_itself_is_not_trusted(void **state)
{
    (void)state;
    table.mine = false;
    read_table();
    assert_false(trusted());
    table.mine = true;
    read_table();
    assert_true(trusted());
}

static void
who_is_in_doubt_is_not_trusted(void **state)
{
    (void)state;
    in_doubt = true;
    assert_false(trusted());
    in_doubt = false;
    assert_true(trusted() && verdict.changed);
}

static void
more_nodes_than_can_be_followed_are_not_trusted(void **state)
{
    (void)state;
    table.too_many = true;
    read_table();
    assert_false(trusted());
}

/* --- heard ------------------------------------------------------------------------- */

static void
a_peer_that_speaks_is_trusted_for_as_long_as_it_does(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        a_while();
        assert_true(undisturbed());
    }
}

static void
a_peer_that_is_silent_ends_it(void **state)
{
    (void)state;
    later(SILENCE - 1);
    beat("n1", 1, 0);
    assert_true(undisturbed());
    later(1);
    assert_false(trusted());
    assert_int_equal(verdict.lost_count, 1);
    assert_int_equal(verdict.lost[0], 2);
    assert_false(trusted());
    assert_int_equal(verdict.lost_count, 0); /* told once */
    beat("n2", 2, 5);
    assert_true(trusted() && verdict.changed);
}

static void
a_peer_of_the_table_that_was_never_heard_ends_it(void **state)
{
    (void)state;
    enter("n3", 3);
    read_table();
    assert_false(trusted());
    beat("n3", 3, 0);
    assert_true(trusted());
}

static void
own_heartbeats_must_come_back(void **state)
{
    (void)state;
    later(SILENCE);
    beat("n2", 2, 5);
    assert_false(trusted());
    beat("n1", 1, 0);
    assert_true(trusted());
}

static void
a_peer_in_doubt_ends_it(void **state)
{
    (void)state;
    struct frame frame = frame_of("n2", 2, 5);
    frame.in_doubt = true;
    (void)hear(frame, 0);
    assert_false(trusted());
    beat("n2", 2, 5);
    assert_true(trusted() && verdict.changed);
}

static void
a_late_frame_proves_nothing_about_now(void **state)
{
    (void)state;
    later(300 * MS);
    beat("n1", 1, 0);
    (void)hear(frame_of("n2", 2, 5), 500 * MS); /* older than the one before */
    assert_true(undisturbed());
    later(SILENCE - 300 * MS);
    (void)hear(frame_of("n2", 2, 5), SILENCE);
    assert_false(trusted());
    assert_int_equal(verdict.lost_count, 0); /* it speaks: its records go on being counted */
    beat("n2", 2, 5);
    assert_true(trusted());
}

static void
a_frame_of_unknown_age_proves_nothing_about_now(void **state)
{
    (void)state;
    later(SILENCE);
    beat("n1", 1, 0);
    (void)hear(frame_of("n2", 2, 5), -1);
    assert_false(trusted());
    assert_int_equal(verdict.lost_count, 0);
    assert_int_equal(peers.peer[0].lag_us, -1);
}

/* --- the subscription ---------------------------------------------------------------- */

static void
without_a_subscription_nobody_is_heard(void **state)
{
    (void)state;
    peers_deaf(&peers);
    assert_false(trusted());
    assert_int_equal(verdict.lost_count, 0); /* it may be back in a moment */
    later(SILENCE);
    assert_false(trusted());
    assert_int_equal(verdict.lost_count, 1);
}

static void
over_a_new_subscription_all_must_be_heard_anew(void **state)
{
    (void)state;
    peers_joined(&peers);
    assert_false(trusted());
    beat("n2", 2, 5);
    assert_false(trusted());
    beat("n1", 1, 0);
    assert_true(trusted() && verdict.changed);
    assert_int_equal(peers.peer[0].gaps, 0);
}

/* --- records ----------------------------------------------------------------------------- */

static void
records_in_order_disturb_nobody(void **state)
{
    (void)state;
    hear_records(2, 6, 8);
    assert_true(undisturbed());
    hear_records(2, 9, 9);
    beat("n2", 2, 9);
    assert_true(undisturbed());
    assert_int_equal(peers.peer[0].number, 9);
}

static void
a_gap_before_a_record_is_a_distrust(void **state)
{
    (void)state;
    hear_records(2, 7, 8);
    assert_true(distrusted_once());
    assert_int_equal(peers.peer[0].gaps, 1);
    hear_records(2, 9, 9);
    assert_true(undisturbed());
}

static void
a_gap_within_a_frame_is_a_distrust(void **state)
{
    (void)state;
    struct buf bytes = { 0 };
    struct frame frame = frame_of("n2", 2, 8);
    frame_add(&bytes, 6, SLICE_LITERAL("x"));
    frame_add(&bytes, 8, SLICE_LITERAL("x"));
    frame.records = buf_slice(&bytes);
    (void)hear(frame, 0);
    assert_true(distrusted_once());
    buf_fini(&bytes);
}

static void
a_heartbeat_tells_of_a_record_that_never_came(void **state)
{
    (void)state;
    beat("n2", 2, 6);
    assert_true(distrusted_once());
    beat("n2", 2, 6);
    assert_true(undisturbed());
}

static void
a_record_that_cant_be_read_is_a_distrust(void **state)
{
    (void)state;
    hear_records(2, 6, 6);
    peers_garbled(&peers, 2);
    assert_true(distrusted_once());
}

static void
duplicates_and_frames_out_of_order_disturb_nobody(void **state)
{
    (void)state;
    struct frame late = frame_of("n2", 2, 5); /* sent before the next one */
    late.in_doubt = true;
    hear_records(2, 6, 7);
    struct frame again = frame_of("n2", 2, 7);
    again.serial--; /* the same once more */
    assert_int_equal(hear(again, 0), PEERS_OLD);
    assert_int_equal(hear(late, 100 * MS), PEERS_OLD);
    assert_true(undisturbed());
    assert_int_equal(peers.peer[0].number, 7);
}

static void
a_gap_while_not_trusted_costs_nothing_more(void **state)
{
    (void)state;
    peers_joined(&peers);
    assert_false(trusted());
    hear_records(2, 9, 9);
    assert_false(trusted());
    beat("n1", 1, 0);
    assert_true(trusted() && verdict.changed && !verdict.missed); /* that is a distrust anyway */
    assert_true(undisturbed());
}

/* --- who comes ------------------------------------------------------------------------------ */

static void
a_newcomer_that_is_heard_from_its_first_record_on_disturbs_nobody(void **state)
{
    (void)state;
    beat("n3", 3, 0);
    assert_true(undisturbed());
    hear_records(2, 6, 6);
    enter("n3", 3);
    read_table();
    assert_true(undisturbed());
}

static void
a_newcomer_may_begin_with_a_record(void **state)
{
    (void)state;
    struct buf bytes = { 0 };
    struct frame frame = frame_of("n3", 3, 2);
    frame_add(&bytes, 1, SLICE_LITERAL("x"));
    frame_add(&bytes, 2, SLICE_LITERAL("x"));
    frame.records = buf_slice(&bytes);
    (void)hear(frame, 0);
    assert_true(undisturbed());
    enter("n3", 3);
    read_table();
    assert_true(undisturbed());
    buf_fini(&bytes);
}

static void
a_newcomer_whose_beginning_was_missed_is_a_distrust(void **state)
{
    (void)state;
    beat("n3", 3, 1);
    assert_true(distrusted_once());
    enter("n3", 3);
    read_table();
    assert_true(distrusted_once()); /* its incarnation isn't accounted for */
}

static void
a_newcomer_has_to_be_heard_before_the_table_has_it(void **state)
{
    (void)state;
    beat("n3", 3, 0);
    assert_true(undisturbed());
    struct frame frame = frame_of("n3", 3, 0);
    frame.in_doubt = true;
    (void)hear(frame, 0);
    assert_false(trusted());
}

static void
a_newcomer_that_is_gone_before_the_table_had_it_is_a_distrust(void **state)
{
    (void)state;
    beat("n3", 3, 0);
    for (int i = 0; i < 4; i++) {
        assert_true(undisturbed());
        a_while();
    }
    assert_true(distrusted_once());
    assert_int_equal(peers.count, 1);
}

static void
somebody_who_was_here_for_a_moment_is_a_distrust(void **state)
{
    (void)state;
    table.newest = 3; /* an import from the shell draws one, too */
    read_table();
    assert_true(distrusted_once());
    read_table();
    assert_true(undisturbed());
}

static void
each_incarnation_that_was_drawn_must_be_accounted_for(void **state)
{
    (void)state;
    beat("n4", 4, 0);
    enter("n4", 4); /* and what was 3? */
    read_table();
    assert_true(distrusted_once());
}

static void
a_sequence_that_went_back_is_a_distrust(void **state)
{
    (void)state;
    table.newest = 1; /* another database */
    read_table();
    assert_true(distrusted_once());
}

static void
ones_own_new_incarnation_is_accounted_for(void **state)
{
    (void)state;
    table.newest = table.incarnation = 3;
    read_table();
    assert_false(trusted()); /* its own heartbeats under it must be heard */
    beat("n1", 3, 0);
    assert_true(trusted());
    beat("n1", 1, 9); /* an echo of the one before: nobody's news */
    assert_true(undisturbed());
    assert_int_equal(peers.count, 1);
}

/* --- who goes -------------------------------------------------------------------------------- */

static void
a_farewell_disturbs_nobody(void **state)
{
    (void)state;
    farewell("n2", 2, 5);
    assert_true(undisturbed());
    later(SILENCE);
    assert_true(undisturbed()); /* though the table has it still */
    assert_int_equal(verdict.lost_count, 0);
    leave(2);
    read_table();
    assert_true(undisturbed());
    assert_int_equal(peers.count, 0);
}

static void
a_row_that_goes_before_the_farewell_disturbs_nobody(void **state)
{
    (void)state;
    leave(2);
    read_table();
    assert_true(undisturbed());
    hear_records(2, 6, 6); /* what was in flight */
    farewell("n2", 2, 6);
    assert_true(undisturbed());
    later(SILENCE);
    assert_true(undisturbed());
}

static void
a_farewell_that_tells_of_a_gap_is_a_distrust(void **state)
{
    (void)state;
    farewell("n2", 2, 6);
    assert_true(distrusted_once());
}

static void
a_row_that_goes_without_a_farewell_is_a_distrust(void **state)
{
    (void)state;
    leave(2);
    read_table();
    assert_true(undisturbed());
    later(SILENCE);
    assert_true(distrusted_once());
    assert_int_equal(peers.count, 0);
}

static void
a_killed_peer_is_waited_for_until_its_row_is_gone(void **state)
{
    (void)state;
    for (int i = 0; i < 48; i++) { /* 9.6 s */
        later(200 * MS);
        read_table();
        beat("n1", 1, 0);
        assert_int_equal(trusted(), i < 3);
    }
    leave(2);
    read_table();
    assert_true(trusted() && verdict.changed);
}

static void
a_newer_life_of_a_name_ends_the_older_one(void **state)
{
    (void)state;
    beat("n2", 3, 0);
    peers_judge(&peers, false, now, &verdict);
    assert_true(verdict.trusted && verdict.missed); /* what it did last was perhaps never told */
    assert_int_equal(verdict.lost_count, 1);
    assert_int_equal(verdict.lost[0], 2);
    leave(2);
    enter("n2", 3);
    read_table();
    assert_true(undisturbed());
}

static void
a_newer_life_after_a_farewell_disturbs_nobody(void **state)
{
    (void)state;
    farewell("n2", 2, 5);
    beat("n2", 3, 0);
    assert_true(undisturbed());
    leave(2);
    enter("n2", 3);
    read_table();
    assert_true(undisturbed());
}

static void
one_that_stood_still_and_wakes_up_is_a_distrust(void **state)
{
    (void)state;
    later(SILENCE);
    assert_false(trusted());
    leave(2); /* its row was dropped */
    read_table();
    assert_true(trusted());
    hear_records(2, 6, 6); /* it wakes, and nobody knows what it did before */
    beat("n1", 1, 0);
    assert_true(distrusted_once());
}

/* --- what can't be kept apart --------------------------------------------------------------------
 */

static void
one_incarnation_of_two_names_is_trusted_by_nobody(void **state)
{
    (void)state;
    beat("n9", 2, 5);
    assert_false(trusted());
    for (int i = 0; i < 4; i++)
        a_while();
    assert_true(trusted());
}

static void
somebody_else_with_our_incarnation_ends_it(void **state)
{
    (void)state;
    beat("n9", 1, 0);
    assert_false(trusted());
}

static void
more_who_speak_than_can_be_followed_end_it(void **state)
{
    (void)state;
    char id[16];
    for (int i = 0; i < PEERS_MAX - 1; i++) {
        snprintf(id, sizeof(id), "n%d", 10 + i);
        beat(id, 10 + i, 0);
    }
    assert_true(undisturbed());
    beat("n99", 99, 0);
    assert_false(trusted());
    assert_int_equal(peers.count, PEERS_MAX);
}

/* --- the audience -------------------------------------------------------------------- */

static void
somebody_listens_if_the_table_has_them_or_they_spoke(void **state)
{
    (void)state;
    assert_false(peers_has_audience(&peers, now));
    beat("n1", 1, 0);
    assert_false(peers_has_audience(&peers, now)); /* that was ourselves */
    beat("n2", 2, 0);
    assert_true(peers_has_audience(&peers, now));
    later(11 * (int64_t)TIME_US_PER_S);
    assert_false(peers_has_audience(&peers, now));
    enter("n2", 2);
    read_table();
    assert_true(peers_has_audience(&peers, now));
}

#define ALONE(test) cmocka_unit_test_setup(test, alone)
#define TWO(test)   cmocka_unit_test_setup(test, two)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        ALONE(trust_in_the_table_ends_with_its_age),
        TWO(trust_in_peers_ends_with_their_silence),
        ALONE(who_is_alone_needs_to_hear_nobody),
        ALONE(before_the_table_was_read_nobody_is_trusted),
        ALONE(a_table_that_is_too_old_is_none),
        ALONE(a_table_that_cant_be_read_is_none),
        ALONE(who_is_not_in_the_table_itself_is_not_trusted),
        ALONE(who_is_in_doubt_is_not_trusted),
        ALONE(more_nodes_than_can_be_followed_are_not_trusted),
        TWO(a_peer_that_speaks_is_trusted_for_as_long_as_it_does),
        TWO(a_peer_that_is_silent_ends_it),
        TWO(a_peer_of_the_table_that_was_never_heard_ends_it),
        TWO(own_heartbeats_must_come_back),
        TWO(a_peer_in_doubt_ends_it),
        TWO(a_late_frame_proves_nothing_about_now),
        TWO(a_frame_of_unknown_age_proves_nothing_about_now),
        TWO(without_a_subscription_nobody_is_heard),
        TWO(over_a_new_subscription_all_must_be_heard_anew),
        TWO(records_in_order_disturb_nobody),
        TWO(a_gap_before_a_record_is_a_distrust),
        TWO(a_gap_within_a_frame_is_a_distrust),
        TWO(a_heartbeat_tells_of_a_record_that_never_came),
        TWO(a_record_that_cant_be_read_is_a_distrust),
        TWO(duplicates_and_frames_out_of_order_disturb_nobody),
        TWO(a_gap_while_not_trusted_costs_nothing_more),
        TWO(a_newcomer_that_is_heard_from_its_first_record_on_disturbs_nobody),
        TWO(a_newcomer_may_begin_with_a_record),
        TWO(a_newcomer_whose_beginning_was_missed_is_a_distrust),
        TWO(a_newcomer_has_to_be_heard_before_the_table_has_it),
        TWO(a_newcomer_that_is_gone_before_the_table_had_it_is_a_distrust),
        TWO(somebody_who_was_here_for_a_moment_is_a_distrust),
        TWO(each_incarnation_that_was_drawn_must_be_accounted_for),
        TWO(a_sequence_that_went_back_is_a_distrust),
        TWO(ones_own_new_incarnation_is_accounted_for),
        TWO(a_farewell_disturbs_nobody),
        TWO(a_row_that_goes_before_the_farewell_disturbs_nobody),
        TWO(a_farewell_that_tells_of_a_gap_is_a_distrust),
        TWO(a_row_that_goes_without_a_farewell_is_a_distrust),
        TWO(a_killed_peer_is_waited_for_until_its_row_is_gone),
        TWO(a_newer_life_of_a_name_ends_the_older_one),
        TWO(a_newer_life_after_a_farewell_disturbs_nobody),
        TWO(one_that_stood_still_and_wakes_up_is_a_distrust),
        TWO(one_incarnation_of_two_names_is_trusted_by_nobody),
        TWO(somebody_else_with_our_incarnation_ends_it),
        TWO(more_who_speak_than_can_be_followed_end_it),
        ALONE(somebody_listens_if_the_table_has_them_or_they_spoke),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
