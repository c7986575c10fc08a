/* What a ticket is worth when Postgres doesn't answer. */
#include "fixture.h"
#include "stream_ticket.h"

static enum pg_outcome says;
static int asked;

/* The linker puts these in the place of pg_run and pg_ready_until. */
enum pg_outcome __wrap_pg_run(struct pg *pg, enum pg_statement statement,
                              const struct pg_params *params, struct mono_time deadline,
                              struct pg_result **result);
bool __wrap_pg_ready_until(struct pg *pg, struct mono_time deadline);

enum pg_outcome
__wrap_pg_run(struct pg *pg, enum pg_statement statement, const struct pg_params *params,
              struct mono_time deadline, struct pg_result **result)
{
    (void)pg;
    (void)params;
    (void)deadline;
    assert_int_equal(statement, STATEMENT_USE_STREAM_TICKET);
    *result = NULL;
    asked++;
    return says;
}

bool
__wrap_pg_ready_until(struct pg *pg, struct mono_time deadline)
{
    (void)pg;
    (void)deadline;
    return true;
}

/* It may have been used up: asked again it would be unknown, and the client sent away. */
static void
a_ticket_is_asked_for_once(void **state)
{
    struct api_call call = { .event = SLICE_LITERAL("e1") };
    struct desk_tools tools = { .node = &fx.node };

    (void)state;
    says = PG_UNKNOWN;
    asked = 0;
    assert_int_equal(stream_ticket_use(&call, &tools, SLICE_LITERAL("t")), HF_STORE_UNAVAILABLE);
    assert_int_equal(asked, 1);
    says = PG_UNAVAILABLE;
    assert_int_equal(stream_ticket_use(&call, &tools, SLICE_LITERAL("t")), HF_STORE_UNAVAILABLE);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_ticket_is_asked_for_once, fixture_up, fixture_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
