/* simulated.c - scales for trials and tests: a bag weighs what the passenger says. */
#include "scales.h"

static bool
simulated_check(const struct config *config, char *error, size_t error_bytes)
{
    (void)config, (void)error, (void)error_bytes; /* it has no settings */
    return true;
}

static void
simulated_begin(struct weighing_call *call)
{
    weighing_answer(call, WEIGHED, call->bag.weight);
}

static void
simulated_end(struct weighing_call *call)
{
    (void)call;
}

const struct scales scales_simulated = { "simulated", false, simulated_check, simulated_begin,
                                         simulated_end };
