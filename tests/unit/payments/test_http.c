/*
 * A provider over HTTP: what is sent to it, what its answers mean, and above all what is made of no
 * answer: only what can't have been sent is UNREACHED.
 */
#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>

#include <cjson/cJSON.h>

#include "holdfast/signature.h"
#include "payments_fixture.h"

#define SECRET        "a secret between us and the provider"
#define REQUEST_BYTES 4096
#define READ_MS       5000
#define PAID          "HTTP/1.1 200 OK\r\nContent-Length: 22\r\n\r\n{\"status\":\"succeeded\"}"

/* --- what answers mean ----------------------------------------------------------------- */

static int
meaning(bool is_ask, long status, const char *body)
{
    enum payment_outcome outcome;

    return http_answer_means(is_ask, status, slice_of(body), &outcome) ? (int)outcome : NOT_TOLD;
}

static void
plain_answers_decide(void **state)
{
    (void)state;
    for (int is_ask = 0; is_ask < 2; is_ask++) {
        assert_int_equal(meaning(is_ask, 200, "{\"status\":\"succeeded\"}"), PAYMENT_PAID);
        assert_int_equal(meaning(is_ask, 200, "{\"id\":1,\"status\":\"failed\"}"),
                         PAYMENT_DECLINED);
        assert_int_equal(meaning(is_ask, 200, "{\"status\":\"pending\"}"), PAYMENT_UNDECIDED);
        assert_int_equal(meaning(is_ask, 402, ""), PAYMENT_DECLINED);
        assert_int_equal(meaning(is_ask, 402, "{\"status\":\"succeeded\"}"), PAYMENT_DECLINED);
    }
    assert_int_equal(meaning(true, 404, ""), PAYMENT_UNDECIDED);
}

static void
anything_else_is_no_answer(void **state)
{
    static const char *const bodies[] = {
        "",
        "ok",
        "null",
        "[]",
        "\"succeeded\"",
        "{}",
        "{\"status\":null}",
        "{\"status\":true}",
        "{\"status\":\"\"}",
        "{\"status\":\"Succeeded\"}",
        "{\"Status\":\"succeeded\"}",
        "{\"status\":\"succeeded",
        "{\"status\":\"succeeded\"} {}",
        "{\"status\":\"failed\",\"status\":\"succeeded\"}",
        "{\"status\":\"succeeded\\u0000\"}",
    };
    static const long statuses[] = { 0,   100, 201, 202, 204, 301, 302, 304, 400, 401,
                                     403, 404, 409, 422, 429, 500, 502, 503, 504, 999 };

    (void)state;
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++)
        assert_int_equal(meaning(i % 2, 200, bodies[i]), NOT_TOLD);
    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++)
        assert_int_equal(meaning(false, statuses[i], "{\"status\":\"succeeded\"}"), NOT_TOLD);
}

/* --- a provider ---------------------------------------------------------------------------- */

enum manner {
    ANSWERS,         /* with its text, and keeps the connection for more */
    BREAKS,          /* reads the request and closes without a word */
    WAITS,           /* until it is let; then it answers */
    HANGS,           /* reads the request and says nothing */
    FLOODS,          /* answers without an end */
    ANSWERS_ONE_ONLY /* then reads one more request, closes, and nobody listens any more */
};

static struct {
    int listener;
    int port;
    enum manner manner;
    const char *text;
    pthread_t thread;
    _Atomic bool ending, let;
    _Atomic int requests;
    char request[REQUEST_BYTES]; /* the last one */
} provider;

static size_t
body_bytes(const char *request)
{
    const char *length = strcasestr(request, "\r\nContent-Length: ");

    return length != NULL ? (size_t)atol(length + 18) : 0;
}

/* False: the client is gone, or time is up. */
static bool
read_request(int client)
{
    char *request = provider.request;
    size_t len = 0;

    for (;;) {
        struct pollfd readable = { client, POLLIN, 0 };
        if (len == REQUEST_BYTES - 1 || poll(&readable, 1, READ_MS) != 1)
            return false;
        ssize_t got = recv(client, request + len, REQUEST_BYTES - 1 - len, 0);
        if (got <= 0)
            return false;
        len += (size_t)got;
        request[len] = '\0';
        const char *body = strstr(request, "\r\n\r\n");
        if (body != NULL && len >= (size_t)(body + 4 - request) + body_bytes(request))
            break;
    }
    atomic_fetch_add(&provider.requests, 1);
    return true;
}

static void
say(int client, const char *text)
{
    (void)!send(client, text, strlen(text), MSG_NOSIGNAL);
}

static void
flood(int client)
{
    char more[1024];

    memset(more, ' ', sizeof(more));
    say(client, "HTTP/1.1 200 OK\r\n\r\n");
    while (send(client, more, sizeof(more), MSG_NOSIGNAL) > 0)
        ;
}

static void
wait_until_let(void)
{
    while (!atomic_load(&provider.ending) && !atomic_load(&provider.let))
        usleep(LOOK_US);
}

static void
hang(int client)
{
    struct pollfd gone = { client, POLLIN | POLLRDHUP, 0 };

    while (!atomic_load(&provider.ending) && poll(&gone, 1, 10) == 0)
        ;
}

static void
stop_listening(void)
{
    if (provider.listener >= 0)
        close(provider.listener);
    provider.listener = -1;
}

static void
serve(int client)
{
    while (read_request(client)) {
        switch (provider.manner) {
        case WAITS:
            wait_until_let();
            say(client, provider.text);
            continue;
        case ANSWERS:
            say(client, provider.text);
            continue;
        case ANSWERS_ONE_ONLY:
            if (atomic_load(&provider.requests) == 1) {
                say(client, provider.text);
                continue;
            }
            stop_listening();
            return;
        case FLOODS:
            flood(client);
            return;
        case HANGS:
            hang(client);
            return;
        case BREAKS:
            return;
        }
    }
}

static void *
provider_main(void *context)
{
    (void)context;
    while (!atomic_load(&provider.ending) && provider.listener >= 0) {
        struct pollfd acceptable = { provider.listener, POLLIN, 0 };
        if (poll(&acceptable, 1, 10) != 1)
            continue;
        int client = accept(provider.listener, NULL, NULL);
        serve(client);
        close(client);
    }
    return NULL;
}

static void
listen_on_loopback(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof(address);

    provider.listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(provider.listener, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(provider.listener, 16), 0);
    assert_int_equal(getsockname(provider.listener, (struct sockaddr *)&address, &len), 0);
    provider.port = ntohs(address.sin_port);
}

static void
start_provider(enum manner manner, const char *text)
{
    memset(&provider, 0, sizeof(provider));
    provider.manner = manner;
    provider.text = text;
    listen_on_loopback();
    assert_int_equal(pthread_create(&provider.thread, NULL, provider_main, NULL), 0);
}

static void
end_provider(void)
{
    atomic_store(&provider.ending, true);
    pthread_join(provider.thread, NULL);
    stop_listening();
}

/* --- a room that charges there -----------------------------------------------------------------
 */

static struct payments *
room_with(const char *scheme, const char *path)
{
    static char http[] = "http", secret[] = SECRET, text[128];

    usual_config();
    snprintf(text, sizeof(text), "%s://127.0.0.1:%d%s", scheme, provider.port, path);
    config.payment_provider = http;
    config.payment_url = text;
    config.payment_secret = secret;
    return room_of_config();
}

static struct slice
header_of(const char *name)
{
    const char *line = strcasestr(provider.request, name);

    assert_non_null(line);
    line += strlen(name);
    return (struct slice){ line, strcspn(line, "\r") };
}

static struct slice
body_of_request(void)
{
    return slice_of(strstr(provider.request, "\r\n\r\n") + 4);
}

static bool
is_signed(struct slice what)
{
    return signature_is_good(slice_of(SECRET), (int64_t)time(NULL),
                             header_of("\r\nHoldfast-Signature: "), what);
}

static void
assert_field(const cJSON *body, const char *name, const char *value)
{
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(body, name)), value);
}

static void
a_charge_is_posted_signed_under_its_intent(void **state)
{
    struct payment payment = payment_by("card \"of\" Ann");
    char intent[UUID_TEXT_BYTES];
    struct caller caller;

    (void)state;
    start_provider(ANSWERS, PAID);
    struct payments *room = room_with("http", "/charges");
    charge(room, &payment, HOUR_LATER, &caller);
    assert_int_equal(await_told(&caller), PAYMENT_PAID);
    uuid_format(&payment.intent_id, intent);
    assert_memory_equal(provider.request, "POST /charges HTTP/1.1\r\n", 24);
    assert_true(slice_is(header_of("\r\nIdempotency-Key: "), intent));
    assert_true(slice_is(header_of("\r\nContent-Type: "), "application/json"));
    assert_true(is_signed(body_of_request()));
    cJSON *body = cJSON_Parse(body_of_request().ptr);
    assert_field(body, "intentId", intent);
    assert_field(body, "currency", "EUR");
    assert_field(body, "method", "card \"of\" Ann");
    assert_field(body, "org", "acme");
    assert_field(body, "event", "gala");
    assert_field(body, "user", "ann");
    assert_int_equal(cJSON_GetObjectItemCaseSensitive(body, "amount")->valueint, 4250);
    assert_int_equal(cJSON_GetArraySize(body), 7);
    cJSON_Delete(body);
    end_room(&room);
    end_provider();
}

static void
an_ask_is_a_get_signed_over_the_intent(void **state)
{
    struct payment payment = payment_by("card");
    char intent[UUID_TEXT_BYTES], line[64];

    (void)state;
    start_provider(ANSWERS, PAID);
    struct payments *room = room_with("http", "/charges/");
    payments_ask(room, slice_of("http"), &payment, false);
    assert_int_equal(await_settled(1, &payment), PAYMENT_PAID);
    uuid_format(&payment.intent_id, intent);
    snprintf(line, sizeof(line), "GET /charges/%s HTTP/1.1\r\n", intent);
    assert_memory_equal(provider.request, line, strlen(line));
    assert_true(is_signed(slice_of(intent)));
    assert_null(strcasestr(provider.request, "Idempotency-Key"));
    end_room(&room);
    end_provider();
}

/* --- no answer
 * ------------------------------------------------------------------------------------ */

static int
charge_at(const char *scheme, enum manner manner, const char *text)
{
    start_provider(manner, text);
    struct payments *room = room_with(scheme, "/charges");
    config.payment_provider_timeout = TIME_US_PER_S;
    int outcome = outcome_of_charge(room, "card");
    await_nothing_under_way(room);
    assert_int_equal(atomic_load(&settle_count), 0);
    end_room(&room);
    end_provider();
    return outcome;
}

static void
what_was_sent_and_not_answered_is_undecided(void **state)
{
    (void)state;
    assert_int_equal(charge_at("http", BREAKS, ""), PAYMENT_UNDECIDED);
    assert_int_equal(charge_at("http", HANGS, ""), PAYMENT_UNDECIDED);
    assert_int_equal(charge_at("http", FLOODS, ""), PAYMENT_UNDECIDED);
    assert_int_equal(charge_at("http", ANSWERS, "SSH-2.0-x\r\n\r\n"), PAYMENT_UNDECIDED);
    assert_int_equal(charge_at("http", ANSWERS, "HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n"),
                     PAYMENT_UNDECIDED);
    assert_int_equal(charge_at("http", ANSWERS, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"),
                     PAYMENT_UNDECIDED);
}

/* A redirect names another who might be charged, too. */
static void
redirects_are_not_followed(void **state)
{
    char text[128] = "";

    (void)state;
    start_provider(ANSWERS, text);
    struct payments *room = room_with("http", "/charges");
    snprintf(text, sizeof(text),
             "HTTP/1.1 307 Elsewhere\r\nLocation: http://127.0.0.1:%d/other\r\n"
             "Content-Length: 0\r\n\r\n",
             provider.port);
    assert_int_equal(outcome_of_charge(room, "card"), PAYMENT_UNDECIDED);
    await_nothing_under_way(room);
    assert_int_equal(atomic_load(&provider.requests), 1);
    end_room(&room);
    end_provider();
}

static void
what_could_not_be_sent_is_unreached(void **state)
{
    (void)state;
    start_provider(ANSWERS, PAID);
    struct payments *room = room_with("http", "/charges");
    end_provider(); /* its port is free: nobody is there */
    assert_int_equal(outcome_of_charge(room, "card"), PAYMENT_UNREACHED);
    end_room(&room);
    /* No handshake, so nothing of ours was said to whoever it is. */
    assert_int_equal(charge_at("https", ANSWERS, PAID), PAYMENT_UNREACHED);
}

/*
 * libcurl sends on a kept connection, which breaks; it connects anew, which is refused. The last
 * error speaks of a connect, and yet the provider has read the charge.
 */
static void
what_was_sent_on_a_kept_connection_that_broke_is_undecided(void **state)
{
    (void)state;
    start_provider(ANSWERS_ONE_ONLY, PAID);
    struct payments *room = room_with("http", "/charges");
    assert_int_equal(outcome_of_charge(room, "card"), PAYMENT_PAID);
    assert_int_equal(outcome_of_charge(room, "card"), PAYMENT_UNDECIDED);
    assert_int_equal(atomic_load(&provider.requests), 2);
    end_room(&room);
    end_provider();
}

static void
an_ask_without_answer_stays_due_until_the_last_time(void **state)
{
    struct payment payment = payment_by("card");

    (void)state;
    start_provider(BREAKS, "");
    struct payments *room = room_with("http", "/charges");
    payments_ask(room, slice_of("http"), &payment, false);
    await_nothing_under_way(room);
    assert_int_equal(atomic_load(&provider.requests), 1);
    assert_int_equal(atomic_load(&settle_count), 0);
    payments_ask(room, slice_of("http"), &payment, true);
    assert_int_equal(await_settled(1, &payment), PAYMENT_TIMED_OUT);
    end_room(&room);
    end_provider();
}

static void
a_charge_that_was_never_heard_of_has_timed_out(void **state)
{
    struct payment payment = payment_by("card");

    (void)state;
    start_provider(ANSWERS, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
    struct payments *room = room_with("http", "/charges");
    payments_ask(room, slice_of("http"), &payment, false);
    assert_int_equal(await_settled(1, &payment), PAYMENT_TIMED_OUT);
    end_room(&room);
    end_provider();
}

/* A charge that the provider has read and not answered. */
static void
charge_that_waits(struct payments *room, const struct payment *payment, struct caller *caller)
{
    charge(room, payment, (struct mono_time){ mono_now().us + 5 * (int64_t)TIME_US_PER_S }, caller);
    for (int64_t us = 0; us < WAIT_US && atomic_load(&provider.requests) == 0; us += LOOK_US)
        usleep(LOOK_US);
    assert_int_equal(atomic_load(&caller->times), 0);
}

static void
an_answer_that_no_caller_waits_for_is_settled(void **state)
{
    struct payment payment = payment_by("card");
    struct caller caller;

    (void)state;
    start_provider(WAITS, PAID);
    struct payments *room = room_with("http", "/charges");
    charge_that_waits(room, &payment, &caller);
    move_clock(room, 5 * (int64_t)TIME_US_PER_S);
    assert_int_equal(await_told(&caller), PAYMENT_UNDECIDED);
    assert_int_equal(atomic_load(&settle_count), 0);
    atomic_store(&provider.let, true);
    assert_int_equal(await_settled(1, &payment), PAYMENT_PAID);
    await_nothing_under_way(room);
    assert_int_equal(atomic_load(&caller.times), 1);
    end_room(&room);
    end_provider();
}

static void
the_room_stops_amidst_a_transfer(void **state)
{
    struct payment payment = payment_by("card");
    struct caller caller;

    (void)state;
    start_provider(WAITS, PAID);
    struct payments *room = room_with("http", "/charges");
    charge_that_waits(room, &payment, &caller);
    payments_stop(room);
    assert_int_equal(atomic_load(&caller.outcome), PAYMENT_UNDECIDED);
    assert_int_equal(atomic_load(&caller.times), 1);
    assert_int_equal(atomic_load(&room->under_way), 0);
    end_room(&room);
    end_provider();
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_answers_decide),
        cmocka_unit_test(anything_else_is_no_answer),
        cmocka_unit_test(a_charge_is_posted_signed_under_its_intent),
        cmocka_unit_test(an_ask_is_a_get_signed_over_the_intent),
        cmocka_unit_test(what_was_sent_and_not_answered_is_undecided),
        cmocka_unit_test(redirects_are_not_followed),
        cmocka_unit_test(what_could_not_be_sent_is_unreached),
        cmocka_unit_test(what_was_sent_on_a_kept_connection_that_broke_is_undecided),
        cmocka_unit_test(an_ask_without_answer_stays_due_until_the_last_time),
        cmocka_unit_test(a_charge_that_was_never_heard_of_has_timed_out),
        cmocka_unit_test(an_answer_that_no_caller_waits_for_is_settled),
        cmocka_unit_test(the_room_stops_amidst_a_transfer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
