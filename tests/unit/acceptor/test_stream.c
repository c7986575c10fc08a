/* Answers without an end: pieces from any thread, to readers of every kind. */
#include "acceptor_harness.h"

#include <semaphore.h>
#include <sys/resource.h>

#include "holdfast/metrics.h"
#include "stream.h"

#define H       "Host: a\r\n"
#define BACKLOG ((size_t)1024 * 1024)

static struct harness h;

/* One stream as its beginner sees it. */
struct tale {
    struct http_stream *stream;
    atomic_int closed;
};

static struct tale told_at_once; /* what /stream begins, on its loop's thread */

static void
on_closed(void *context)
{
    atomic_fetch_add(&((struct tale *)context)->closed, 1);
}

static void
tale_begin_with(struct tale *tale, struct http_exchange *exchange, size_t backlog_max,
                void (*closed)(void *context))
{
    exchange->reply.content_type = "text/event-stream";
    http_reply_header(&exchange->reply, "X-Test", SLICE_LITERAL("stream"));
    atomic_init(&tale->closed, 0);
    tale->stream = http_exchange_stream(exchange, backlog_max, closed, tale);
    assert_non_null(tale->stream);
}

static void
tale_begin(struct tale *tale, struct http_exchange *exchange, size_t backlog_max)
{
    tale_begin_with(tale, exchange, backlog_max, on_closed);
}

static bool
tale_tell_bytes(struct tale *tale, const void *bytes, size_t len)
{
    struct http_body *body = http_body_new(bytes, len);
    assert_non_null(body);
    bool taken = http_stream_send(tale->stream, body);
    http_body_put(body);
    return taken;
}

static bool
tale_tell(struct tale *tale, const char *text)
{
    return tale_tell_bytes(tale, text, strlen(text));
}

static void
tale_wait_closed(struct tale *tale)
{
    struct timespec pause = { .tv_nsec = 2 * 1000 * 1000 };
    for (int i = 0; i < CLIENT_PATIENCE_S * 500 && atomic_load(&tale->closed) == 0; i++)
        nanosleep(&pause, NULL);
    assert_int_equal(atomic_load(&tale->closed), 1);
}

/* It has closed by itself: the beginner hears of it, and lets go. */
static void
tale_expect_closed(struct tale *tale)
{
    tale_wait_closed(tale);
    assert_false(tale_tell(tale, "to nobody"));
    http_stream_end(tale->stream);
    assert_int_equal(atomic_load(&tale->closed), 1);
}

static void
handle(void *context, struct http_exchange *exchange)
{
    if (!slice_is(exchange->request.path, "/stream")) {
        harness_handle(context, exchange);
        return;
    }
    harness_count(context, exchange);
    tale_begin(&told_at_once, exchange, BACKLOG);
    assert_true(tale_tell(&told_at_once, "at once"));
}

static int
set_up(void **state)
{
    (void)state;
    harness_init(&h);
    h.handler.handle = handle;
    return 0;
}

/* What the gauge says, as the world sees it. */
static void
assert_no_stream_is_open(void)
{
    struct buf text = { 0 };
    metrics_write(&text);
    buf_append_char(&text, '\0');
    assert_false(text.failed);
    assert_non_null(strstr(text.data, "\nholdfast_http_streams 0\n"));
    buf_fini(&text);
}

static int
tear_down(void **state)
{
    (void)state;
    if (h.acceptor != NULL)
        harness_stop(&h);
    assert_no_stream_is_open();
    return 0;
}

/* Asks for /held, and begins a stream as its answer, from this thread. */
static void
begin_held_with(struct tale *tale, struct client *client, size_t backlog_max,
                void (*closed)(void *context))
{
    int at = harness_held(&h);
    client_get(client, "/held");
    harness_wait_held(&h, at + 1);
    tale_begin_with(tale, harness_take_held(&h, at), backlog_max, closed);
}

static void
begin_held(struct tale *tale, struct client *client, size_t backlog_max)
{
    begin_held_with(tale, client, backlog_max, on_closed);
}

/* --- the client's side --------------------------------------------------------- */

static void
client_expect_head(struct client *client)
{
    struct response response;
    client_read(client, &response);
    assert_int_equal(response.status, 200);
    assert_string_equal(response_header(&response, "Transfer-Encoding"), "chunked");
    assert_string_equal(response_header(&response, "Content-Type"), "text/event-stream");
    assert_string_equal(response_header(&response, "Connection"), "close");
    assert_string_equal(response_header(&response, "X-Test"), "stream");
    assert_null(response_header(&response, "Content-Length"));
    response_fini(&response);
}

static void
client_need(struct client *client, size_t len)
{
    while (client->len < len) {
        if (!client_fill(client))
            fail_msg("closed within a chunk");
    }
}

/* The head of the next chunk: its size, and how long the head was. */
static size_t
client_chunk_size(struct client *client, size_t *head_len)
{
    char *end;
    client_need(client, 3);
    while ((end = memmem(client->bytes, client->len, "\r\n", 2)) == NULL)
        client_need(client, client->len + 1);
    *head_len = (size_t)(end - client->bytes) + 2;
    assert_true(strspn(client->bytes, "0123456789abcdef") == *head_len - 2);
    return strtoul(client->bytes, NULL, 16);
}

/* One chunk, exactly these bytes. */
static void
client_expect_chunk_bytes(struct client *client, const void *bytes, size_t len)
{
    size_t head_len;
    assert_int_equal(client_chunk_size(client, &head_len), len);
    client_need(client, head_len + len + 2);
    if (len > 0)
        assert_memory_equal(client->bytes + head_len, bytes, len);
    assert_memory_equal(client->bytes + head_len + len, "\r\n", 2);
    client_use(client, head_len + len + 2);
}

static void
client_expect_chunk(struct client *client, const char *text)
{
    client_expect_chunk_bytes(client, text, strlen(text));
}

static void
client_expect_last_chunk(struct client *client)
{
    client_expect_chunk_bytes(client, NULL, 0);
    client_expect_end(client);
}

/* Everything until the end, which may come in the middle of a chunk, or as a reset. */
static size_t
client_read_out(struct client *client)
{
    char bytes[65536];
    size_t all = client->len;
    ssize_t got;
    while ((got = recv(client->fd, bytes, sizeof(bytes), 0)) > 0)
        all += (size_t)got;
    assert_true(got == 0 || errno == ECONNRESET);
    return all;
}

/* --- framing and order --------------------------------------------------------- */

static void
each_piece_is_a_chunk_and_the_end_is_the_last(void **state)
{
    enum { LARGE = 300000 };
    static char large[LARGE];
    struct tale tale;
    (void)state;
    memset(large, 'x', sizeof(large));
    harness_start(&h);
    struct client client = client_open(&h);
    begin_held(&tale, &client, BACKLOG);
    client_expect_head(&client); /* before there is a piece */
    assert_true(tale_tell(&tale, "event: a\n\n"));
    client_expect_chunk(&client, "event: a\n\n");
    assert_true(tale_tell_bytes(&tale, large, LARGE));
    client_expect_chunk_bytes(&client, large, LARGE);
    assert_true(tale_tell(&tale, "the last words"));
    assert_int_equal(atomic_load(&tale.closed), 0);
    http_stream_end(tale.stream);
    client_expect_chunk(&client, "the last words");
    client_expect_last_chunk(&client);
    client_close(&client);
    tale_wait_closed(&tale);
    harness_wait_connections(&h, 0);
}

static sem_t stands_still, may_go_on;

static void
on_closed_stand_still(void *context)
{
    on_closed(context);
    hf_must(sem_post(&stands_still));
    hf_must(sem_wait(&may_go_on));
}

/* The streams' loop stands still, so that what is sent gathers: it is told that `gate` is closed.
 */
static void
stop_the_loop(struct tale *gate)
{
    struct client client = client_open(&h);
    hf_must(sem_init(&stands_still, 0, 0));
    hf_must(sem_init(&may_go_on, 0, 0));
    begin_held_with(gate, &client, BACKLOG, on_closed_stand_still);
    client_expect_head(&client); /* it is on its way to that loop */
    client_close(&client);
    hf_must(sem_wait(&stands_still));
}

static void
let_the_loop_go(struct tale *gate)
{
    hf_must(sem_post(&may_go_on));
    tale_expect_closed(gate);
}

static void
pieces_that_gathered_leave_in_order(void **state)
{
    enum { PIECES = 500 };
    struct tale tale;
    char text[32];
    (void)state;
    harness_start(&h);
    struct client client = client_open(&h);
    begin_held(&tale, &client, BACKLOG);
    client_expect_head(&client);
    struct tale gate;
    stop_the_loop(&gate);
    for (int i = 0; i < PIECES; i++) {
        snprintf(text, sizeof(text), "piece %d", i);
        assert_true(tale_tell(&tale, text));
    }
    http_stream_end(tale.stream);
    let_the_loop_go(&gate);
    for (int i = 0; i < PIECES; i++) {
        snprintf(text, sizeof(text), "piece %d", i);
        client_expect_chunk(&client, text);
    }
    client_expect_last_chunk(&client);
    client_close(&client);
    tale_wait_closed(&tale);
}

static void
for_http_1_0_the_connection_is_the_end(void **state)
{
    struct response response;
    struct tale tale;
    (void)state;
    harness_start(&h);
    struct client client = client_open(&h);
    client_send(&client, "GET /held HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    harness_wait_held(&h, 1);
    tale_begin(&tale, harness_take_held(&h, 0), BACKLOG);
    client_read(&client, &response);
    assert_null(response_header(&response, "Transfer-Encoding"));
    assert_null(response_header(&response, "Content-Length"));
    assert_string_equal(response_header(&response, "Connection"), "close");
    response_fini(&response);
    assert_true(tale_tell(&tale, "as "));
    assert_true(tale_tell(&tale, "it is"));
    client_need(&client, 8);
    assert_memory_equal(client.bytes, "as it is", 8);
    client_use(&client, 8);
    http_stream_end(tale.stream);
    client_expect_end(&client);
    client_close(&client);
    tale_wait_closed(&tale);
}

static void
to_head_only_the_head_is_sent(void **state)
{
    struct response response;
    struct tale tale;
    (void)state;
    harness_start(&h);
    struct client client = client_open(&h);
    client_send(&client, "HEAD /held HTTP/1.1\r\n" H "\r\n");
    client_get(&client, "/next"); /* no stream comes, so this one is answered */
    harness_wait_held(&h, 1);
    tale_begin(&tale, harness_take_held(&h, 0), BACKLOG);
    client_read_any(&client, &response, true);
    assert_int_equal(response.status, 200);
    assert_string_equal(response_header(&response, "Transfer-Encoding"), "chunked");
    assert_null(response_header(&response, "Content-Length"));
    assert_null(response_header(&response, "Connection"));
    response_fini(&response);
    client_expect(&client, 200, "/next");
    tale_expect_closed(&tale);
    client_close(&client);
}

static void
earlier_answers_go_first(void **state)
{
    struct tale tale;
    (void)state;
    harness_start(&h);
    struct client client = client_open(&h), other = client_open(&h);
    client_get(&client, "/held-before");
    harness_wait_held(&h, 1);
    begin_held(&tale, &client, BACKLOG);
    assert_true(tale_tell(&tale, "behind"));
    client_get(&other, "/other"); /* the loop has been around since */
    client_expect(&other, 200, "/other");
    assert_int_equal(recv(client.fd, (char[1]){ 0 }, 1, MSG_DONTWAIT), -1);
    harness_release(&h, 0);
    client_expect(&client, 200, "/held-before");
    client_expect_head(&client);
    client_expect_chunk(&client, "behind");
    http_stream_end(tale.stream);
    client_expect_last_chunk(&client);
    client_close(&client);
    client_close(&other);
}

static void
requests_behind_a_stream_are_not_answered(void **state)
{
    struct tale tale;
    (void)state;
    harness_start(&h);
    struct client client = client_open(&h);
    client_send(&client, "GET /held HTTP/1.1\r\n" H "\r\nGET /held2 HTTP/1.1\r\n" H
                         "\r\nGET /now HTTP/1.1\r\n" H "\r\nGET /half");
    harness_wait_held(&h, 2);
    tale_begin(&tale, harness_take_held(&h, 0), BACKLOG);
    client_expect_head(&client);
    harness_release(&h, 1);
    client_get(&client, "/later");
    assert_true(tale_tell(&tale, "only this"));
    http_stream_end(tale.stream);
    client_expect_chunk(&client, "only this");
    client_expect_last_chunk(&client);
    assert_true(atomic_load(&h.handled) <= 3); /* what came behind its beginning was not read */
    client_close(&client);
    tale_wait_closed(&tale);
}

static void
a_stream_begun_at_once_takes_no_request_behind_it(void **state)
{
    (void)state;
    harness_start(&h);
    struct client client = client_open(&h);
    client_send(&client, "GET /before HTTP/1.1\r\n" H "\r\nGET /stream HTTP/1.1\r\n" H
                         "\r\nGET /behind HTTP/1.1\r\n" H "\r\n");
    client_expect(&client, 200, "/before");
    client_expect_head(&client);
    client_expect_chunk(&client, "at once");
    assert_int_equal(atomic_load(&h.handled), 2);
    client_close(&client);
    tale_expect_closed(&told_at_once);
}

static void
of_two_streams_in_a_pipeline_the_first_is_heard(void **state)
{
    struct tale first, second;
    (void)state;
    harness_start(&h);
    struct client client = client_open(&h);
    client_get(&client, "/held1");
    client_get(&client, "/held2");
    harness_wait_held(&h, 2);
    tale_begin(&second, harness_take_held(&h, 1), BACKLOG);
    assert_true(tale_tell(&second, "too early"));
    tale_begin(&first, harness_take_held(&h, 0), BACKLOG);
    tale_expect_closed(&second);
    assert_true(tale_tell(&first, "heard"));
    client_expect_head(&client);
    client_expect_chunk(&client, "heard");
    client_close(&client);
    tale_expect_closed(&first);
}

static void
a_pipeline_that_was_paused_is_thrown_away(void **state)
{
    enum { PIPELINED = 100 }; /* 64 are under way, the rest is kept */
    struct buf requests = { 0 };
    struct tale tale;
    (void)state;
    harness_start(&h);
    for (int i = 0; i < PIPELINED; i++)
        buf_append_text(&requests, "GET /held HTTP/1.1\r\n" H "\r\n");
    assert_false(requests.failed);
    struct client client = client_open(&h);
    client_send_bytes(&client, requests.data, requests.len);
    buf_fini(&requests);
    harness_wait_held(&h, 64);
    tale_begin(&tale, harness_take_held(&h, 0), BACKLOG);
    client_expect_head(&client);
    for (int i = 1; i < 64; i++)
        harness_release(&h, i);
    assert_true(tale_tell(&tale, "alone"));
    client_expect_chunk(&client, "alone");
    assert_int_equal(harness_held(&h), 64);
    client_close(&client); /* it is read again: its leaving is seen */
    tale_expect_closed(&tale);
}

static void
a_reply_that_memory_ran_out_for_is_500_and_no_stream(void **state)
{
    struct tale tale;
    (void)state;
    harness_start(&h);
    struct client client = client_open(&h);
    client_get(&client, "/held");
    harness_wait_held(&h, 1);
    struct http_exchange *exchange = harness_take_held(&h, 0);
    exchange->reply.headers.failed = true;
    tale_begin(&tale, exchange, BACKLOG);
    client_expect(&client, 500, NULL);
    client_get(&client, "/next");
    client_expect(&client, 200, "/next");
    tale_expect_closed(&tale);
    client_close(&client);
}

/* --- readers that leave -------------------------------------------------------- */

static void
a_client_that_leaves_closes_its_stream_once(void **state)
{
    struct tale closing, resetting, shutting;
    (void)state;
    harness_start(&h);
    struct client a = client_open(&h), b = client_open(&h), c = client_open(&h);
    begin_held(&closing, &a, BACKLOG);
    begin_held(&resetting, &b, BACKLOG);
    begin_held(&shutting, &c, BACKLOG);
    client_expect_head(&a);
    client_expect_head(&b);
    client_expect_head(&c);
    client_close(&a);
    client_reset(&b);
    shutdown(c.fd, SHUT_WR); /* half closed is gone */
    tale_expect_closed(&closing);
    tale_expect_closed(&resetting);
    tale_expect_closed(&shutting);
    client_expect_end(&c);
    client_close(&c);
    harness_wait_connections(&h, 0);
}

static void
a_client_that_left_before_its_stream_began_closes_it(void **state)
{
    struct tale tale;
    (void)state;
    harness_start(&h);
    struct client client = client_open(&h);
    client_get(&client, "/held");
    harness_wait_held(&h, 1);
    client_reset(&client);
    harness_wait_connections(&h, 0);
    tale_begin(&tale, harness_take_held(&h, 0), BACKLOG);
    tale_expect_closed(&tale);
}

static void
one_who_shut_their_side_gets_the_answers_before_the_stream(void **state)
{
    struct tale tale;
    (void)state;
    harness_start(&h);
    struct client client = client_open(&h);
    client_get(&client, "/held-before");
    harness_wait_held(&h, 1);
    client_get(&client, "/held");
    shutdown(client.fd, SHUT_WR);
    harness_wait_held(&h, 2);
    tale_begin(&tale, harness_take_held(&h, 1), BACKLOG);
    harness_release(&h, 0);
    client_expect(&client, 200, "/held-before");
    client_read_out(&client); /* maybe the stream's head */
    tale_expect_closed(&tale);
    client_close(&client);
    harness_wait_connections(&h, 0);
}

static void
one_that_talks_without_end_behind_its_stream_is_cut_off(void **state)
{
    static char noise[1024 * 1024];
    struct tale tale;
    (void)state;
    harness_start(&h);
    struct client client = client_open(&h);
    begin_held(&tale, &client, BACKLOG);
    client_expect_head(&client);
    for (int i = 0; i < 64 && send(client.fd, noise, sizeof(noise), MSG_NOSIGNAL) > 0; i++)
        ;
    tale_expect_closed(&tale);
    client_close(&client);
}

/* --- readers that are slow ----------------------------------------------------- */

static void
a_slow_reader_is_cut_and_no_other_is_slowed(void **state)
{
    enum { PIECE = 64 * 1024, PIECES_MAX = 1000 };
    static char piece[PIECE];
    struct tale slow, quick;
    uint64_t cut = metric_count(METRIC_HTTP_STREAMS_SLOW_TOTAL);
    int told = 0;
    (void)state;
    harness_start(&h);
    struct client snail = client_open_narrow(&h), hare = client_open(&h);
    begin_held(&slow, &snail, BACKLOG);
    begin_held(&quick, &hare, 3 * PIECE);
    client_expect_head(&hare);
    while (told < PIECES_MAX && tale_tell_bytes(&slow, piece, PIECE)) {
        told++;
        assert_true(tale_tell_bytes(&quick, piece, PIECE));
        client_expect_chunk_bytes(&hare, piece, PIECE);
    }
    /* The backlog, and besides it only what is on its way, not the megabytes of a kernel's
     * buffer. */
    assert_in_range(told, BACKLOG / PIECE, 2 * BACKLOG / PIECE);
    tale_expect_closed(&slow);
    assert_int_equal(metric_count(METRIC_HTTP_STREAMS_SLOW_TOTAL), cut + 1);
    harness_wait_connections(&h, 1);
    assert_true(client_read_out(&snail) < (size_t)told * PIECE); /* cut, not ended */
    assert_true(tale_tell(&quick, "still here"));
    client_expect_chunk(&hare, "still here");
    http_stream_end(quick.stream);
    client_expect_last_chunk(&hare);
    client_close(&snail);
    client_close(&hare);
}

/* That the loop is behind is no reader's fault; but there is an end to it. */
static void
what_waits_for_a_loop_that_is_behind_has_a_limit(void **state)
{
    enum { PIECE = 1000, BACKLOG_MAX = 10050, MANY = 10 * LOOP_BEHIND_TIMES }; /* each "3e8\r\n" */
    static char piece[PIECE];
    struct tale tale, gate;
    (void)state;
    harness_start(&h);
    struct client client = client_open(&h);
    begin_held(&tale, &client, BACKLOG_MAX);
    client_expect_head(&client);
    for (int round = 0; round < 3; round++) { /* what was sent doesn't wait any more */
        stop_the_loop(&gate);
        for (int i = 0; i < MANY; i++)
            assert_true(tale_tell_bytes(&tale, piece, PIECE));
        if (round == 2)
            assert_false(tale_tell_bytes(&tale, piece, PIECE));
        let_the_loop_go(&gate);
        for (int i = 0; round < 2 && i < MANY; i++)
            client_expect_chunk_bytes(&client, piece, PIECE);
    }
    tale_expect_closed(&tale);
    client_read_out(&client);
    client_close(&client);
}

static void
a_piece_larger_than_the_backlog_is_taken_while_nothing_waits(void **state)
{
    enum { LARGE = 200000 };
    static char large[LARGE];
    struct tale tale;
    (void)state;
    harness_start(&h);
    struct client client = client_open(&h);
    begin_held(&tale, &client, 1000);
    client_expect_head(&client);
    struct tale gate;
    stop_the_loop(&gate);
    assert_true(tale_tell_bytes(&tale, large, LARGE));
    let_the_loop_go(&gate);
    client_expect_chunk_bytes(&client, large, LARGE);
    stop_the_loop(&gate);
    assert_true(tale_tell(&tale, "something waits"));
    assert_false(tale_tell_bytes(&tale, large, LARGE));
    let_the_loop_go(&gate);
    tale_expect_closed(&tale);
    client_read_out(&client);
    client_close(&client);
}

static void
one_that_takes_nothing_is_cut_off_after_the_write_timeout(void **state)
{
    enum { LARGE = 32 * 1024 * 1024 };
    static char large[LARGE];
    struct tale tale;
    uint64_t cut = metric_count(METRIC_HTTP_STREAMS_SLOW_TOTAL);
    (void)state;
    h.config.write_timeout = 200 * TIME_US_PER_MS;
    harness_start(&h);
    struct client client = client_open_narrow(&h);
    begin_held(&tale, &client, LARGE * 2);
    assert_true(tale_tell_bytes(&tale, large, LARGE));
    tale_expect_closed(&tale);
    assert_int_equal(metric_count(METRIC_HTTP_STREAMS_SLOW_TOTAL), cut + 1);
    client_close(&client);
}

static void
a_stream_is_never_idle(void **state)
{
    struct tale tale;
    (void)state;
    h.config.idle_timeout = h.config.header_timeout = h.config.body_timeout =
        h.config.write_timeout = TIME_US_PER_S; /* so long may this thread stand still */
    harness_start(&h);
    struct client client = client_open(&h);
    begin_held(&tale, &client, BACKLOG);
    client_expect_head(&client);
    for (int i = 0; i < 3; i++) { /* others come and are closed as idle, and it is still there */
        struct client idle = client_open(&h);
        client_expect_end(&idle);
        client_close(&idle);
        assert_true(tale_tell(&tale, "tick"));
        client_expect_chunk(&client, "tick");
    }
    http_stream_end(tale.stream);
    client_expect_last_chunk(&client);
    client_close(&client);
}

/* --- many threads, many streams ------------------------------------------------ */

struct teller {
    pthread_t thread;
    struct tale *tale;
    int number, count;
};

static void *
tell_count(void *context)
{
    struct teller *teller = context;
    char text[32];
    for (int i = 0; i < teller->count; i++) {
        snprintf(text, sizeof(text), "%d %d", teller->number, i);
        hf_assert(tale_tell(teller->tale, text));
    }
    return NULL;
}

static void
the_pieces_of_each_thread_stay_in_order(void **state)
{
    enum { THREADS = 4, EACH = 5000 };
    struct teller tellers[THREADS];
    int next[THREADS] = { 0 };
    struct tale tale;
    (void)state;
    harness_start(&h);
    struct client client = client_open(&h);
    begin_held(&tale, &client, 64 * BACKLOG);
    client_expect_head(&client);
    for (int i = 0; i < THREADS; i++) {
        tellers[i] = (struct teller){ .tale = &tale, .number = i, .count = EACH };
        assert_int_equal(pthread_create(&tellers[i].thread, NULL, tell_count, &tellers[i]), 0);
    }
    for (int i = 0; i < THREADS * EACH; i++) {
        char text[32], *second;
        size_t head_len, len = client_chunk_size(&client, &head_len);
        client_need(&client, head_len + len + 2);
        snprintf(text, sizeof(text), "%.*s", (int)len, client.bytes + head_len);
        long number = strtol(text, &second, 10);
        assert_true(number >= 0 && number < THREADS);
        assert_int_equal(strtol(second, NULL, 10), next[number]++);
        client_use(&client, head_len + len + 2);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(tellers[i].thread, NULL);
    http_stream_end(tale.stream);
    client_expect_last_chunk(&client);
    client_close(&client);
}

static void
allow_descriptors(rlim_t count)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max < count ? limit.rlim_max : count;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void
two_thousand_streams_are_told_fifty_things(void **state)
{
    enum { STREAMS = 2000, TURNS = 50 };
    static struct client clients[STREAMS];
    static struct tale tales[STREAMS];
    char text[32];
    (void)state;
    allow_descriptors(8192);
    h.config.loops = 2;
    harness_start(&h);
    for (int i = 0; i < STREAMS; i++) {
        clients[i] = client_open(&h);
        begin_held(&tales[i], &clients[i], BACKLOG);
    }
    for (int turn = 0; turn < TURNS; turn++) { /* one body for all of them, as in real life */
        snprintf(text, sizeof(text), "turn %d", turn);
        struct http_body *body = http_body_new(text, strlen(text));
        assert_non_null(body);
        for (int i = 0; i < STREAMS; i++)
            assert_true(http_stream_send(tales[i].stream, body));
        http_body_put(body);
    }
    for (int i = 0; i < STREAMS; i++)
        http_stream_end(tales[i].stream);
    for (int i = 0; i < STREAMS; i++) {
        client_expect_head(&clients[i]);
        for (int turn = 0; turn < TURNS; turn++) {
            snprintf(text, sizeof(text), "turn %d", turn);
            client_expect_chunk(&clients[i], text);
        }
        client_expect_last_chunk(&clients[i]);
        client_close(&clients[i]);
        tale_wait_closed(&tales[i]);
    }
    harness_wait_connections(&h, 0);
}

enum { TALES_WITHOUT_PAUSE = 8, CHATTER_MAX = 250000 };

struct chatter {
    struct tale tales[TALES_WITHOUT_PAUSE];
    atomic_bool enough; /* set by who was served meanwhile */
    bool was_enough;
};

static void *
tell_without_pause(void *context)
{
    struct chatter *chatter = context;
    for (int told = 0; told < CHATTER_MAX && !chatter->was_enough; told++) {
        for (int i = 0; i < TALES_WITHOUT_PAUSE; i++)
            hf_assert(tale_tell(&chatter->tales[i], "."));
        chatter->was_enough = atomic_load(&chatter->enough);
    }
    return NULL;
}

static void
a_teller_without_pause_leaves_the_loop_to_others(void **state)
{
    struct client listeners[TALES_WITHOUT_PAUSE];
    struct chatter chatter = { .was_enough = false };
    pthread_t thread;
    (void)state;
    harness_start(&h);
    struct client other = client_open(&h);
    for (int i = 0; i < TALES_WITHOUT_PAUSE; i++) {
        listeners[i] = client_open(&h);
        begin_held(&chatter.tales[i], &listeners[i], 10 * (size_t)CHATTER_MAX);
    }
    assert_int_equal(pthread_create(&thread, NULL, tell_without_pause, &chatter), 0);
    for (int i = 0; i < 100; i++) {
        client_get(&other, "/other");
        client_expect(&other, 200, "/other");
    }
    atomic_store(&chatter.enough, true);
    pthread_join(thread, NULL);
    assert_true(chatter.was_enough);
    for (int i = 0; i < TALES_WITHOUT_PAUSE; i++) {
        http_stream_end(chatter.tales[i].stream);
        client_close(&listeners[i]);
    }
    client_close(&other);
}

/* --- races: tellers, the end, readers that leave, and the end of the loops ------ */

enum { RACERS = 40 };

struct race {
    struct tale tales[RACERS];
    struct client clients[RACERS];
    atomic_int ready; /* tellers about to tell */
};

/* Tells all of them until each has closed; ends every other one midway. */
static void *
tell_until_closed(void *context)
{
    struct race *race = context;
    bool open[RACERS];
    int open_count = RACERS;
    for (int i = 0; i < RACERS; i++)
        open[i] = true;
    atomic_fetch_add(&race->ready, 1);
    for (int turn = 0; open_count > 0; turn++) {
        for (int i = 0; i < RACERS; i++) {
            bool ends = i % 2 == 0 && turn == 3 * i;
            if (!open[i] || (tale_tell(&race->tales[i], "again") && !ends))
                continue;
            http_stream_end(race->tales[i].stream);
            open[i] = false;
            open_count--;
        }
    }
    return NULL;
}

static void
race_begin(struct race *race, pthread_t *teller)
{
    atomic_init(&race->ready, 0);
    for (int i = 0; i < RACERS; i++) {
        race->clients[i] = client_open(&h);
        begin_held(&race->tales[i], &race->clients[i], BACKLOG);
    }
    assert_int_equal(pthread_create(teller, NULL, tell_until_closed, race), 0);
    while (atomic_load(&race->ready) == 0)
        sched_yield();
}

static void
race_end(struct race *race, pthread_t teller)
{
    pthread_join(teller, NULL);
    for (int i = 0; i < RACERS; i++)
        tale_wait_closed(&race->tales[i]);
}

static void
telling_races_with_readers_that_leave(void **state)
{
    static struct race race;
    pthread_t teller;
    (void)state;
    h.config.loops = 2;
    harness_start(&h);
    for (int round = 0; round < 20; round++) {
        race_begin(&race, &teller);
        for (int i = 0; i < RACERS; i++) {
            if (i % 3 == 0)
                client_reset(&race.clients[i]);
            else
                client_close(&race.clients[i]);
        }
        race_end(&race, teller);
        harness_wait_connections(&h, 0);
        harness_forget_held(&h);
    }
}

static void
telling_races_with_the_end_of_the_loops(void **state)
{
    static struct race race;
    pthread_t teller;
    (void)state;
    for (int round = 0; round < 20; round++) {
        harness_init(&h);
        h.handler.handle = handle;
        h.config.loops = 2;
        harness_start(&h);
        race_begin(&race, &teller);
        if (round % 2 == 0)
            acceptor_drain_close(h.acceptor);
        harness_stop(&h);
        race_end(&race, teller);
        for (int i = 0; i < RACERS; i++)
            client_close(&race.clients[i]);
    }
}

/* --- draining and stopping ------------------------------------------------------ */

static void
draining_leaves_streams_until_the_door_closes_then_ends_them(void **state)
{
    struct tale old, new, late;
    (void)state;
    h.config.loops = 2;
    harness_start(&h);
    struct client a = client_open(&h), b = client_open(&h), c = client_open(&h);
    begin_held(&old, &a, BACKLOG);
    client_expect_head(&a);
    client_get(&c, "/held");
    harness_wait_held(&h, 2);
    acceptor_drain_begin(h.acceptor);
    begin_held(&new, &b, BACKLOG); /* asked for and begun meanwhile */
    client_expect_head(&b);
    assert_true(tale_tell(&old, "still"));
    assert_true(tale_tell(&new, "here"));
    client_expect_chunk(&a, "still");
    client_expect_chunk(&b, "here");
    acceptor_drain_close(h.acceptor);
    client_expect_last_chunk(&a);
    client_expect_last_chunk(&b);
    client_close(&a);
    client_close(&b);
    tale_expect_closed(&old);
    tale_expect_closed(&new);
    harness_wait_connections(&h, 1); /* the one under way is waited for */
    tale_begin(&late, harness_take_held(&h, 1), BACKLOG);
    client_expect_head(&c);
    client_expect_last_chunk(&c);
    client_close(&c);
    tale_expect_closed(&late);
    harness_wait_connections(&h, 0);
}

static void
what_was_sent_before_the_drain_arrives(void **state)
{
    struct tale tale;
    pthread_t drainer;
    (void)state;
    harness_start(&h);
    struct client client = client_open(&h);
    begin_held(&tale, &client, BACKLOG);
    client_expect_head(&client);
    struct tale gate;
    stop_the_loop(&gate);
    assert_true(tale_tell(&tale, "the last"));
    assert_int_equal(
        pthread_create(&drainer, NULL, (void *(*)(void *))(void *)acceptor_drain_close, h.acceptor),
        0);
    let_the_loop_go(&gate);
    pthread_join(drainer, NULL);
    client_expect_chunk(&client, "the last");
    client_expect_last_chunk(&client);
    client_close(&client);
    tale_expect_closed(&tale);
}

static void
stopping_closes_streams_and_beginners_may_let_go_later(void **state)
{
    enum { STREAMS = 20 };
    struct client clients[STREAMS];
    struct tale tales[STREAMS];
    (void)state;
    h.config.loops = 2;
    harness_start(&h);
    for (int i = 0; i < STREAMS; i++) {
        clients[i] = client_open(&h);
        begin_held(&tales[i], &clients[i], BACKLOG);
        assert_true(tale_tell(&tales[i], "x"));
    }
    harness_stop(&h);
    for (int i = 0; i < STREAMS; i++) {
        assert_int_equal(atomic_load(&tales[i].closed), 1);
        assert_false(tale_tell(&tales[i], "to nobody"));
        http_stream_end(tales[i].stream);
        client_close(&clients[i]);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(each_piece_is_a_chunk_and_the_end_is_the_last),
        CASE(pieces_that_gathered_leave_in_order),
        CASE(for_http_1_0_the_connection_is_the_end),
        CASE(to_head_only_the_head_is_sent),
        CASE(earlier_answers_go_first),
        CASE(requests_behind_a_stream_are_not_answered),
        CASE(a_stream_begun_at_once_takes_no_request_behind_it),
        CASE(of_two_streams_in_a_pipeline_the_first_is_heard),
        CASE(a_pipeline_that_was_paused_is_thrown_away),
        CASE(a_reply_that_memory_ran_out_for_is_500_and_no_stream),
        CASE(a_client_that_leaves_closes_its_stream_once),
        CASE(a_client_that_left_before_its_stream_began_closes_it),
        CASE(one_who_shut_their_side_gets_the_answers_before_the_stream),
        CASE(one_that_talks_without_end_behind_its_stream_is_cut_off),
        CASE(a_slow_reader_is_cut_and_no_other_is_slowed),
        CASE(what_waits_for_a_loop_that_is_behind_has_a_limit),
        CASE(a_piece_larger_than_the_backlog_is_taken_while_nothing_waits),
        CASE(one_that_takes_nothing_is_cut_off_after_the_write_timeout),
        CASE(a_stream_is_never_idle),
        CASE(the_pieces_of_each_thread_stay_in_order),
        CASE(two_thousand_streams_are_told_fifty_things),
        CASE(a_teller_without_pause_leaves_the_loop_to_others),
        CASE(telling_races_with_readers_that_leave),
        CASE(telling_races_with_the_end_of_the_loops),
        CASE(draining_leaves_streams_until_the_door_closes_then_ends_them),
        CASE(what_was_sent_before_the_drain_arrives),
        CASE(stopping_closes_streams_and_beginners_may_let_go_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
