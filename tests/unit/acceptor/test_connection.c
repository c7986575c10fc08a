/* One connection's life, over a real socket. */
#include "acceptor_harness.h"

#include <sys/time.h>

#define H "Host: a\r\n"

static struct harness h;

static int
set_up(void **state)
{
    (void)state;
    harness_init(&h);
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    if (h.acceptor != NULL)
        harness_stop(&h);
    return 0;
}

static void
an_answer_has_the_headers_that_all_have(void **state)
{
    struct response response;
    (void)state;
    harness_start(&h);
    struct client client = client_open(&h);
    client_send(&client, "GET /header HTTP/1.1\r\n" H "X-Request-Id: my-id\r\n\r\n");
    client_read(&client, &response);
    assert_int_equal(response.status, 200);
    assert_string_equal(response_header(&response, "X-Request-Id"), "my-id");
    assert_string_equal(response_header(&response, "X-Holdfast-Node"), "node-1");
    assert_string_equal(response_header(&response, "Content-Type"), "text/plain");
    assert_string_equal(response_header(&response, "Content-Length"), "7");
    assert_string_equal(response_header(&response, "X-Test"), "a  Injected: b");
    assert_null(response_header(&response, "Injected"));
    assert_null(response_header(&response, "Connection"));
    const char *date = response_header(&response, "Date");
    struct tm tm;
    assert_non_null(strptime(date, "%a, %d %b %Y %H:%M:%S GMT", &tm));
    time_t then = timegm(&tm);
    assert_true(labs((long)(time(NULL) - then)) <= 2);
    response_fini(&response);
    client_close(&client);
}

static void
a_connection_serves_many_requests(void **state)
{
    (void)state;
    harness_start(&h);
    struct client client = client_open(&h);
    for (int i = 0; i < 500; i++) {
        char path[32];
        snprintf(path, sizeof(path), "/r%d", i);
        client_get(&client, path);
        client_expect(&client, 200, path);
    }
    client_close(&client);
}

static void
pipelined_answers_leave_in_order_of_requests(void **state)
{
    char path[32];
    (void)state;
    harness_start(&h);
    struct client client = client_open(&h);
    for (int i = 0; i < 40; i++) { /* every other one is answered at once, behind one that isn't */
        snprintf(path, sizeof(path), i % 2 ? "/now%d" : "/held%d", i);
        client_get(&client, path);
    }
    harness_wait_held(&h, 20);
    for (int i = 19; i >= 0; i--)
        harness_release(&h, i);
    for (int i = 0; i < 40; i++) {
        snprintf(path, sizeof(path), i % 2 ? "/now%d" : "/held%d", i);
        client_expect(&client, 200, path);
    }
    client_close(&client);
}

static void
a_pipelined_burst_is_answered_whole(void **state)
{
    struct buf text = { 0 };
    char path[32];
    (void)state;
    harness_start(&h);
    for (int i = 0; i < 3000; i++)
        buf_printf(&text, "GET /p%d HTTP/1.1\r\n" H "\r\n", i);
    assert_false(text.failed);
    struct client client = client_open(&h);
    client_send_bytes(&client, text.data, text.len);
    for (int i = 0; i < 3000; i++) {
        snprintf(path, sizeof(path), "/p%d", i);
        client_expect(&client, 200, path);
    }
    buf_fini(&text);
    client_close(&client);
}

static void
at_most_64_requests_of_a_connection_are_under_way(void **state)
{
    (void)state;
    harness_start(&h);
    struct client client = client_open(&h), other = client_open(&h);
    for (int i = 0; i < 150; i++)
        client_get(&client, "/held");
    harness_wait_held(&h, 64);
    client_get(&other, "/other"); /* the loop has been around since */
    client_expect(&other, 200, "/other");
    assert_int_equal(harness_held(&h), 64);
    for (int i = 0; i < 150; i++) {
        harness_wait_held(&h, i + 1);
        assert_true(harness_held(&h) <= i + 64);
        harness_release(&h, i);
        client_expect(&client, 200, "/held");
    }
    client_close(&client);
    client_close(&other);
}

static void
a_client_that_takes_no_answers_is_not_read(void **state)
{
    enum { BODY = 512 * 1024, REQUESTS = 60 };
    static char bytes[BODY];
    struct response response;
    struct buf requests = { 0 };
    (void)state;
    h.big = http_body_new(bytes, BODY);
    assert_non_null(h.big);
    harness_start(&h);
    struct client client = client_open_narrow(&h), other = client_open(&h);
    for (int i = 0; i < REQUESTS; i++)
        buf_append_text(&requests, "GET /shared HTTP/1.1\r\n" H "\r\n");
    assert_false(requests.failed);
    client_send_bytes(&client, requests.data, requests.len); /* at once: one read takes them all */
    buf_fini(&requests);
    for (int i = 0; i < 5; i++) {
        client_get(&other, "/other");
        client_expect(&other, 200, "/other");
    }
    /* The sender's buffer swallows some MiB, then at most one MiB and one answer may wait. */
    assert_true(atomic_load(&h.handled) < REQUESTS);
    for (int i = 0; i < REQUESTS; i++) {
        client_read(&client, &response);
        assert_int_equal(response.status, 200);
        assert_int_equal(response.body_len, BODY);
        response_fini(&response);
    }
    client_close(&client);
    client_close(&other);
}

static void
a_large_answer_arrives_whole_at_a_slow_reader(void **state)
{
    enum { BODY = 24 * 1024 * 1024 };
    struct response response;
    char *bytes = malloc(BODY);
    (void)state;
    assert_non_null(bytes);
    for (int i = 0; i < BODY; i++)
        bytes[i] = (char)(i * 7 + i / 1000);
    h.big = http_body_new(bytes, BODY);
    assert_non_null(h.big);
    harness_start(&h);
    struct client client = client_open_narrow(&h);
    client_get(&client, "/shared");
    client_get(&client, "/after");
    client_read(&client, &response);
    assert_int_equal(response.body_len, BODY);
    assert_memory_equal(response.body, bytes, BODY);
    response_fini(&response);
    client_expect(&client, 200, "/after");
    client_close(&client);
    free(bytes);
}

static void
head_has_the_length_but_no_body(void **state)
{
    struct response response;
    (void)state;
    harness_start(&h);
    struct client client = client_open(&h);
    client_send(&client, "HEAD /hello HTTP/1.1\r\n" H "\r\n");
    client_read_any(&client, &response, true);
    assert_string_equal(response_header(&response, "Content-Length"), "6");
    response_fini(&response);
    client_get(&client, "/next"); /* the very next bytes are its answer */
    client_expect(&client, 200, "/next");
    client_close(&client);
}

static void
no_content_and_not_modified_have_neither_body_nor_length(void **state)
{
    static const char *paths[] = { "/no-content", "/not-modified" };
    struct response response;
    (void)state;
    harness_start(&h);
    struct client client = client_open(&h);
    for (int i = 0; i < 2; i++) {
        client_get(&client, paths[i]);
        client_read(&client, &response);
        assert_int_equal(response.status, i ? 304 : 204);
        assert_null(response_header(&response, "Content-Length"));
        assert_null(response_header(&response, "Content-Type"));
        response_fini(&response);
    }
    client_get(&client, "/next");
    client_expect(&client, 200, "/next");
    client_close(&client);
}

static void
http_1_0_closes_unless_it_asks_to_stay(void **state)
{
    struct response response;
    (void)state;
    harness_start(&h);
    struct client client = client_open(&h);
    client_send(&client, "GET /1 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    client_read(&client, &response);
    assert_string_equal(response_header(&response, "Connection"), "keep-alive");
    response_fini(&response);
    client_send(&client, "GET /2 HTTP/1.0\r\n\r\n");
    client_read(&client, &response);
    assert_string_equal(response.body, "/2");
    assert_string_equal(response_header(&response, "Connection"), "close");
    response_fini(&response);
    client_expect_end(&client);
    client_close(&client);
}

static void
connection_close_ends_after_the_answer(void **state)
{
    static const char *requests[] = { "GET /x HTTP/1.1\r\n" H "Connection: close\r\n\r\n",
                                      "GET /close HTTP/1.1\r\n" H "\r\n" };
    struct response response;
    (void)state;
    harness_start(&h);
    for (int i = 0; i < 2; i++) {
        struct client client = client_open(&h);
        client_send(&client, requests[i]);
        client_read(&client, &response);
        assert_int_equal(response.status, 200);
        assert_string_equal(response_header(&response, "Connection"), "close");
        response_fini(&response);
        client_expect_end(&client);
        client_close(&client);
    }
    harness_wait_connections(&h, 0);
}

static void
a_close_is_said_on_the_last_answer_under_way(void **state)
{
    struct response response;
    (void)state;
    harness_start(&h);
    struct client client = client_open(&h);
    client_get(&client, "/held1");
    client_get(&client, "/close");
    client_get(&client, "/held2");
    harness_wait_held(&h, 2);
    harness_release(&h, 0);
    client_read(&client, &response);
    assert_string_equal(response.body, "/held1");
    response_fini(&response);
    client_read(&client, &response); /* /held2 may have taken effect: it gets its answer */
    assert_string_equal(response.body, "/close");
    assert_null(response_header(&response, "Connection"));
    response_fini(&response);
    harness_release(&h, 1);
    client_read(&client, &response);
    assert_string_equal(response.body, "/held2");
    assert_string_equal(response_header(&response, "Connection"), "close");
    response_fini(&response);
    client_expect_end(&client);
    client_close(&client);
}

static void
bad_bytes_get_a_problem_and_the_end(void **state)
{
    static const struct {
        const char *text;
        int status;
        const char *code;
    } cases[] = {
        { "GET / HTTP/1.1\r\n\r\n", 400, "bad_request" },
        { "GET / HTTP/1.1\r\n" H "X: a\r\n b\r\n\r\n", 400, "bad_request" },
        { "nonsense\r\n\r\n", 400, "bad_request" },
        { "TRACE / HTTP/1.1\r\n" H "\r\n", 405, "method_not_allowed" },
        { "POST / HTTP/1.1\r\n" H "\r\n", 411, "length_required" },
        { "POST /tiny HTTP/1.1\r\n" H "Content-Length: 17\r\n\r\n", 413, "body_too_large" },
    };
    struct response response;
    char code[64];
    (void)state;
    harness_start(&h);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct client client = client_open(&h);
        client_get(&client, "/before");
        client_send(&client, cases[i].text);
        client_send(&client, "GET /never HTTP/1.1\r\n" H "\r\n");
        client_expect(&client, 200, "/before");
        client_read(&client, &response);
        assert_int_equal(response.status, cases[i].status);
        snprintf(code, sizeof(code), "\"code\":\"%s\"", cases[i].code);
        assert_non_null(strstr(response.body, code));
        assert_string_equal(response_header(&response, "Connection"), "close");
        assert_string_equal(response_header(&response, "Content-Type"), "application/problem+json");
        assert_int_equal(strlen(response_header(&response, "X-Request-Id")), 36);
        response_fini(&response);
        client_expect_end(&client);
        client_close(&client);
    }
}

static void
a_refusal_waits_for_the_answers_before_it(void **state)
{
    (void)state;
    harness_start(&h);
    struct client client = client_open(&h);
    client_get(&client, "/held1");
    client_send(&client, "bad\r\n\r\n");
    harness_wait_held(&h, 1);
    harness_release(&h, 0);
    client_expect(&client, 200, "/held1");
    client_expect(&client, 400, NULL);
    client_expect_end(&client);
    client_close(&client);
}

static void
a_refused_upload_sees_its_answer_not_a_reset(void **state)
{
    enum { BODY = 6 * 1024 * 1024 };
    static char body[BODY];
    (void)state;
    harness_start(&h);
    struct client client = client_open(&h);
    client_send(&client, "POST /tiny HTTP/1.1\r\n" H "Content-Length: 6291456\r\n\r\n");
    client_send_bytes(&client, body, BODY); /* sent before the answer is looked at */
    client_expect(&client, 413, NULL);
    client_expect_end(&client);
    client_close(&client);
}

static void
continue_comes_before_the_body_and_after_earlier_answers(void **state)
{
    (void)state;
    harness_start(&h);
    struct client client = client_open(&h);
    client_get(&client, "/held");
    client_send(&client,
                "POST /echo HTTP/1.1\r\n" H "Expect: 100-continue\r\nContent-Length: 4\r\n\r\n");
    harness_wait_held(&h, 1);
    harness_release(&h, 0);
    client_expect(&client, 200, "/held");
    client_expect(&client, 100, "");
    client_send(&client, "body");
    client_expect(&client, 200, "/echo body");
    /* A body that is there already needs no word; one refused gets none. */
    client_send(&client, "POST /echo HTTP/1.1\r\n" H
                         "Expect: 100-continue\r\nContent-Length: 4\r\n\r\nbody");
    client_expect(&client, 200, "/echo body");
    client_send(&client,
                "POST /tiny HTTP/1.1\r\n" H "Expect: 100-continue\r\nContent-Length: 40\r\n\r\n");
    client_expect(&client, 413, NULL);
    client_expect_end(&client);
    client_close(&client);
}

static void
an_upload_larger_than_any_buffer_arrives_whole(void **state)
{
    enum { BODY = 3 * 1024 * 1024 };
    struct response response;
    char *body = malloc(BODY);
    (void)state;
    assert_non_null(body);
    for (int i = 0; i < BODY; i++)
        body[i] = (char)('a' + i % 23);
    harness_start(&h);
    struct client client = client_open(&h);
    client_send(&client, "PUT /up HTTP/1.1\r\n" H "Content-Length: 3145728\r\n\r\n");
    client_send_bytes(&client, body, BODY);
    client_read(&client, &response);
    assert_int_equal(response.body_len, BODY + 4);
    assert_memory_equal(response.body + 4, body, BODY);
    response_fini(&response);
    client_close(&client);
    free(body);
}

static void
a_header_larger_than_the_arena_both_ways(void **state)
{
    char text[12000];
    struct response response;
    (void)state;
    harness_start(&h);
    struct client client = client_open(&h);
    snprintf(text, sizeof(text),
             "POST /many-headers HTTP/1.1\r\n" H "X: %0*d\r\nContent-Length: 2\r\n\r\nhi", 9000, 7);
    for (int i = 0; i < 3; i++) {
        client_send(&client, text);
        client_read(&client, &response);
        assert_int_equal(response.status, 200);
        assert_true(strlen(response.head) > 4000);
        assert_string_equal(response.body, "/many-headers hi");
        response_fini(&response);
    }
    client_close(&client);
}

static void
a_reply_that_memory_ran_out_for_is_500(void **state)
{
    (void)state;
    harness_start(&h);
    struct client client = client_open(&h);
    client_get(&client, "/no-memory");
    client_expect(&client, 500, NULL);
    client_get(&client, "/next");
    client_expect(&client, 200, "/next");
    client_close(&client);
}

static void
when_body_memory_is_used_up_a_body_is_503(void **state)
{
    static char body[1 << 20];
    (void)state;
    h.config.body_memory_max = 100000;
    harness_start(&h);
    struct client client = client_open(&h), small = client_open(&h);
    client_send(&client, "PUT /up HTTP/1.1\r\n" H "Content-Length: 1048576\r\n\r\n");
    client_send_bytes(&client, body, sizeof(body));
    client_expect(&client, 503, NULL);
    client_expect_end(&client);
    client_send(&small, "PUT /up HTTP/1.1\r\n" H "Content-Length: 2\r\n\r\nhi");
    client_expect(&small, 200, "/up hi");
    client_close(&client);
    client_close(&small);
}

static void
a_client_that_shut_its_side_gets_its_answers(void **state)
{
    (void)state;
    harness_start(&h);
    struct client client = client_open(&h);
    client_get(&client, "/held");
    client_get(&client, "/now");
    client_send(&client, "GET /half"); /* never ends */
    shutdown(client.fd, SHUT_WR);
    harness_wait_held(&h, 1);
    harness_release(&h, 0);
    client_expect(&client, 200, "/held");
    client_expect(&client, 200, "/now");
    client_expect_end(&client);
    client_close(&client);
    harness_wait_connections(&h, 0);
}

static void
an_exchange_outlives_its_client(void **state)
{
    (void)state;
    harness_start(&h);
    for (int i = 0; i < 10; i++) {
        struct client client = client_open(&h);
        client_get(&client, "/held");
        harness_wait_held(&h, i + 1);
        client_reset(&client);
    }
    harness_wait_connections(&h, 0);
    for (int i = 0; i < 10; i++) {
        assert_true(slice_is(h.held[i]->request.path, "/held")); /* still valid */
        harness_release(&h, i);
    }
    struct client client = client_open(&h);
    client_get(&client, "/next");
    client_expect(&client, 200, "/next");
    client_close(&client);
}

static void
a_client_may_leave_behind_a_pipeline(void **state)
{
    (void)state;
    harness_start(&h);
    for (int i = 0; i < 10; i++) {
        struct client client = client_open(&h);
        client_send(&client,
                    "GET /held HTTP/1.1\r\n" H "\r\nGET /now HTTP/1.1\r\n" H "\r\nGET /half");
        harness_wait_held(&h, i + 1);
        client_reset(&client);
    }
    for (int i = 0; i < 10; i++)
        harness_release(&h, i);
    harness_wait_connections(&h, 0);
}

static int64_t
elapsed_ms(struct mono_time since)
{
    return (mono_now().us - since.us) / TIME_US_PER_MS;
}

static void
a_slow_header_is_answered_400_and_closed(void **state)
{
    struct response response;
    (void)state;
    h.config.header_timeout = 200 * TIME_US_PER_MS;
    harness_start(&h);
    struct mono_time start = mono_now();
    struct client client = client_open(&h);
    client_send(&client, "GET / HTTP/1.1\r\nHos");
    client_read(&client, &response);
    assert_true(elapsed_ms(start) >= 200);
    assert_int_equal(response.status, 400);
    assert_non_null(strstr(response.body, "too slow"));
    assert_string_equal(response_header(&response, "Connection"), "close");
    response_fini(&response);
    client_expect_end(&client);
    client_close(&client);
}

static void
single_bytes_do_not_put_the_header_timeout_off(void **state)
{
    struct timeval short_wait = { .tv_usec = 20000 };
    char byte;
    (void)state;
    h.config.header_timeout = 300 * TIME_US_PER_MS;
    harness_start(&h);
    struct mono_time start = mono_now();
    struct client client = client_open(&h);
    setsockopt(client.fd, SOL_SOCKET, SO_RCVTIMEO, &short_wait, sizeof(short_wait));
    client_send(&client, "GET /");
    while (recv(client.fd, &byte, 1, 0) < 0) { /* a byte each 20 ms, until it answers */
        assert_int_equal(errno, EAGAIN);
        assert_true(elapsed_ms(start) < 10000);
        client_send(&client, "x");
    }
    assert_true(elapsed_ms(start) >= 300);
    client_close(&client);
}

static void
a_slow_body_is_answered_400_and_closed(void **state)
{
    (void)state;
    h.config.body_timeout = 200 * TIME_US_PER_MS;
    harness_start(&h);
    struct mono_time start = mono_now();
    struct client client = client_open(&h);
    client_send(&client, "POST / HTTP/1.1\r\n" H "Content-Length: 10\r\n\r\nhalf");
    client_expect(&client, 400, NULL);
    assert_true(elapsed_ms(start) >= 200);
    client_expect_end(&client);
    client_close(&client);
}

static void
an_idle_connection_is_closed_without_a_word(void **state)
{
    (void)state;
    h.config.idle_timeout = 200 * TIME_US_PER_MS;
    harness_start(&h);
    struct mono_time start = mono_now();
    struct client fresh = client_open(&h), used = client_open(&h), blank = client_open(&h);
    client_get(&used, "/x");
    client_expect(&used, 200, "/x");
    client_send(&blank, "\r\n\r\n"); /* empty lines begin nothing */
    client_expect_end(&fresh);
    client_expect_end(&used);
    client_expect_end(&blank);
    assert_true(elapsed_ms(start) >= 190);
    client_close(&fresh);
    client_close(&used);
    client_close(&blank);
}

static void
a_request_under_way_is_not_idle(void **state)
{
    (void)state;
    h.config.idle_timeout = h.config.header_timeout = h.config.body_timeout =
        TIME_US_PER_S; /* so long may this thread stand still before it asks */
    harness_start(&h);
    struct client working = client_open(&h), idle = client_open(&h);
    client_get(&working, "/held");
    harness_wait_held(&h, 1);
    client_expect_end(&idle); /* its time is over ... */
    client_close(&idle);
    idle = client_open(&h);
    client_expect_end(&idle); /* ... twice, and the other one still waits */
    harness_release(&h, 0);
    client_expect(&working, 200, "/held");
    client_close(&working);
    client_close(&idle);
}

static void
a_client_that_takes_no_answer_is_cut_off(void **state)
{
    enum { BODY = 32 * 1024 * 1024 };
    static char bytes[BODY];
    (void)state;
    h.config.write_timeout = 200 * TIME_US_PER_MS;
    h.big = http_body_new(bytes, BODY);
    assert_non_null(h.big);
    harness_start(&h);
    struct client client = client_open_narrow(&h);
    client_get(&client, "/shared");
    harness_wait_handled(&h, 1);
    harness_wait_connections(&h, 0); /* nothing was read */
    client_close(&client);
}

static void
a_lingering_connection_does_not_linger_forever(void **state)
{
    (void)state;
    harness_start(&h);
    struct client client = client_open(&h);
    client_send(&client, "bad\r\n\r\n");
    client_expect(&client, 400, NULL);
    client_expect_end(&client);
    harness_wait_connections(&h, 0); /* though the client never closes */
    client_close(&client);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(an_answer_has_the_headers_that_all_have),
        CASE(a_connection_serves_many_requests),
        CASE(pipelined_answers_leave_in_order_of_requests),
        CASE(a_pipelined_burst_is_answered_whole),
        CASE(at_most_64_requests_of_a_connection_are_under_way),
        CASE(a_client_that_takes_no_answers_is_not_read),
        CASE(a_large_answer_arrives_whole_at_a_slow_reader),
        CASE(head_has_the_length_but_no_body),
        CASE(no_content_and_not_modified_have_neither_body_nor_length),
        CASE(http_1_0_closes_unless_it_asks_to_stay),
        CASE(connection_close_ends_after_the_answer),
        CASE(a_close_is_said_on_the_last_answer_under_way),
        CASE(bad_bytes_get_a_problem_and_the_end),
        CASE(a_refusal_waits_for_the_answers_before_it),
        CASE(a_refused_upload_sees_its_answer_not_a_reset),
        CASE(continue_comes_before_the_body_and_after_earlier_answers),
        CASE(an_upload_larger_than_any_buffer_arrives_whole),
        CASE(a_header_larger_than_the_arena_both_ways),
        CASE(a_reply_that_memory_ran_out_for_is_500),
        CASE(when_body_memory_is_used_up_a_body_is_503),
        CASE(a_client_that_shut_its_side_gets_its_answers),
        CASE(an_exchange_outlives_its_client),
        CASE(a_client_may_leave_behind_a_pipeline),
        CASE(a_slow_header_is_answered_400_and_closed),
        CASE(single_bytes_do_not_put_the_header_timeout_off),
        CASE(a_slow_body_is_answered_400_and_closed),
        CASE(an_idle_connection_is_closed_without_a_word),
        CASE(a_request_under_way_is_not_idle),
        CASE(a_client_that_takes_no_answer_is_cut_off),
        CASE(a_lingering_connection_does_not_linger_forever),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
