/*
 * simulated.c - a provider for trials and tests: the method's name says what becomes of a charge.
 *
 * It remembers nothing, so that any node can be asked, also after a restart: what became of a
 * charge is told by the method again. An unknown method is declined, as an unknown card would be.
 */
#include "provider.h"

#define SLOW_US (2 * (int64_t)TIME_US_PER_S)

struct method {
    const char *name;
    enum payment_outcome charged, asked; /* the answers to the two questions */
    int64_t after_us;
};

static const struct method methods[] = {
    { "tok_ok", PAYMENT_PAID, PAYMENT_PAID, 0 },
    { "tok_declined", PAYMENT_DECLINED, PAYMENT_DECLINED, 0 },
    { "tok_pending", PAYMENT_UNDECIDED, PAYMENT_UNDECIDED, 0 },
    { "tok_error", PAYMENT_UNREACHED, PAYMENT_DECLINED, 0 },
    { "tok_slow", PAYMENT_PAID, PAYMENT_PAID, SLOW_US },
};
static const struct method unknown = { "", PAYMENT_DECLINED, PAYMENT_DECLINED, 0 };

static const struct method *
find_method(struct slice name)
{
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        if (slice_is(name, methods[i].name))
            return &methods[i];
    }
    return &unknown;
}

static bool
simulated_check(const struct config *config, char *error, size_t error_bytes)
{
    (void)config, (void)error, (void)error_bytes; /* it has no settings */
    return true;
}

static void
simulated_begin(struct payment_call *call)
{
    const struct method *method = find_method(call->payment.method);

    if (call->is_ask)
        payment_call_answer(call, method->asked);
    else if (method->after_us > 0)
        payment_call_answer_in(call, method->after_us, method->charged);
    else
        payment_call_answer(call, method->charged);
}

static void
simulated_end(struct payment_call *call)
{
    (void)call;
}

const struct provider provider_simulated = { "simulated", simulated_check, simulated_begin,
                                             simulated_end };
