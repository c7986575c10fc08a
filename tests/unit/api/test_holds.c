/* What a hold request may say, what becomes of it as an op, and how its outcome is told. */
#include "fixture.h"

#define HOLD_ID   "0190a5b0-1111-7abc-8def-0123456789ab"
#define HOLD_PATH "/api/holds/" HOLD_ID
#define GOOD      "{\"event_id\":\"e1\",\"seat_ids\":[\"A1\",\"A2\"],\"cart_token\":\"c1\"}"

static int
as_user(void **state)
{
    fixture_up(state);
    fx.config.rate_limits = false;
    api_free(&fx.api);
    char error[64];
    fx.api = api_new(&fx.node, error, sizeof(error));
    fx.handler = api_http_handler(fx.api);
    as("u1", ROLE_USER);
    return 0;
}

/* The op stays with the engine of the test; the answer is of no interest. */
static void
drop_op(void)
{
    assert_non_null(fx.op);
    fx_refusal = HF_SEAT_TAKEN;
    refuse_op(fx.op);
}

/* --- from body to op ------------------------------------------------------------------------ */

static void
a_hold_request_becomes_an_op(void **state)
{
    (void)state;
    ask(HTTP_METHOD_POST, "/api/holds",
        "{\"event_id\":\"e1\",\"seat_ids\":[\"A1\",\"A2\"],\"areas\":[{\"area_id\":\"floor\","
        "\"quantity\":3}],"
        "\"cart_token\":\"c\\u00fc\",\"source\":\"scanner\",\"customer_email\":\"a@b\",\"unknown\":"
        "[1]}");
    assert_non_null(fx.op);
    assert_int_equal(fx.op->kind, OP_HOLD);
    assert_true(slice_is(fx.op->org, "org-1"));
    assert_true(slice_is(fx.op->user, "u1") && slice_is(fx.op->actor, "u1"));
    assert_false(fx.op->privileged);
    assert_true(slice_is(fx.op->event, "e1"));
    assert_int_equal(fx.op->seat_count, 2);
    assert_true(slice_is(fx.op->seats[1].id, "A2"));
    assert_int_equal(fx.op->area_count, 1);
    assert_true(slice_is(fx.op->areas[0].id, "floor"));
    assert_int_equal(fx.op->areas[0].quantity, 3);
    assert_true(slice_is(fx.op->cart_token, "c\xc3\xbc"));
    assert_true(slice_is(fx.op->source, "scanner"));
    assert_true(slice_is(fx.op->customer_email, "a@b"));
    assert_false(uuid_is_nil(&fx.op->hold_id));
    assert_false(fx.op->keyed);
    drop_op();
}

static void
the_names_of_seed_004_are_taken_and_the_server_makes_the_cart_token(void **state)
{
    (void)state;
    ask(HTTP_METHOD_POST, "/api/holds",
        "{\"showId\":\"s1\",\"showSeatIds\":[\"A1\"],\"customerEmail\":\"a@b.c\"}");
    assert_true(slice_is(fx.op->event, "s1"));
    assert_int_equal(fx.op->seat_count, 1);
    assert_int_equal(fx.op->cart_token.len, 36);
    assert_true(slice_is(fx.op->source, "web"));
    drop_op();
}

static void
one_seat_can_be_held_by_its_path(void **state)
{
    (void)state;
    ask(HTTP_METHOD_POST, "/api/events/e1/seats/A-1/hold", "{\"cart_token\":\"c\"}");
    assert_true(slice_is(fx.op->event, "e1"));
    assert_int_equal(fx.op->seat_count, 1);
    assert_true(slice_is(fx.op->seats[0].id, "A-1"));
    drop_op();
}

static void
what_is_missing_is_missing_field(void **state)
{
    (void)state;
    ask(HTTP_METHOD_POST, "/api/holds", "{}");
    assert_problem(400, "missing_field");
    assert_wrong_field(0, "event_id");
    ask(HTTP_METHOD_POST, "/api/holds", "{\"event_id\":\"e1\",\"seat_ids\":[],\"areas\":null}");
    assert_problem(400, "missing_field");
    assert_wrong_field(0, "seat_ids");
    assert_wrong_field(1, "cart_token");
    ask(HTTP_METHOD_POST, "/api/events/e1/seats/A1/hold", "{}");
    assert_problem(400, "missing_field");
    assert_wrong_field(0, "cart_token");
    assert_int_equal(fx.op_count, 0);
}

static void
all_wrong_fields_are_told_at_once(void **state)
{
    (void)state;
    ask(HTTP_METHOD_POST, "/api/holds",
        "{\"event_id\":\"no "
        "id\",\"seat_ids\":[\"A1\",7,\"\"],\"areas\":[{\"area_id\":\"f\",\"quantity\":0}],"
        "\"source\":\"phone\",\"ttl_seconds\":0,\"customer_email\":\"nobody\",\"user_id\":5}");
    assert_problem(400, "invalid_field");
    assert_wrong_field(0, "event_id");
    assert_wrong_field(1, "seat_ids[1]");
    assert_wrong_field(2, "seat_ids[2]");
    assert_wrong_field(3, "areas[0].quantity");
    assert_wrong_field(4, "source");
    assert_wrong_field(5, "ttl_seconds");
    assert_wrong_field(6, "customer_email");
    assert_wrong_field(7, "user_id");
}

static void
a_body_that_is_no_json_or_no_object_is_refused(void **state)
{
    static const char *const malformed[] = {
        "", " ", "{", "{} x", "{\"a\":1,\"a\":2}", "\xef\xbb\xbf{}", "{'a':1}", "{\"a\":01}"
    };
    (void)state;
    for (size_t i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++) {
        ask(HTTP_METHOD_POST, "/api/holds", malformed[i]);
        assert_problem(400, "malformed_json");
    }
    ask(HTTP_METHOD_POST, "/api/holds", "[]");
    assert_problem(400, "invalid_field");
}

static void
a_seat_twice_is_duplicate_seat_an_area_twice_invalid_field(void **state)
{
    char body[4096] = "{\"event_id\":\"e1\",\"cart_token\":\"c\",\"seat_ids\":[";

    (void)state;
    ask(HTTP_METHOD_POST, "/api/holds",
        "{\"event_id\":\"e1\",\"seat_ids\":[\"A1\",\"A2\",\"A1\"],\"cart_token\":\"c\"}");
    assert_problem(400, "duplicate_seat");
    assert_non_null(strstr(fx.exchange.reply.body.data,
                           "\"seats\":[{\"seat_id\":\"A1\",\"code\":\"duplicate_seat\"}]"));
    for (int i = 0; i < 100; i++) /* past the length that is compared one by one */
        snprintf(body + strlen(body), sizeof(body) - strlen(body), "\"S%d\",", i);
    strcat(body, "\"S7\"]}");
    ask(HTTP_METHOD_POST, "/api/holds", body);
    assert_problem(400, "duplicate_seat");
    ask(HTTP_METHOD_POST, "/api/holds",
        "{\"event_id\":\"e1\",\"cart_token\":\"c\",\"areas\":[{\"area_id\":\"f\",\"quantity\":1},"
        "{\"area_id\":\"f\",\"quantity\":2}]}");
    assert_problem(400, "invalid_field");
    assert_wrong_field(0, "areas[1].area_id");
}

static void
more_seats_than_any_hold_can_have_are_not_even_read(void **state)
{
    struct buf body = { 0 };

    (void)state;
    buf_append_text(&body, "{\"event_id\":\"e1\",\"cart_token\":\"c\",\"seat_ids\":[\"x\"");
    for (int i = 0; i < 500; i++)
        buf_printf(&body, ",\"S%d\"", i);
    buf_append_text(&body, "]}");
    ask(HTTP_METHOD_POST, "/api/holds", body.data);
    assert_problem(400, "invalid_field");
    assert_wrong_field(0, "seat_ids");
    buf_fini(&body);
}

static void
a_cart_token_counts_characters_and_has_no_controls(void **state)
{
    struct buf body = { 0 };

    (void)state;
    buf_append_text(&body, "{\"event_id\":\"e\",\"seat_ids\":[\"a\"],\"cart_token\":\"");
    for (int i = 0; i < 255; i++)
        buf_append_text(&body, "\xc3\xbc");
    buf_append_text(&body, "\"}");
    ask(HTTP_METHOD_POST, "/api/holds", body.data);
    drop_op();
    body.len -= 2;
    buf_append_text(&body, "x\"}");
    ask(HTTP_METHOD_POST, "/api/holds", body.data);
    assert_problem(400, "invalid_field");
    buf_fini(&body);
    ask(HTTP_METHOD_POST, "/api/holds",
        "{\"event_id\":\"e\",\"seat_ids\":[\"a\"],\"cart_token\":\"a\\nb\"}");
    assert_problem(400, "invalid_field");
    assert_wrong_field(0, "cart_token");
}

/* --- who ----------------------------------------------------------------------------------------
 */

static void
a_user_may_name_itself_and_nobody_else(void **state)
{
    (void)state;
    ask(HTTP_METHOD_POST, "/api/holds",
        "{\"event_id\":\"e1\",\"seat_ids\":[\"A1\"],\"cart_token\":\"c\",\"user_id\":\"u1\"}");
    drop_op();
    ask(HTTP_METHOD_POST, "/api/holds",
        "{\"event_id\":\"e1\",\"seat_ids\":[\"A1\"],\"cart_token\":\"c\",\"user_id\":\"u2\"}");
    assert_problem(403, "forbidden");
    ask(HTTP_METHOD_POST, HOLD_PATH "/confirm", "{\"passengerId\":\"u2\"}");
    assert_problem(403, "forbidden");
}

static void
an_agent_acts_for_others_and_chooses_the_time(void **state)
{
    (void)state;
    as("agent-1", ROLE_AGENT);
    ask(HTTP_METHOD_POST, "/api/holds",
        "{\"event_id\":\"e1\",\"seat_ids\":[\"A1\"],\"cart_token\":\"c\",\"user_id\":\"u2\",\"ttl_"
        "seconds\":60}");
    assert_true(fx.op->privileged);
    assert_true(slice_is(fx.op->user, "u2") && slice_is(fx.op->actor, "agent-1"));
    assert_int_equal(fx.op->seconds, 60);
    drop_op();
}

static void
a_user_does_not_choose_the_time(void **state)
{
    (void)state;
    ask(HTTP_METHOD_POST, "/api/holds",
        "{\"event_id\":\"e1\",\"seat_ids\":[\"A1\"],\"cart_token\":\"c\",\"ttl_seconds\":60}");
    assert_problem(403, "forbidden");
}

static void
a_time_beyond_max_hold_is_refused_where_the_event_is_known(void **state)
{
    struct event_info info = { .version = 1, .status = EVENT_ON_SALE, .currency = "USD" };

    (void)state;
    info.policy.max_hold_s = 100;
    info.read_at = mono_now();
    events_learn(fx.node.events, SLICE_LITERAL("org-1"), SLICE_LITERAL("e1"), &info);
    as("agent-1", ROLE_SERVICE);
    ask(HTTP_METHOD_POST, "/api/holds",
        "{\"event_id\":\"e1\",\"seat_ids\":[\"A1\"],\"cart_token\":\"c\",\"ttl_seconds\":101}");
    assert_problem(400, "invalid_field");
    assert_wrong_field(0, "ttl_seconds");
}

/* --- changes of holds
 * ------------------------------------------------------------------------------ */

static void
a_patch_needs_a_change_and_no_seat_both_ways(void **state)
{
    (void)state;
    ask(HTTP_METHOD_PATCH, HOLD_PATH, "{}");
    assert_problem(400, "missing_field");
    ask(HTTP_METHOD_PATCH, HOLD_PATH, "{\"add_seat_ids\":[\"A1\"],\"remove_seat_ids\":[\"A1\"]}");
    assert_problem(400, "duplicate_seat");
    ask(HTTP_METHOD_PATCH, HOLD_PATH,
        "{\"remove_seat_ids\":[\"A1\"],\"areas\":[{\"area_id\":\"f\",\"quantity\":0}]}");
    assert_int_equal(fx.op->kind, OP_PATCH);
    assert_int_equal(fx.op->drop_count, 1);
    assert_int_equal(fx.op->areas[0].quantity, 0);
    drop_op();
}

static void
bodies_that_may_be_left_out_may(void **state)
{
    (void)state;
    ask(HTTP_METHOD_POST, HOLD_PATH "/extend", NULL);
    assert_int_equal(fx.op->kind, OP_EXTEND);
    assert_int_equal(fx.op->seconds, 0);
    drop_op();
    ask(HTTP_METHOD_POST, HOLD_PATH "/confirm", NULL);
    assert_int_equal(fx.op->kind, OP_CONFIRM);
    drop_op();
    ask(HTTP_METHOD_DELETE, HOLD_PATH, NULL);
    assert_int_equal(fx.op->kind, OP_CANCEL);
    drop_op();
    ask(HTTP_METHOD_POST, HOLD_PATH "/transfer", NULL);
    assert_problem(400, "malformed_json");
}

static void
a_confirm_names_versions_by_seat(void **state)
{
    (void)state;
    ask(HTTP_METHOD_POST, HOLD_PATH "/confirm", "{\"version\":{\"A1\":7,\"A2\":0}}");
    assert_int_equal(fx.op->seat_count, 2);
    assert_true(slice_is(fx.op->seats[0].id, "A1"));
    assert_int_equal(fx.op->seats[0].expect_version, 7);
    drop_op();
    ask(HTTP_METHOD_POST, HOLD_PATH "/confirm", "{\"version\":{\"A1\":\"7\"}}");
    assert_problem(400, "invalid_field");
}

static void
a_clients_reason_goes_to_the_notes(void **state)
{
    (void)state;
    ask(HTTP_METHOD_DELETE, HOLD_PATH, "{\"reason\":\"ill\",\"notes\":\"called\\nus\"}");
    assert_string_equal(fx.op->reason, "user_cancelled");
    assert_true(slice_is(fx.op->notes, "ill: called\nus"));
    drop_op();
    ask(HTTP_METHOD_DELETE, HOLD_PATH "/seats/A1", NULL);
    assert_int_equal(fx.op->kind, OP_REMOVE);
    assert_int_equal(fx.op->drop_count, 1);
    assert_true(slice_is(fx.op->drop[0].id, "A1"));
    drop_op();
}

/* --- from outcome to answer
 * ------------------------------------------------------------------------- */

static void
a_refusal_names_each_seat_and_who_knew(void **state)
{
    (void)state;
    fx.on_op = refuse_op;
    fx_refusal = HF_SEAT_SOLD;
    ask(HTTP_METHOD_POST, "/api/holds", GOOD);
    assert_problem(409, "seat_sold");
    assert_true(has_header("X-Holdfast-Tier: hot\r\n"));
    assert_non_null(strstr(fx.exchange.reply.body.data,
                           "\"seats\":[{\"seat_id\":\"A1\",\"code\":\"seat_sold\"},"
                           "{\"seat_id\":\"A2\",\"code\":\"seat_sold\"}]"));
    assert_non_null(strstr(fx.exchange.reply.body.data, "\"instance\":\"/api/holds\""));
    assert_non_null(strstr(fx.exchange.reply.body.data, "\"request_id\":\"req-1\""));
    assert_non_null(strstr(fx.exchange.reply.body.data, "\"type\":\"/problems/seat_sold\""));
}

static void
what_may_be_tried_again_says_when(void **state)
{
    (void)state;
    fx.on_op = refuse_op;
    fx_refusal = HF_SEAT_CONTENDED;
    ask(HTTP_METHOD_POST, "/api/holds", GOOD);
    assert_problem(409, "seat_contended");
    assert_true(has_header("Retry-After: 1\r\n"));
    fx_refusal = HF_OUTCOME_UNKNOWN;
    ask(HTTP_METHOD_POST, "/api/holds", GOOD);
    assert_problem(503, "outcome_unknown");
    assert_true(has_header("Retry-After: 1\r\n"));
}

static bool grant_is_same;

static void
grant_op(struct op *op)
{
    struct hold_view *hold = arena_alloc(&op->arena, sizeof(*hold));

    hold->hold_id = op->hold_id;
    hold->event = op->event;
    hold->user = op->user;
    hold->cart_token = op->cart_token;
    hold->source = op->source;
    op->hold = hold;
    op->same = grant_is_same;
    op->status = grant_is_same ? HF_OK : HF_CREATED;
    op->finish(op);
    op->finish(op); /* as when its transaction is repeated: written anew */
    op->send(op);
}

static void
a_new_hold_is_201_with_its_place_the_same_again_200(void **state)
{
    (void)state;
    fx.on_op = grant_op;
    grant_is_same = false;
    ask(HTTP_METHOD_POST, "/api/holds", GOOD);
    assert_int_equal(fx.exchange.reply.status, 201);
    assert_true(has_header("Location: /api/holds/"));
    struct cJSON *tree = reply_json();
    assert_string_equal(cJSON_GetObjectItemCaseSensitive(tree, "user_id")->valuestring, "u1");
    cJSON_Delete(tree);
    grant_is_same = true;
    ask(HTTP_METHOD_POST, "/api/holds", GOOD);
    assert_int_equal(fx.exchange.reply.status, 200);
    assert_false(has_header("Location"));
}

/* --- Idempotency-Key
 * ------------------------------------------------------------------------------------ */

static void
ask_keyed(const char *target, const char *body, const char *key)
{
    prepare(HTTP_METHOD_POST, target, body)->idempotency_key = slice_of(key);
    handle_it();
}

static void
a_key_travels_with_its_op_bare_or_quoted(void **state)
{
    uint8_t first[32];

    (void)state;
    ask_keyed("/api/holds", GOOD, "k-1");
    assert_true(fx.op->keyed && slice_is(fx.op->key, "k-1"));
    assert_true(slice_is(fx.op->key_method, "POST") && slice_is(fx.op->key_path, "/api/holds"));
    memcpy(first, fx.op->key_digest, sizeof(first));
    drop_op();
    ask_keyed("/api/holds", GOOD, "\"k-1\"");
    assert_true(slice_is(fx.op->key, "k-1"));
    assert_memory_equal(fx.op->key_digest, first, sizeof(first));
    drop_op();
    ask_keyed("/api/holds", GOOD " ", "k-1");
    assert_memory_not_equal(fx.op->key_digest, first, sizeof(first));
    drop_op();
}

static void
a_key_that_is_none_is_refused(void **state)
{
    char long_key[300];

    (void)state;
    memset(long_key, 'k', sizeof(long_key));
    long_key[256] = '\0';
    ask_keyed("/api/holds", GOOD, "a\tb");
    assert_problem(400, "invalid_field");
    assert_wrong_field(0, "Idempotency-Key");
    ask_keyed("/api/holds", GOOD, "\"\"");
    assert_problem(400, "invalid_field");
    ask_keyed("/api/holds", GOOD, long_key);
    assert_problem(400, "invalid_field");
    assert_int_equal(fx.op_count, 0);
}

static void
keep_op(struct op *op)
{
    int status;
    struct slice type, body;

    op->finish(op);
    op->answer(op, &status, &type, &body);
    assert_int_equal(status, 400);
    assert_true(slice_is(type, "application/problem+json"));
    assert_non_null(memmem(body.ptr, body.len, "missing_field", 13));
    op->finish(op);
    op->send(op);
}

static void
a_refusal_before_the_engine_is_kept_for_its_key(void **state)
{
    (void)state;
    fx.on_op = keep_op;
    ask_keyed("/api/holds", "{}", "k-1");
    assert_int_equal(fx.op_count, 1);
    assert_problem(400, "missing_field");
}

static void
lose_op(struct op *op)
{
    op->status = HF_STORE_UNAVAILABLE;
    op->finish(op);
    op->send(op);
}

static void
a_refusal_that_could_not_be_kept_is_not_told(void **state)
{
    (void)state;
    fx.on_op = lose_op;
    ask_keyed("/api/holds", "{}", "k-1");
    assert_problem(503, "store_unavailable");
}

static void
replay_op(struct op *op)
{
    op->replay(op, 201, SLICE_LITERAL("application/json"), SLICE_LITERAL("{\"kept\":true}"));
    op->send(op);
}

static void
a_repetition_gets_what_was_kept(void **state)
{
    (void)state;
    fx.on_op = replay_op;
    ask_keyed("/api/holds", GOOD, "k-1");
    assert_int_equal(fx.exchange.reply.status, 201);
    assert_string_equal(fx.exchange.reply.content_type, "application/json");
    assert_string_equal(fx.exchange.reply.body.data, "{\"kept\":true}");
}

static void
neither_401_nor_429_reaches_the_engine(void **state)
{
    (void)state;
    fx.token[0] = '\0';
    ask_keyed("/api/holds", "{}", "k-1");
    assert_problem(401, "unauthenticated");
    assert_int_equal(fx.op_count, 0);
}

/* --- admission ----------------------------------------------------------------------------------
 */

static void
a_change_that_there_is_no_time_for_is_refused_before_its_body_is_read(void **state)
{
    (void)state;
    static const struct {
        enum http_method method;
        const char *path;
    } changes[] = {
        { HTTP_METHOD_PATCH, HOLD_PATH },
        { HTTP_METHOD_POST, HOLD_PATH "/extend" },
        { HTTP_METHOD_POST, HOLD_PATH "/transfer" },
        { HTTP_METHOD_POST, HOLD_PATH "/confirm" },
        { HTTP_METHOD_DELETE, HOLD_PATH },
        { HTTP_METHOD_DELETE, HOLD_PATH "/seats/A1" },
    };
    fx.admits = HF_OVERLOADED;
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        ask(changes[i].method, changes[i].path, "no JSON");
        assert_problem(503, "overloaded");
        assert_true(has_header("Retry-After: 3\r\n"));
    }
    fx.admits = HF_STORE_UNAVAILABLE;
    ask(HTTP_METHOD_DELETE, HOLD_PATH, "no JSON");
    assert_problem(503, "store_unavailable");
    assert_int_equal(fx.op_count, 0);
}

/* --- passengers' tokens ------------------------------------------------------------------------
 */

static void
a_token_for_one_event_names_no_other(void **state)
{
    (void)state;
    as_bound("u1", ROLE_USER, "e1");
    ask(HTTP_METHOD_POST, "/api/holds",
        "{\"event_id\":\"e2\",\"seat_ids\":[\"A1\"],\"cart_token\":\"c\"}");
    assert_problem(403, "forbidden");
    ask(HTTP_METHOD_POST, "/api/events/e2/seats/A1/hold", "{\"cart_token\":\"c\"}");
    assert_problem(403, "forbidden");
    ask(HTTP_METHOD_POST, "/api/events/e2/holds/best", "{\"quantity\":1,\"cart_token\":\"c\"}");
    assert_problem(403, "forbidden");
    ask(HTTP_METHOD_POST, "/api/checkouts", "{\"event_id\":\"e2\"}");
    assert_problem(403, "forbidden");
    ask(HTTP_METHOD_GET, "/api/holds?event_id=e2", NULL);
    assert_problem(403, "forbidden");
    ask(HTTP_METHOD_GET, "/api/events/e2/occupancy", NULL);
    assert_problem(403, "forbidden");
    ask(HTTP_METHOD_GET, "/api/events/%65%32", NULL);
    assert_problem(403, "forbidden");
    assert_null(fx.op);
}

static void
a_token_for_one_event_binds_what_names_a_hold_alone(void **state)
{
    static const char path[] = "/api/holds/0190a000-0000-7000-8000-000000000000/extend";

    (void)state;
    as_bound("u1", ROLE_USER, "e1");
    ask(HTTP_METHOD_POST, path, "{}");
    assert_non_null(fx.op);
    assert_true(slice_is(fx.op->bound_event, "e1"));
    drop_op();
    as("u1", ROLE_USER);
    ask(HTTP_METHOD_POST, path, "{}");
    assert_int_equal(fx.op->bound_event.len, 0);
    drop_op();
}

static void
a_hold_request_is_read_all_the_same_for_memory_may_know(void **state)
{
    (void)state;
    fx.admits = HF_OVERLOADED;
    ask(HTTP_METHOD_POST, "/api/holds", GOOD);
    assert_int_equal(fx.op_count, 1);
    drop_op();
}

static void
a_stranger_hears_401_not_that_there_is_no_time(void **state)
{
    (void)state;
    fx.admits = HF_OVERLOADED;
    fx.token[0] = '\0';
    ask(HTTP_METHOD_DELETE, HOLD_PATH, "");
    assert_problem(401, "unauthenticated");
}

int
main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, as_user, fixture_down)
    const struct CMUnitTest tests[] = {
        CASE(a_hold_request_becomes_an_op),
        CASE(the_names_of_seed_004_are_taken_and_the_server_makes_the_cart_token),
        CASE(one_seat_can_be_held_by_its_path),
        CASE(what_is_missing_is_missing_field),
        CASE(all_wrong_fields_are_told_at_once),
        CASE(a_body_that_is_no_json_or_no_object_is_refused),
        CASE(a_seat_twice_is_duplicate_seat_an_area_twice_invalid_field),
        CASE(more_seats_than_any_hold_can_have_are_not_even_read),
        CASE(a_cart_token_counts_characters_and_has_no_controls),
        CASE(a_user_may_name_itself_and_nobody_else),
        CASE(an_agent_acts_for_others_and_chooses_the_time),
        CASE(a_user_does_not_choose_the_time),
        CASE(a_time_beyond_max_hold_is_refused_where_the_event_is_known),
        CASE(a_patch_needs_a_change_and_no_seat_both_ways),
        CASE(bodies_that_may_be_left_out_may),
        CASE(a_confirm_names_versions_by_seat),
        CASE(a_clients_reason_goes_to_the_notes),
        CASE(a_refusal_names_each_seat_and_who_knew),
        CASE(what_may_be_tried_again_says_when),
        CASE(a_new_hold_is_201_with_its_place_the_same_again_200),
        CASE(a_key_travels_with_its_op_bare_or_quoted),
        CASE(a_key_that_is_none_is_refused),
        CASE(a_refusal_before_the_engine_is_kept_for_its_key),
        CASE(a_refusal_that_could_not_be_kept_is_not_told),
        CASE(a_repetition_gets_what_was_kept),
        CASE(neither_401_nor_429_reaches_the_engine),
        CASE(a_change_that_there_is_no_time_for_is_refused_before_its_body_is_read),
        CASE(a_token_for_one_event_names_no_other),
        CASE(a_token_for_one_event_binds_what_names_a_hold_alone),
        CASE(a_hold_request_is_read_all_the_same_for_memory_may_know),
        CASE(a_stranger_hears_401_not_that_there_is_no_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
