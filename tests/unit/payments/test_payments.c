/* The room with its simulated provider: who is told what, and when; and what it settles by itself.
 */
#include "payments_fixture.h"

#define S ((int64_t)TIME_US_PER_S)

static struct payments *room;

static int
set_up(void **state)
{
    (void)state;
    usual_config();
    room = room_of_config();
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    end_room(&room);
    return 0;
}

/* --- charges ------------------------------------------------------------------------ */

static void
the_method_says_what_becomes_of_a_charge(void **state)
{
    (void)state;
    assert_int_equal(outcome_of_charge(room, "tok_ok"), PAYMENT_PAID);
    assert_int_equal(outcome_of_charge(room, "tok_declined"), PAYMENT_DECLINED);
    assert_int_equal(outcome_of_charge(room, "tok_pending"), PAYMENT_UNDECIDED);
    assert_int_equal(outcome_of_charge(room, "tok_error"), PAYMENT_UNREACHED);
    assert_int_equal(outcome_of_charge(room, "tok_unheard_of"), PAYMENT_DECLINED);
    assert_int_equal(outcome_of_charge(room, "tok_okay"), PAYMENT_DECLINED);
    assert_int_equal(atomic_load(&settle_count), 0); /* callers settle what they are told */
    await_nothing_under_way(room);
}

static void
a_slow_one_is_told_after_two_seconds_not_before(void **state)
{
    struct payment payment = payment_by("tok_slow");
    struct caller caller;

    (void)state;
    stop_clock();
    charge(room, &payment, HOUR_LATER, &caller);
    assert_int_equal(outcome_of_charge(room, "tok_ok"),
                     PAYMENT_PAID); /* it was begun before this */
    move_clock(room, 19 * S / 10);
    assert_int_equal(outcome_of_charge(room, "tok_ok"),
                     PAYMENT_PAID); /* the timers were looked at */
    assert_int_equal(atomic_load(&caller.times), 0);
    move_clock(room, 2 * S / 10);
    assert_int_equal(await_told(&caller), PAYMENT_PAID);
}

static void
who_has_no_patience_left_hears_undecided_and_the_room_settles(void **state)
{
    struct payment payment = payment_by("tok_slow");
    struct caller caller;

    (void)state;
    stop_clock();
    charge(room, &payment, (struct mono_time){ mono_now().us + S }, &caller);
    assert_int_equal(outcome_of_charge(room, "tok_ok"), PAYMENT_PAID);
    move_clock(room, S);
    assert_int_equal(await_told(&caller), PAYMENT_UNDECIDED);
    assert_int_equal(atomic_load(&settle_count), 0);
    move_clock(room, 11 * S / 10);
    assert_int_equal(await_settled(1, &payment), PAYMENT_PAID);
    await_nothing_under_way(room);
    assert_int_equal(atomic_load(&caller.times), 1);
}

static void
who_comes_without_patience_is_not_charged(void **state)
{
    struct payment payment = payment_by("tok_ok");
    struct caller caller;

    (void)state;
    charge(room, &payment, mono_now(), &caller);
    assert_int_equal(await_told(&caller), PAYMENT_UNREACHED);
    await_nothing_under_way(room);
    assert_int_equal(atomic_load(&settle_count), 0);
}

static void
a_payment_is_copied(void **state)
{
    char org[] = "acme", event[] = "gala", user[] = "ann", method[] = "tok_slow";
    struct payment payment = payment_by("");
    struct caller caller;

    (void)state;
    payment.org.ptr = org;
    payment.event.ptr = event;
    payment.user.ptr = user;
    payment.method = slice_of(method);
    charge(room, &payment, (struct mono_time){ mono_now().us + S }, &caller);
    memset(org, 'x', sizeof(org));
    memset(event, 'x', sizeof(event));
    memset(user, 'x', sizeof(user));
    memset(method, 'x', sizeof(method));
    assert_int_equal(outcome_of_charge(room, "tok_ok"), PAYMENT_PAID);
    move_clock(room, S);
    assert_int_equal(await_told(&caller), PAYMENT_UNDECIDED);
    move_clock(room, 2 * S);
    assert_int_equal(await_settled(1, &payment), PAYMENT_PAID); /* engine_submit looks at names */
}

/* --- asks ------------------------------------------------------------------------------- */

static void
ask(const char *provider, const struct payment *payment, bool last)
{
    payments_ask(room, slice_of(provider), payment, last);
}

static void
an_ask_is_settled_as_the_provider_says_and_else_as_timed_out(void **state)
{
    static const struct {
        const char *method;
        enum payment_outcome outcome;
    } answers[] = {
        { "tok_ok", PAYMENT_PAID },           { "tok_slow", PAYMENT_PAID },
        { "tok_declined", PAYMENT_DECLINED }, { "tok_error", PAYMENT_DECLINED },
        { "other", PAYMENT_DECLINED },        { "tok_pending", PAYMENT_TIMED_OUT },
    };

    (void)state;
    for (int i = 0; i < 6; i++) {
        struct payment payment = payment_by(answers[i].method);
        ask("simulated", &payment, false);
        assert_int_equal(await_settled(i + 1, &payment), answers[i].outcome);
    }
}

/* Intents of a node that had another provider, or of a version that knows more of them. */
static void
who_cannot_be_asked_here_stays_due_until_the_last_time(void **state)
{
    struct payment payment = payment_by("tok_ok");

    (void)state;
    ask("http", &payment, false);
    ask("carrier pigeon", &payment, false);
    await_nothing_under_way(room);
    assert_int_equal(atomic_load(&settle_count), 0);
    ask("http", &payment, true);
    assert_int_equal(await_settled(1, &payment), PAYMENT_TIMED_OUT);
    ask("carrier pigeon", &payment, true);
    assert_int_equal(await_settled(2, &payment), PAYMENT_TIMED_OUT);
}

/* From the next settlement on. */
static void
let_settlements_fail(int count, enum hf_status status)
{
    atomic_store(&settle_count, 0);
    settle_failure = status;
    atomic_store(&settle_failures, count);
}

static void
what_is_paid_is_settled_again_until_the_engine_has_it(void **state)
{
    static const enum hf_status failures[] = { HF_STORE_UNAVAILABLE, HF_SEAT_CONTENDED,
                                               HF_INTERNAL };
    struct payment payment = payment_by("tok_ok");

    (void)state;
    stop_clock();
    for (int i = 0; i < 3; i++) {
        let_settlements_fail(2, failures[i]);
        ask("simulated", &payment, false);
        for (int n = 1; n <= 2; n++) {
            assert_int_equal(await_settled(n, &payment), PAYMENT_PAID);
            assert_int_equal(atomic_load(&room->under_way), 1); /* it keeps its place */
            for (int looks = 0; looks < 1000 && atomic_load(&settle_count) == n; looks++) {
                move_clock(room, S / 2); /* again: the room may not have put it off yet */
                usleep(20 * LOOK_US);
            }
        }
        assert_int_equal(await_settled(3, &payment), PAYMENT_PAID);
        await_nothing_under_way(room);
    }
}

static void
what_is_paid_is_not_tried_for_ever_nor_past_the_end_of_the_room(void **state)
{
    struct payment payment = payment_by("tok_ok");

    (void)state;
    let_settlements_fail(SETTLES, HF_STORE_UNAVAILABLE);
    ask("simulated", &payment, false);
    for (int64_t us = 0; us < WAIT_US && atomic_load(&settle_count) < 1; us += LOOK_US)
        usleep(LOOK_US);
    move_clock(room, 601 * S);
    await_nothing_under_way(room);
    ask("simulated", &payment, false);
    payments_stop(room);
    assert_int_equal(atomic_load(&room->under_way), 0);
}

static void
what_is_not_paid_is_settled_once(void **state)
{
    struct payment payment = payment_by("tok_declined");

    (void)state;
    let_settlements_fail(1, HF_STORE_UNAVAILABLE);
    ask("simulated", &payment, false); /* its intent stays due */
    await_nothing_under_way(room);
    usleep(300 * 1000);
    assert_int_equal(await_settled(1, &payment), PAYMENT_DECLINED);
}

/* --- limits and the end -------------------------------------------------------------------- */

static void
past_the_limit_a_charge_is_not_begun_and_an_ask_is_dropped(void **state)
{
    struct payment slow = payment_by("tok_slow"), third = payment_by("tok_ok");
    struct caller first, second;

    (void)state;
    config.payments_max = 2;
    charge(room, &slow, HOUR_LATER, &first);
    charge(room, &slow, HOUR_LATER, &second);
    assert_int_equal(outcome_of_charge(room, "tok_ok"), PAYMENT_UNREACHED);
    ask("simulated", &third, true);
    for (int64_t us = 0; us < WAIT_US && atomic_load(&second.times) == 0; us += LOOK_US) {
        move_clock(room, 2 * S); /* they may not have been begun yet */
        usleep(LOOK_US);
    }
    assert_int_equal(await_told(&first), PAYMENT_PAID);
    assert_int_equal(await_told(&second), PAYMENT_PAID);
    await_nothing_under_way(room);
    assert_int_equal(atomic_load(&settle_count), 0);
    assert_int_equal(outcome_of_charge(room, "tok_ok"), PAYMENT_PAID);
}

static void
who_waits_when_the_room_stops_hears_undecided_and_who_comes_later_was_not_charged(void **state)
{
    struct payment payment = payment_by("tok_slow");
    struct caller caller;

    (void)state;
    charge(room, &payment, HOUR_LATER, &caller);
    assert_int_equal(outcome_of_charge(room, "tok_ok"),
                     PAYMENT_PAID); /* it was begun before this */
    payments_stop(room);
    assert_int_equal(atomic_load(&caller.times), 1);
    assert_int_equal(atomic_load(&caller.outcome), PAYMENT_UNDECIDED);
    assert_int_equal(outcome_of_charge(room, "tok_ok"), PAYMENT_UNREACHED);
    ask("simulated", &payment, true);
    assert_int_equal(atomic_load(&room->under_way), 0);
    assert_int_equal(atomic_load(&settle_count), 0);
}

#define THREADS 4
#define CHARGES 250

static void *
charge_many(void *context)
{
    static const char *const methods[] = { "tok_ok", "tok_declined", "tok_slow", "tok_pending" };
    struct caller *callers = context;

    for (int i = 0; i < CHARGES; i++) {
        struct payment payment = payment_by(methods[i % 4]);
        charge(room, &payment, HOUR_LATER, &callers[i]);
    }
    return NULL;
}

static void
each_of_many_is_told_once_though_the_room_stops_amidst_them(void **state)
{
    static struct caller callers[THREADS][CHARGES];
    pthread_t threads[THREADS];

    (void)state;
    memset(callers, 0, sizeof(callers));
    for (int t = 0; t < THREADS; t++)
        assert_int_equal(pthread_create(&threads[t], NULL, charge_many, callers[t]), 0);
    usleep(2 * LOOK_US);
    payments_stop(room);
    for (int t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    for (int i = 0; i < THREADS * CHARGES; i++)
        assert_int_equal(atomic_load(&callers[i / CHARGES][i % CHARGES].times), 1);
    assert_int_equal(atomic_load(&room->under_way), 0);
}

/* --- settings -------------------------------------------------------------------------------- */

static const char *
complaint(const char *provider, const char *url, const char *secret)
{
    static char error[256];
    struct config asked = config;

    asked.payment_provider = (char *)(uintptr_t)provider;
    asked.payment_url = (char *)(uintptr_t)url;
    asked.payment_secret = (char *)(uintptr_t)secret;
    error[0] = '\0';
    return payments_check(&asked, error, sizeof(error)) ? "" : error;
}

static void
settings_that_could_not_work_are_named(void **state)
{
    static const char *const bad_urls[] = {
        "",
        "pay.example",
        "ftp://pay.example/",
        "file:///etc/passwd",
        "https://",
        "https://ann:secret@pay.example/",
        "https://pay.example/?key=1",
        "https://pay.example/#charges",
        "https://pay.example:99999/",
    };

    (void)state;
    assert_string_equal(complaint("simulated", "", ""), "");
    assert_string_equal(complaint("http", "https://pay.example/charges", "s"), "");
    assert_string_equal(complaint("http", "http://127.0.0.1:8081", "s"), "");
    assert_non_null(strstr(complaint("stripe", "", ""), "payment_provider"));
    assert_non_null(strstr(complaint("http", "https://pay.example", ""), "payment_secret"));
    for (size_t i = 0; i < sizeof(bad_urls) / sizeof(bad_urls[0]); i++)
        assert_non_null(strstr(complaint("http", bad_urls[i], "s"), "payment_url"));
}

#define with_a_room(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        with_a_room(the_method_says_what_becomes_of_a_charge),
        with_a_room(a_slow_one_is_told_after_two_seconds_not_before),
        with_a_room(who_has_no_patience_left_hears_undecided_and_the_room_settles),
        with_a_room(who_comes_without_patience_is_not_charged),
        with_a_room(a_payment_is_copied),
        with_a_room(an_ask_is_settled_as_the_provider_says_and_else_as_timed_out),
        with_a_room(who_cannot_be_asked_here_stays_due_until_the_last_time),
        with_a_room(what_is_paid_is_settled_again_until_the_engine_has_it),
        with_a_room(what_is_paid_is_not_tried_for_ever_nor_past_the_end_of_the_room),
        with_a_room(what_is_not_paid_is_settled_once),
        with_a_room(past_the_limit_a_charge_is_not_begun_and_an_ask_is_dropped),
        with_a_room(
            who_waits_when_the_room_stops_hears_undecided_and_who_comes_later_was_not_charged),
        with_a_room(each_of_many_is_told_once_though_the_room_stops_amidst_them),
        with_a_room(settings_that_could_not_work_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
