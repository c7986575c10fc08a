/* The rules of the settings, the scales that believe the passenger, and what the others may say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "scales.h"

static struct config
usual_config(void)
{
    struct config config = { 0 };

    config.baggage_limit_kg = (char *)(uintptr_t) "25";
    config.baggage_max_kg = (char *)(uintptr_t) "200.5";
    config.baggage_surcharge = 5000;
    config.baggage_currency = (char *)(uintptr_t) "USD";
    config.baggage_provider = (char *)(uintptr_t) "simulated";
    config.baggage_provider_url = (char *)(uintptr_t) "";
    return config;
}

struct answer {
    int count;
    enum weighing outcome;
    int64_t weight;
};

static void
told(void *context, enum weighing outcome, int64_t weight)
{
    struct answer *answer = context;

    answer->count++;
    answer->outcome = outcome;
    answer->weight = weight;
}

static void
the_simulated_scales_believe_the_passenger(void **state)
{
    struct config config = usual_config();
    char error[256] = "";
    struct baggage *baggage = baggage_start(&config, error, sizeof(error));
    struct bag bag = {
        SLICE_LITERAL("o"), SLICE_LITERAL("f"), SLICE_LITERAL("p"), { { 1 } }, 2501
    };
    struct answer answer = { 0 };

    (void)state;
    assert_non_null(baggage);
    assert_int_equal(baggage_rules(baggage)->limit, 2500);
    assert_int_equal(baggage_rules(baggage)->max, 20050);
    assert_int_equal(baggage_rules(baggage)->surcharge, 5000);
    baggage_weigh(baggage, &bag, (struct mono_time){ INT64_MAX }, told, &answer);
    assert_int_equal(answer.count, 1);
    assert_int_equal(answer.outcome, WEIGHED);
    assert_int_equal(answer.weight, 2501);
    baggage_stop(baggage);
    baggage_free(&baggage);
    assert_null(baggage);
}

static bool
takes(const struct config *config, const char *named)
{
    char error[256] = "";
    bool good = baggage_check(config, error, sizeof(error));

    if (!good)
        assert_non_null(strstr(error, named));
    return good;
}

static void
bad_rules_are_named(void **state)
{
    static const char *const weights[] = {
        "", "x", "-1", "25.001", "1e1", "10000", "2.5.0", " 25"
    };
    static const char *const currencies[] = { "", "US", "usd", "USDX", "U D" };

    (void)state;
    for (size_t i = 0; i < sizeof(weights) / sizeof(weights[0]); i++) {
        struct config config = usual_config();
        config.baggage_limit_kg = (char *)(uintptr_t)weights[i];
        assert_false(takes(&config, "baggage_limit_kg"));
        config = usual_config();
        config.baggage_max_kg = (char *)(uintptr_t)weights[i];
        assert_false(takes(&config, "baggage_max_kg"));
    }
    for (size_t i = 0; i < sizeof(currencies) / sizeof(currencies[0]); i++) {
        struct config config = usual_config();
        config.baggage_currency = (char *)(uintptr_t)currencies[i];
        assert_false(takes(&config, "baggage_currency"));
    }
}

static void
a_provider_has_a_known_name_and_http_a_url(void **state)
{
    static const char *const urls[] = { "", "x", "ftp://h/", "http://u:p@h/", "http://" };
    struct config config = usual_config();

    (void)state;
    config.baggage_provider = (char *)(uintptr_t) "guess";
    assert_false(takes(&config, "baggage_provider"));
    config.baggage_provider = (char *)(uintptr_t) "http";
    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        config.baggage_provider_url = (char *)(uintptr_t)urls[i];
        assert_false(takes(&config, "baggage_provider_url"));
    }
    config.baggage_provider_url = (char *)(uintptr_t) "https://scales.example/weigh?gate=7";
    assert_true(takes(&config, ""));
}

static void
a_weight_over_http_is_exact_or_none(void **state)
{
    static const struct {
        const char *body;
        int64_t weight; /* -1: none */
    } cases[] = {
        { "{\"weightKg\": 25}", 2500 },
        { "{\"weightKg\": 25.01}", 2501 },
        { "{\"weightKg\": 25.001}", 2501 },
        { "{\"weightKg\": 0}", 0 },
        { "{\"weightKg\": 64.41}", 6441 },
        { "{\"weightKg\": 1e400}", -1 },
        { "{\"weightKg\": -1}", -1 },
        { "{\"weightKg\": \"25\"}", -1 },
        { "{\"weightKg\": null}", -1 },
        { "{}", -1 },
        { "25", -1 },
        { "", -1 },
        { "{\"weightkg\": 25}", -1 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int64_t weight = -1;
        bool known = scales_http_weight(slice_of(cases[i].body), &weight);
        if (known != (cases[i].weight >= 0) || (known && weight != cases[i].weight))
            fail_msg("%s: %d, %lld", cases[i].body, known, (long long)weight);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_simulated_scales_believe_the_passenger),
        cmocka_unit_test(bad_rules_are_named),
        cmocka_unit_test(a_provider_has_a_known_name_and_http_a_url),
        cmocka_unit_test(a_weight_over_http_is_exact_or_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
