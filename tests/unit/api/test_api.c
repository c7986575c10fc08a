/* What every call goes through before its handler, in the order of refusals. */
#include "fixture.h"

static void
an_unknown_path_is_404_and_a_wrong_method_405_with_allow(void **state)
{
    (void)state;
    ask(HTTP_METHOD_GET, "/nothing", NULL);
    assert_problem(404, "not_found");
    ask(HTTP_METHOD_PUT, "/api/holds", NULL);
    assert_problem(405, "method_not_allowed");
    assert_true(has_header("Allow: GET, HEAD, POST\r\n"));
}

static void
without_a_token_nothing_is_told_about_ids_or_bodies(void **state)
{
    (void)state;
    ask(HTTP_METHOD_POST, "/api/holds", "{");
    assert_problem(401, "unauthenticated");
    assert_true(has_header("WWW-Authenticate: Bearer\r\n"));
    ask(HTTP_METHOD_GET, "/api/events/b%20d", NULL);
    assert_problem(401, "unauthenticated");
}

static void
an_empty_ticket_is_none(void **state)
{
    (void)state;
    ask(HTTP_METHOD_GET, "/api/events/e1/stream?ticket=", NULL);
    assert_problem(401, "unauthenticated");
    ask(HTTP_METHOD_GET, "/api/events/e1/stream?ticket", NULL);
    assert_problem(401, "unauthenticated");
}

static void
an_expired_token_says_so(void **state)
{
    struct token_claims claims = { .org = "org-1", .user = "u1", .exp_unix_s = 1000 };
    struct buf token = { 0 };
    char error[128];

    (void)state;
    assert_true(token_mint(&fx.config, &claims, &token, error, sizeof(error)));
    snprintf(fx.token, sizeof(fx.token), "Bearer %s", token.data);
    buf_fini(&token);
    ask(HTTP_METHOD_POST, "/api/holds", "{}");
    assert_problem(401, "token_expired");
}

static void
an_admin_route_is_forbidden_to_others(void **state)
{
    (void)state;
    as("u1", ROLE_AGENT);
    ask(HTTP_METHOD_PUT, "/api/events/e1", "{}");
    assert_problem(403, "forbidden");
}

static void
an_id_of_the_path_that_is_none_is_named(void **state)
{
    (void)state;
    as("u1", ROLE_USER);
    ask(HTTP_METHOD_POST, "/api/events/b%20d/seats/A1/hold", "{}");
    assert_problem(400, "invalid_id");
    assert_wrong_field(0, "event");
    ask(HTTP_METHOD_POST, "/api/events/e1/seats/A%2F1/hold", "{}");
    assert_problem(400, "invalid_id");
    assert_wrong_field(0, "seat");
    ask(HTTP_METHOD_DELETE, "/api/holds/no-uuid", NULL);
    assert_problem(404, "hold_not_found");
}

static void
a_wrong_content_type_is_refused_and_none_is_fine(void **state)
{
    static const char *const good[] = { "", "application/json", "Application/JSON",
                                        "application/json; charset=utf-8",
                                        "application/json;charset=\"UTF-8\"; x=y" };
    static const char *const bad[] = { "text/plain", "application/jsonx",
                                       "application/json; charset=latin1",
                                       "application/x-www-form-urlencoded" };
    (void)state;
    as("u1", ROLE_USER);
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        prepare(HTTP_METHOD_POST, "/api/holds", "{}")->content_type = slice_of(good[i]);
        handle_it();
        assert_problem(400, "missing_field");
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        prepare(HTTP_METHOD_POST, "/api/holds", "{}")->content_type = slice_of(bad[i]);
        handle_it();
        assert_problem(415, "unsupported_media_type");
    }
}

static void
a_limit_refuses_with_its_numbers(void **state)
{
    (void)state;
    as("u1", ROLE_USER);
    for (int i = 0; i < fx.config.rate_holds_per_min; i++) {
        ask(HTTP_METHOD_POST, "/api/holds", "{}");
        assert_problem(400, "missing_field");
        assert_true(has_header("RateLimit-Policy: \"holds\";q=20;w=60\r\n"));
    }
    ask(HTTP_METHOD_POST, "/api/holds", "{}");
    assert_problem(429, "rate_limited");
    assert_true(has_header("Retry-After: "));
    ask(HTTP_METHOD_GET, "/health", NULL); /* probes are never limited */
    assert_int_equal(fx.exchange.reply.status, 200);
}

static void
the_body_limit_depends_on_the_route(void **state)
{
    size_t import = fx.handler.body_max(fx.handler.context, HTTP_METHOD_POST,
                                        SLICE_LITERAL("/api/events/e1/seats/import"));
    size_t other =
        fx.handler.body_max(fx.handler.context, HTTP_METHOD_POST, SLICE_LITERAL("/api/holds"));
    (void)state;
    assert_int_equal(import, fx.config.import_body_max);
    assert_int_equal(other, fx.config.body_max);
}

static void
the_acceptors_own_refusals_look_like_all_others(void **state)
{
    (void)state;
    prepare(HTTP_METHOD_GET, "/x", NULL);
    fx.handler.refuse(fx.handler.context, &fx.exchange, HF_HEADERS_TOO_LARGE, "too much");
    fx.is_sent = true;
    assert_problem(431, "headers_too_large");
}

static void
a_closed_api_touches_nothing(void **state)
{
    (void)state;
    as("u1", ROLE_USER);
    api_set_phase(fx.api, API_CLOSED);
    ask(HTTP_METHOD_POST, "/api/holds",
        "{\"event_id\":\"e\",\"seat_ids\":[\"a\"],\"cart_token\":\"c\"}");
    assert_problem(503, "draining");
    assert_true(has_header("Retry-After: 1\r\n"));
    assert_int_equal(fx.op_count, 0);
}

/* --- the node's own pages ------------------------------------------------------------------ */

static void
assert_ready(const char *target, int status, const char *word)
{
    ask(HTTP_METHOD_GET, target, NULL);
    assert_int_equal(fx.exchange.reply.status, status);
    struct cJSON *tree = reply_json();
    assert_string_equal(cJSON_GetObjectItemCaseSensitive(tree, "status")->valuestring, word);
    cJSON_Delete(tree);
}

static void
ready_follows_the_phase_and_strict_the_dependencies(void **state)
{
    (void)state;
    assert_ready("/ready", 200, "ready");
    fx.store_is_up = false;
    assert_ready("/readyz", 200, "degraded");
    assert_ready("/ready?strict", 503, "degraded");
    api_set_phase(fx.api, API_DRAINING);
    assert_ready("/ready", 503, "draining");
    api_set_phase(fx.api, API_STARTING);
    assert_ready("/ready", 503, "starting");
    ask(HTTP_METHOD_GET, "/health", NULL);
    assert_int_equal(fx.exchange.reply.status, 200);
}

static void
every_problem_has_a_page(void **state)
{
    char target[64];

    (void)state;
    fx.config.rate_limits = false; /* read at start only; the pages are limited */
    api_free(&fx.api);
    fx.api = api_new(&fx.node, target, sizeof(target));
    fx.handler = api_http_handler(fx.api);
    for (int status = 0; status < HF_STATUS_COUNT; status++) {
        bool is_problem = status_http((enum hf_status)status) >= 400;
        snprintf(target, sizeof(target), "/problems/%s", status_code((enum hf_status)status));
        ask(HTTP_METHOD_GET, target, NULL);
        assert_int_equal(fx.exchange.reply.status, is_problem ? 200 : 404);
    }
    ask(HTTP_METHOD_GET, "/problems/nonsense", NULL);
    assert_problem(404, "not_found");
}

static void
metrics_count_requests_by_route_and_code(void **state)
{
    (void)state;
    ask(HTTP_METHOD_GET, "/health", NULL);
    ask(HTTP_METHOD_GET, "/metrics", NULL);
    assert_int_equal(fx.exchange.reply.status, 200);
    assert_non_null(strstr(fx.exchange.reply.body.data, "route=\"health\",code=\"ok\""));
}

/* --- compression ------------------------------------------------------------------------------ */

static void
gzip_is_taken_as_the_client_weighs_it(void **state)
{
    (void)state;
    assert_true(accepts_gzip(SLICE_LITERAL("gzip")));
    assert_true(accepts_gzip(SLICE_LITERAL("br, GZIP;q=0.5")));
    assert_true(accepts_gzip(SLICE_LITERAL("*")));
    assert_false(accepts_gzip(SLICE_EMPTY));
    assert_false(accepts_gzip(SLICE_LITERAL("br")));
    assert_false(accepts_gzip(SLICE_LITERAL("gzip;q=0")));
    assert_false(accepts_gzip(SLICE_LITERAL("gzip; q=0.000, *")));
    assert_false(accepts_gzip(SLICE_LITERAL("*;q=0")));
    assert_false(accepts_gzip(SLICE_LITERAL("identity")));
}

static void
a_large_body_is_compressed_a_small_one_is_not(void **state)
{
    static char plain[1000000];
    z_stream z = { .next_out = (Bytef *)plain, .avail_out = sizeof(plain) };

    (void)state;
    prepare(HTTP_METHOD_GET, "/openapi.json", NULL)->accept_encoding = SLICE_LITERAL("gzip");
    handle_it();
    assert_true(has_header("Content-Encoding: gzip\r\n"));
    assert_true(has_header("Vary: Accept-Encoding\r\n"));
    z.next_in = (Bytef *)fx.exchange.reply.body.data;
    z.avail_in = (uInt)fx.exchange.reply.body.len;
    assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
    assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
    inflateEnd(&z);
    assert_memory_equal(plain, "{", 1);
    prepare(HTTP_METHOD_GET, "/health", NULL)->accept_encoding = SLICE_LITERAL("gzip");
    handle_it();
    assert_false(has_header("Content-Encoding"));
}

int
main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, fixture_up, fixture_down)
    const struct CMUnitTest tests[] = {
        CASE(an_unknown_path_is_404_and_a_wrong_method_405_with_allow),
        CASE(without_a_token_nothing_is_told_about_ids_or_bodies),
        CASE(an_empty_ticket_is_none),
        CASE(an_expired_token_says_so),
        CASE(an_admin_route_is_forbidden_to_others),
        CASE(an_id_of_the_path_that_is_none_is_named),
        CASE(a_wrong_content_type_is_refused_and_none_is_fine),
        CASE(a_limit_refuses_with_its_numbers),
        CASE(the_body_limit_depends_on_the_route),
        CASE(the_acceptors_own_refusals_look_like_all_others),
        CASE(a_closed_api_touches_nothing),
        CASE(ready_follows_the_phase_and_strict_the_dependencies),
        CASE(every_problem_has_a_page),
        CASE(metrics_count_requests_by_route_and_code),
        CASE(gzip_is_taken_as_the_client_weighs_it),
        CASE(a_large_body_is_compressed_a_small_one_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
