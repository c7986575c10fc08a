/*
 * The hot table beside a naive model of it: random calls, the same answers.
 *
 * The model knows no shards, no wheel and no memory: an array of seats, each with what
 * was last said of it. Limits are out of its way; those have tests of their own.
 */
#include "hot_fixture.h"

#define SEATS   24
#define WAITERS 400
#define ROUNDS  200000
#define TICK    (10 * MS)

struct model_seat {
    bool known;
    struct seat_view view;
    struct mono_time began;
    bool claimed;
    int parked[WAITERS]; /* numbers of waiters, first come first */
    int parked_count;
    bool armed;
    struct db_time timer;
    int64_t armed_axis_us; /* what had passed in all when it was armed */
    bool read_open;        /* a read of this seat is under way ... */
    uint64_t read_count;   /* ... since this change count */
    uint64_t read_changes; /* ... and this number of changes to this seat */
    uint64_t changes;
    uint64_t read_distrusts;
};

struct model {
    struct hot_table *table;
    uint64_t random;
    struct model_seat seats[SEATS];
    bool trusted;
    int64_t distrusted_us;
    uint64_t distrusts;
    int64_t db_us;
    int64_t axis_us; /* the sum of all steps forward */
    int64_t mono_us;
    struct hot_waiter waiters[WAITERS];
    bool waiter_used[WAITERS];
};

static struct seat_key
key_number(int number, char seat[16])
{
    (void)snprintf(seat, 16, "S%d", number);
    return seat_of_show(seat);
}

static bool
model_trusts(const struct model *m, const struct model_seat *s)
{
    int64_t now_us = mono_at(m->mono_us).us;
    return s->known && s->began.us > m->distrusted_us &&
           (m->trusted || now_us - s->began.us < LEASE_US);
}

static bool
model_held(const struct model *m, const struct model_seat *s)
{
    return s->view.status == SEAT_HELD &&
           (s->view.in_payment || db_at(m->db_us).us + ERROR_US < s->view.held_until.us);
}

static bool
model_refuses(const struct model *m, const struct model_seat *s, uint64_t user)
{
    if (!model_trusts(m, s)) {
        return false;
    }
    if (s->view.status == SEAT_SOLD || s->view.status == SEAT_BLOCKED) {
        return true;
    }
    return s->view.user_hash != user && model_held(m, s);
}

static bool
views_equal(const struct seat_view *a, const struct seat_view *b)
{
    return a->status == b->status && a->in_payment == b->in_payment &&
           uuid_equal(&a->hold_id, &b->hold_id) && a->user_hash == b->user_hash &&
           a->held_until.us == b->held_until.us && a->version == b->version;
}

static void
model_learn(struct model *m, struct model_seat *s, const struct seat_view *view,
            struct mono_time began, bool arm)
{
    if (s->known && view->version < s->view.version) {
        return;
    }
    if (!s->known || view->version > s->view.version) {
        s->known = true;
        s->view = *view;
        s->began = began;
        s->armed = false;
        s->changes++;
    } else if (began.us > s->began.us) {
        s->began = began;
    }
    if (arm && !s->armed && s->view.status == SEAT_HELD && !s->view.in_payment) {
        s->armed = true;
        s->timer = s->view.held_until;
        s->armed_axis_us = m->axis_us;
    }
}

/* News of a version around the known one; one version always says the same. */
static struct seat_view
random_view(struct model *m, const struct model_seat *s)
{
    int64_t known = s->known ? s->view.version : 1;
    int64_t version = known + random_below(&m->random, 5) - 1;
    if (s->known && version == known) {
        return s->view;
    }
    struct seat_view view = view_of((enum seat_status)random_below(&m->random, 5), version);
    if (random_below(&m->random, 3) != 0) {
        int64_t until_us = m->db_us + random_below(&m->random, 20 * SECOND) - SECOND;
        view = view_held(version, 1 + (uint64_t)random_below(&m->random, 3), db_at(until_us));
        view.in_payment = random_below(&m->random, 8) == 0;
    }
    return view;
}

static struct mono_time
random_began(struct model *m)
{
    return mono_at(m->mono_us - random_below(&m->random, 2 * SECOND));
}

static int
waiter_take(struct model *m)
{
    for (int i = 0; i < WAITERS; i++) {
        if (!m->waiter_used[i]) {
            m->waiter_used[i] = true;
            return i;
        }
    }
    return -1;
}

static void
step_claim(struct model *m, int number)
{
    struct model_seat *s = &m->seats[number];
    char text[16];
    struct seat_key key = key_number(number, text);
    uint64_t user = 1 + (uint64_t)random_below(&m->random, 3);
    bool may_refuse = random_below(&m->random, 4) != 0;
    int waiter = waiter_take(m);
    if (waiter < 0) {
        return;
    }
    struct seat_view told;
    enum hot_answer answer =
        hot_table_claim(m->table, &key, user, may_refuse, db_at(m->db_us), ERROR_US,
                        mono_at(m->mono_us), &m->waiters[waiter], &told);
    m->waiter_used[waiter] = false;
    if (may_refuse && model_refuses(m, s, user)) {
        assert_int_equal(answer, HOT_REFUSED);
        assert_true(views_equal(&told, &s->view));
    } else if (s->claimed) {
        assert_int_equal(answer, HOT_PARKED);
        m->waiter_used[waiter] = true;
        s->parked[s->parked_count++] = waiter;
    } else {
        assert_int_equal(answer, HOT_CLAIMED);
        s->claimed = true;
    }
}

static void
step_settle(struct model *m, int number)
{
    struct model_seat *s = &m->seats[number];
    if (!s->claimed) {
        return;
    }
    char text[16];
    struct seat_key key = key_number(number, text);
    struct seat_view view = random_view(m, s);
    bool learned = random_below(&m->random, 3) != 0;
    bool arm = random_below(&m->random, 2) != 0;
    struct mono_time began = random_began(m);
    struct hot_waiter *waiter;
    hot_table_settle(m->table, &key, learned ? &view : NULL, began, arm, &waiter);
    s->claimed = false;
    s->changes++;
    if (learned) {
        model_learn(m, s, &view, began, arm);
    }
    for (int i = 0; i < s->parked_count; i++) {
        assert_ptr_equal(waiter, &m->waiters[s->parked[i]]);
        m->waiter_used[s->parked[i]] = false;
        waiter = waiter->next;
    }
    assert_null(waiter);
    s->parked_count = 0;
}

static void
step_learn(struct model *m, int number)
{
    struct model_seat *s = &m->seats[number];
    char text[16];
    struct seat_key key = key_number(number, text);
    struct seat_view view = random_view(m, s);
    bool arm = random_below(&m->random, 2) != 0;
    struct mono_time began = random_began(m);
    hot_table_learn(m->table, &key, &view, began, arm);
    model_learn(m, s, &view, began, arm);
}

/* A read begins, or ends and fills. */
static void
step_fill(struct model *m, int number)
{
    struct model_seat *s = &m->seats[number];
    char text[16];
    struct seat_key key = key_number(number, text);
    if (!s->read_open) {
        s->read_open = true;
        s->read_count = hot_table_change_count(m->table, &key);
        s->read_changes = s->changes;
        s->read_distrusts = m->distrusts;
        return;
    }
    s->read_open = false;
    struct seat_view view = random_view(m, s);
    struct mono_time began = random_began(m);
    bool filled = hot_table_fill(m->table, &key, &view, began, s->read_count);
    if (s->read_changes != s->changes || s->read_distrusts != m->distrusts) {
        assert_false(filled);
    }
    if (filled) {
        assert_true(!s->known || view.version >= s->view.version);
        uint64_t changes = s->changes;
        model_learn(m, s, &view, began, false);
        s->changes = changes; /* a fill is no change */
    }
}

static void
step_look(struct model *m, int number)
{
    struct model_seat *s = &m->seats[number];
    char text[16];
    struct seat_key key = key_number(number, text);
    uint64_t user = 1 + (uint64_t)random_below(&m->random, 3);
    struct seat_view told;
    bool refused = hot_table_refuses(m->table, &key, user, db_at(m->db_us), ERROR_US,
                                     mono_at(m->mono_us), &told);
    assert_int_equal(refused, model_refuses(m, s, user));
    bool read =
        hot_table_read(m->table, &key, db_at(m->db_us), ERROR_US, mono_at(m->mono_us), &told);
    bool expected =
        !s->claimed && model_trusts(m, s) && (s->view.status != SEAT_HELD || model_held(m, s));
    assert_int_equal(read, expected);
    assert_true(!read || views_equal(&told, &s->view));
}

static void
step_rearm(struct model *m, int number)
{
    struct model_seat *s = &m->seats[number];
    char text[16];
    struct seat_key key = key_number(number, text);
    struct uuid hold = hold_number((uint8_t)random_below(&m->random, 256));
    if (s->known && random_below(&m->random, 4) != 0) {
        hold = s->view.hold_id;
    }
    struct db_time at = db_at(m->db_us + random_below(&m->random, 3 * SECOND) - SECOND);
    hot_table_rearm(m->table, &key, &hold, at);
    if (s->known && s->view.status == SEAT_HELD && !s->view.in_payment &&
        uuid_equal(&hold, &s->view.hold_id)) {
        s->armed = true;
        s->timer = at;
        s->armed_axis_us = m->axis_us;
    }
}

static void
due_check(struct model *m, const struct hot_due *due)
{
    struct model_seat *s = &m->seats[atoi(due->seat + 1)];
    assert_true(s->armed);
    assert_true(s->timer.us <= db_at(m->db_us).us);
    assert_true(uuid_equal(&due->hold_id, &s->view.hold_id));
    assert_int_equal(due->held_until.us, s->view.held_until.us);
    s->armed = false;
}

static void
step_tick(struct model *m)
{
    int64_t step_us =
        random_below(&m->random, random_below(&m->random, 5) == 0 ? 30 * SECOND : SECOND);
    m->mono_us += step_us;
    if (random_below(&m->random, 15) == 0) {
        m->db_us -= step_us;
    } else {
        m->db_us += step_us;
        m->axis_us += step_us;
    }
    struct hot_due due[3];
    int count;
    do {
        count = hot_table_tick(m->table, db_at(m->db_us), due, 3);
        for (int i = 0; i < count; i++) {
            due_check(m, &due[i]);
        }
    } while (count == 3);
    for (int i = 0; i < SEATS; i++) {
        const struct model_seat *s = &m->seats[i];
        bool overdue = s->armed && s->timer.us + TICK <= db_at(m->db_us).us &&
                       s->armed_axis_us + TICK <= m->axis_us;
        assert_false(overdue);
    }
}

static void
step_trust(struct model *m)
{
    if (random_below(&m->random, 2) == 0) {
        hot_table_distrust(m->table);
        m->distrusts++;
    } else {
        bool trusted = random_below(&m->random, 2) == 0;
        hot_table_set_trusted(m->table, trusted);
        m->distrusts += trusted && !m->trusted;
        m->trusted = trusted;
    }
    /* The model's times lie in the future, so that a distrust of now voids none of them. */
}

static void
numbers_check(struct model *m)
{
    struct hot_numbers expected = { 0 };
    for (int i = 0; i < SEATS; i++) {
        const struct model_seat *s = &m->seats[i];
        expected.entries += s->known || s->claimed;
        expected.timers += s->armed;
        expected.claims += s->claimed;
        expected.parked += s->parked_count;
    }
    struct hot_numbers numbers = numbers_of(m->table);
    assert_int_equal(numbers.entries, expected.entries);
    assert_int_equal(numbers.timers, expected.timers);
    assert_int_equal(numbers.claims, expected.claims);
    assert_int_equal(numbers.parked, expected.parked);
    hot_table_validate(m->table);
}

static void
the_table_answers_as_a_naive_model_does(void **state)
{
    (void)state;
    struct model *m = calloc(1, sizeof(*m));
    assert_non_null(m);
    m->random = seed_printed("the_table_answers_as_a_naive_model_does");
    struct hot_table_limits limits = limits_usual();
    limits.parked_max = WAITERS;
    m->table = table_with(limits);
    m->trusted = true;
    m->distrusted_us = mono_at(0).us - HOUR / 2;
    m->mono_us = 10 * SECOND;

    for (int round = 0; round < ROUNDS; round++) {
        int number = (int)random_below(&m->random, SEATS);
        int64_t what = random_below(&m->random, 100);
        if (what < 25) {
            step_claim(m, number);
        } else if (what < 40) {
            step_settle(m, number);
        } else if (what < 60) {
            step_learn(m, number);
        } else if (what < 70) {
            step_fill(m, number);
        } else if (what < 90) {
            step_look(m, number);
        } else if (what < 94) {
            step_rearm(m, number);
        } else if (what < 99) {
            step_tick(m);
        } else {
            step_trust(m);
            numbers_check(m);
        }
    }
    for (int i = 0; i < SEATS; i++) {
        step_settle(m, i);
    }
    numbers_check(m);
    table_end(m->table);
    free(m);
}

/* Far more seats than room, from several events: the limits hold, and nothing breaks. */
static void
a_small_table_stays_within_its_limits_whatever_comes(void **state)
{
    (void)state;
    enum { ROOM = 40, KEYS = 400, STEPS = 100000, OWN = 8 };
    uint64_t random = seed_printed("a_small_table_stays_within_its_limits_whatever_comes");
    struct hot_table_limits limits = limits_usual();
    limits.seats_max = ROOM;
    limits.tombstone_us = SECOND;
    struct hot_table *table = table_with(limits);
    struct hot_waiter waiter;
    char claimed[OWN][16] = { { 0 } };
    int64_t version = 1, db_us = 0;

    for (int step = 0; step < STEPS; step++) {
        char seat[16], event[16];
        (void)snprintf(seat, sizeof(seat), "S%d", (int)random_below(&random, KEYS));
        (void)snprintf(event, sizeof(event), "show-%d", (int)random_below(&random, 10));
        struct seat_key key = { slice_of("demo"), slice_of(event), slice_of(seat) };
        struct seat_view view =
            random_below(&random, 3) == 0
                ? view_held(version++, ANNA, db_at(db_us + 3 * SECOND))
                : view_of((enum seat_status)random_below(&random, 5), version++);
        int own = (int)random_below(&random, OWN);
        switch (random_below(&random, 4)) {
        case 0:
            hot_table_learn(table, &key, &view, mono_at(0), random_below(&random, 2) == 0);
            break;
        case 1:
            if (claimed[own][0] != '\0') {
                assert_null(
                    settle(table, claimed[own], random_below(&random, 2) == 0 ? &view : NULL));
                claimed[own][0] = '\0';
            }
            break;
        case 2:
            (void)snprintf(seat, sizeof(seat), "C%d-%d", own, (int)random_below(&random, KEYS));
            if (claimed[own][0] == '\0' && claim(table, seat, ANNA, &waiter) == HOT_CLAIMED) {
                memcpy(claimed[own], seat, sizeof(seat));
            }
            break;
        default: {
            struct hot_due due[8];
            db_us += random_below(&random, 100 * MS);
            while (hot_table_tick(table, db_at(db_us), due, 8) == 8) {
            }
            break;
        }
        }
        assert_in_range(numbers_of(table).entries, 0, ROOM);
        if (step % 100 == 0) {
            hot_table_validate(table);
        }
    }
    for (int own = 0; own < OWN; own++) {
        if (claimed[own][0] != '\0') {
            assert_null(settle(table, claimed[own], NULL));
        }
    }
    table_end(table);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_answers_as_a_naive_model_does),
        cmocka_unit_test(a_small_table_stays_within_its_limits_whatever_comes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
