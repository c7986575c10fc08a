/* Paths find their routes, and nothing else does; openapi.json describes exactly these. */
#include "fixture.h"
#include "openapi.h"

static struct route_match match;
static struct arena match_arena;

static const char *
route_name(enum http_method method, const char *path)
{
    arena_fini(&match_arena);
    assert_true(route_find(&match_arena, method, slice_of(path), &match));
    return match.route != NULL ? match.route->name : "";
}

static void
a_path_finds_its_route_and_parameters(void **state)
{
    (void)state;
    assert_string_equal(route_name(HTTP_METHOD_POST, "/api/holds"), "holds_post");
    assert_string_equal(route_name(HTTP_METHOD_POST, "/api/events/e1/seats/A-1/hold"),
                        "seat_hold_post");
    assert_int_equal(match.param_count, 2);
    assert_true(slice_is(match.params[0].name, "event") && slice_is(match.params[0].value, "e1"));
    assert_true(slice_is(match.params[1].name, "seat") && slice_is(match.params[1].value, "A-1"));
    assert_string_equal(route_name(HTTP_METHOD_GET, "/"), "home");
}

static void
a_literal_segment_and_a_parameter_share_a_path(void **state)
{
    (void)state;
    assert_string_equal(route_name(HTTP_METHOD_POST, "/api/events/e1/seats/import"),
                        "events_import");
    assert_string_equal(route_name(HTTP_METHOD_GET, "/api/events/e1/seats/import"), "seat_get");
}

static void
head_is_served_by_get(void **state)
{
    (void)state;
    assert_string_equal(route_name(HTTP_METHOD_HEAD, "/health"), "health");
    assert_string_equal(route_name(HTTP_METHOD_HEAD, "/api/events/e1"), "events_get");
}

static void
segments_are_decoded_one_by_one(void **state)
{
    (void)state;
    assert_string_equal(route_name(HTTP_METHOD_GET, "/api/events/a%2Fb"), "events_get");
    assert_true(slice_is(match.params[0].value, "a/b"));
    assert_string_equal(route_name(HTTP_METHOD_GET, "/api/%65vents"), "events_list");
    assert_string_equal(route_name(HTTP_METHOD_GET, "/api/events/a%2"), "events_get");
    assert_true(slice_is(match.params[0].value, "a%2")); /* no id: refused later */
}

static void
paths_are_taken_to_the_letter(void **state)
{
    static const char *const none[] = { "",
                                        "x",
                                        "/api",
                                        "/api/holds/",
                                        "//api/holds",
                                        "/api//holds",
                                        "/API/holds",
                                        "/api/events//seats",
                                        "/health/x",
                                        "/api/holds/1/2/3/4/5/6/7/8/9",
                                        "*" };
    (void)state;
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        assert_string_equal(route_name(HTTP_METHOD_GET, none[i]), "");
        assert_int_equal(match.allow, 0);
    }
}

static void
a_wrong_method_learns_which_are_right(void **state)
{
    (void)state;
    assert_string_equal(route_name(HTTP_METHOD_PUT, "/api/holds"), "");
    assert_int_equal(match.allow,
                     1u << HTTP_METHOD_GET | 1u << HTTP_METHOD_HEAD | 1u << HTTP_METHOD_POST);
}

/* --- openapi.json ----------------------------------------------------------------------- */

static const char *
method_word(enum http_method method)
{
    switch (method) {
    case HTTP_METHOD_GET:
    case HTTP_METHOD_HEAD:
        return "get";
    case HTTP_METHOD_POST:
        return "post";
    case HTTP_METHOD_PUT:
        return "put";
    case HTTP_METHOD_PATCH:
        return "patch";
    case HTTP_METHOD_DELETE:
        return "delete";
    case HTTP_METHOD_OPTIONS:
        return "options";
    }
    return "";
}

static bool
routes_have(const char *pattern, const char *method)
{
    for (int i = 0; i < route_count; i++) {
        if (strcmp(routes[i].pattern, pattern) == 0 &&
            strcmp(method_word(routes[i].method), method) == 0)
            return true;
    }
    return false;
}

static struct cJSON *
openapi(void)
{
    struct json_error error;
    struct cJSON *tree = json_parse(slice_of(openapi_files[0].text), &error);
    assert_non_null(tree);
    return tree;
}

static void
openapi_describes_every_route(void **state)
{
    struct cJSON *tree = openapi();
    struct cJSON *paths = cJSON_GetObjectItemCaseSensitive(tree, "paths");

    (void)state;
    for (int i = 0; i < route_count; i++) {
        struct cJSON *path = cJSON_GetObjectItemCaseSensitive(paths, routes[i].pattern);
        struct cJSON *operation =
            cJSON_GetObjectItemCaseSensitive(path, method_word(routes[i].method));
        if (operation == NULL)
            fail_msg("%s %s is not described", method_word(routes[i].method), routes[i].pattern);
        /* An empty list: open to all. None: the document's, a token. Two ways in: a ticket too. */
        struct cJSON *security = cJSON_GetObjectItemCaseSensitive(operation, "security");
        int ways = security == NULL ? 1 : cJSON_GetArraySize(security);
        enum route_access access = routes[i].access;
        assert_int_equal(ways, access == ACCESS_OPEN ? 0 : access == ACCESS_TICKET ? 2 : 1);
        bool takes_body = cJSON_GetObjectItemCaseSensitive(operation, "requestBody") != NULL;
        if (takes_body)
            assert_int_not_equal(routes[i].body, BODY_NONE);
    }
    cJSON_Delete(tree);
}

static void
openapi_describes_nothing_else(void **state)
{
    struct cJSON *tree = openapi();
    struct cJSON *path, *operation;

    (void)state;
    assert_string_equal(cJSON_GetObjectItemCaseSensitive(tree, "openapi")->valuestring, "3.1.0");
    cJSON_ArrayForEach(path, cJSON_GetObjectItemCaseSensitive(tree, "paths"))
    {
        cJSON_ArrayForEach(operation, path)
        {
            if (!routes_have(path->string, operation->string))
                fail_msg("%s %s is described, but no route", operation->string, path->string);
        }
    }
    cJSON_Delete(tree);
}

static void
openapi_knows_every_code_of_a_problem(void **state)
{
    struct cJSON *tree = openapi();
    struct cJSON *components = cJSON_GetObjectItemCaseSensitive(tree, "components");
    struct cJSON *schemas = cJSON_GetObjectItemCaseSensitive(components, "schemas");
    struct cJSON *problem = cJSON_GetObjectItemCaseSensitive(schemas, "Problem");
    struct cJSON *properties = cJSON_GetObjectItemCaseSensitive(problem, "properties");
    struct cJSON *codes = cJSON_GetObjectItemCaseSensitive(
        cJSON_GetObjectItemCaseSensitive(properties, "code"), "enum");

    (void)state;
    for (int status = 0; status < HF_STATUS_COUNT; status++) {
        struct cJSON *code;
        bool is_there = false;
        if (status_http((enum hf_status)status) < 400)
            continue;
        cJSON_ArrayForEach(code, codes) is_there =
            is_there || strcmp(code->valuestring, status_code((enum hf_status)status)) == 0;
        if (!is_there)
            fail_msg("%s is not described", status_code((enum hf_status)status));
    }
    cJSON_Delete(tree);
}

static int
forget_match(void **state)
{
    (void)state;
    arena_fini(&match_arena);
    return 0;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_path_finds_its_route_and_parameters),
        cmocka_unit_test(a_literal_segment_and_a_parameter_share_a_path),
        cmocka_unit_test(head_is_served_by_get),
        cmocka_unit_test(segments_are_decoded_one_by_one),
        cmocka_unit_test(paths_are_taken_to_the_letter),
        cmocka_unit_test(a_wrong_method_learns_which_are_right),
        cmocka_unit_test(openapi_describes_every_route),
        cmocka_unit_test(openapi_describes_nothing_else),
        cmocka_unit_test(openapi_knows_every_code_of_a_problem),
    };
    return cmocka_run_group_tests(tests, NULL, forget_match);
}
