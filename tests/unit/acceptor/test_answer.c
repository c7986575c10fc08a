/* The answer's bytes, and the exchange whose memory they use. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "answer.h"
#include "outbox.h"

static struct memory_budget budget;
static struct outbox outbox;
static struct exchange_pool pool;

static const struct answer_context context = {
    .date = { "Sun, 06 Nov 1994 08:49:37 GMT", ANSWER_DATE_BYTES - 1 },
    .node_line = { "X-Holdfast-Node: n\r\n", 20 },
};

static struct exchange *
answered(int status, const char *body)
{
    struct exchange *exchange = exchange_get(&pool);
    assert_non_null(exchange);
    exchange->public.reply.status = status;
    exchange->public.reply.content_type = "text/plain";
    buf_append_text(&exchange->public.reply.body, body);
    strcpy(exchange->public.request.request_id, "id");
    return exchange;
}

static void
assert_head(const struct exchange *exchange, const char *expected)
{
    if (exchange->answer_head_len != strlen(expected) ||
        memcmp(exchange->answer_head, expected, strlen(expected)) != 0)
        fail_msg("%.*s", (int)exchange->answer_head_len, exchange->answer_head);
}

static void
dates_are_written_as_rfc_9110_has_them(void **state)
{
    char text[ANSWER_DATE_BYTES];
    (void)state;
    answer_format_date(784111777, text);
    assert_string_equal(text, "Sun, 06 Nov 1994 08:49:37 GMT");
    answer_format_date(0, text);
    assert_string_equal(text, "Thu, 01 Jan 1970 00:00:00 GMT");
    answer_format_date(1709251199, text);
    assert_string_equal(text, "Thu, 29 Feb 2024 23:59:59 GMT");
    answer_format_date(1735689600, text);
    assert_string_equal(text, "Wed, 01 Jan 2025 00:00:00 GMT");
}

static void
a_small_answer_is_one_piece(void **state)
{
    struct exchange *exchange = answered(200, "hello");
    (void)state;
    http_reply_header(&exchange->public.reply, "ETag", SLICE_LITERAL("\"1\""));
    assert_true(answer_prepare(exchange, &context));
    assert_head(exchange, "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
                          "Content-Type: text/plain\r\nContent-Length: 5\r\nX-Request-Id: id\r\n"
                          "X-Holdfast-Node: n\r\nETag: \"1\"\r\n\r\nhello");
    assert_int_equal(exchange->answer_body.len, 0);
    exchange_put(&pool, exchange);
}

static void
a_large_body_is_not_copied(void **state)
{
    struct exchange *exchange = answered(404, "");
    char *bytes = calloc(1, 100000);
    struct http_body *shared = http_body_new(bytes, 100000);
    (void)state;
    assert_non_null(shared);
    exchange->public.reply.shared = http_body_get(shared);
    assert_true(answer_prepare(exchange, &context));
    assert_ptr_equal(exchange->answer_body.ptr, shared->bytes);
    assert_int_equal(exchange->answer_body.len, 100000);
    exchange_put(&pool, exchange);
    assert_int_equal(shared->refs, 1);
    http_body_put(shared);
    free(bytes);
}

static void
every_status_of_the_table_has_a_reason(void **state)
{
    (void)state;
    for (int status = 0; status < HF_STATUS_COUNT; status++) {
        struct exchange *exchange = answered(status_http((enum hf_status)status), "");
        assert_true(answer_prepare(exchange, &context));
        assert_memory_equal(exchange->answer_head, "HTTP/1.1 ", 9);
        assert_true(exchange->answer_head[13] >= 'A' && exchange->answer_head[13] <= 'Z');
        exchange_put(&pool, exchange);
    }
}

static void
close_and_keep_alive_are_said_when_they_must(void **state)
{
    struct answer_context closing = context;
    struct exchange *exchange = answered(204, "");
    (void)state;
    closing.close = true;
    exchange->http_1_0 = true;
    assert_true(answer_prepare(exchange, &closing));
    assert_head(exchange, "HTTP/1.1 204 No Content\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
                          "X-Request-Id: id\r\nX-Holdfast-Node: n\r\nConnection: close\r\n\r\n");
    assert_true(answer_prepare(exchange, &context));
    assert_head(exchange,
                "HTTP/1.1 204 No Content\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
                "X-Request-Id: id\r\nX-Holdfast-Node: n\r\nConnection: keep-alive\r\n\r\n");
    exchange_put(&pool, exchange);
}

static void
an_exchange_used_again_remembers_nothing(void **state)
{
    struct exchange *exchange = answered(200, "secret");
    (void)state;
    exchange->public.request.authorization = SLICE_LITERAL("Bearer secret");
    exchange->keep_alive = true;
    exchange_put(&pool, exchange);
    exchange = exchange_get(&pool);
    assert_int_equal(exchange->public.request.authorization.len, 0);
    assert_int_equal(exchange->public.reply.body.len, 0);
    assert_int_equal(exchange->public.reply.headers.len, 0);
    assert_int_equal(exchange->public.reply.status, 0);
    assert_null(exchange->public.user);
    assert_false(exchange->keep_alive || exchange->sent || exchange->prepared);
    exchange_put(&pool, exchange);
}

static void
the_budget_is_kept_to_and_given_back(void **state)
{
    struct exchange *exchange = exchange_get(&pool);
    static char bytes[65536];
    (void)state;
    budget.max = 100000;
    assert_true(exchange_head_append(exchange, bytes, 100));
    assert_true(exchange_body_append(exchange, bytes, 1000));
    assert_int_equal(budget.used, 0); /* the arena costs nothing more */
    assert_true(exchange_body_append(exchange, bytes, 30000));
    assert_true(budget.used >= 31000);
    assert_false(exchange_body_append(exchange, bytes, 65536));
    assert_int_equal(exchange->body.len, 31000);
    exchange_put(&pool, exchange);
    assert_int_equal(budget.used, 0);
    assert_false(memory_budget_take(&budget, SIZE_MAX));
    assert_int_equal(budget.used, 0);
    budget.max = SIZE_MAX;
}

static int
set_up(void **state)
{
    (void)state;
    budget.max = SIZE_MAX;
    exchange_pool_init(&pool, &budget, &outbox);
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    exchange_pool_fini(&pool);
    return 0;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dates_are_written_as_rfc_9110_has_them),
        cmocka_unit_test(a_small_answer_is_one_piece),
        cmocka_unit_test(a_large_body_is_not_copied),
        cmocka_unit_test(every_status_of_the_table_has_a_reason),
        cmocka_unit_test(close_and_keep_alive_are_said_when_they_must),
        cmocka_unit_test(an_exchange_used_again_remembers_nothing),
        cmocka_unit_test(the_budget_is_kept_to_and_given_back),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
