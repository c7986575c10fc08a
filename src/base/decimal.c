/*
 * decimal.c - decimal numbers as hundredths, exactly.
 *
 * The digits are walked once with the place of the decimal point kept beside them: those before the
 * second place behind it count, and any other than 0 after that counts as one more hundredth.
 */
#include "holdfast/decimal.h"

#define EXPONENT_MAX 100000 /* far more than digits of any number that is sent */

struct number {
    struct slice rest;
    struct slice whole, fraction; /* digits */
    int64_t exponent;
    bool is_negative;
};

static bool
take(struct number *number, char a, char b)
{
    struct slice *rest = &number->rest;

    if (rest->len == 0 || (rest->ptr[0] != a && rest->ptr[0] != b))
        return false;
    *rest = (struct slice){ rest->ptr + 1, rest->len - 1 };
    return true;
}

static struct slice
take_digits(struct number *number)
{
    struct slice *rest = &number->rest;
    size_t len = 0;

    while (len < rest->len && rest->ptr[len] >= '0' && rest->ptr[len] <= '9')
        len++;
    struct slice digits = { rest->ptr, len };
    *rest = (struct slice){ rest->ptr + len, rest->len - len };
    return digits;
}

static bool
take_exponent(struct number *number)
{
    bool is_negative = take(number, '-', '-');

    if (!is_negative)
        (void)take(number, '+', '+');
    struct slice digits = take_digits(number);
    for (size_t i = 0; i < digits.len; i++) {
        if (number->exponent < EXPONENT_MAX)
            number->exponent = number->exponent * 10 + (digits.ptr[i] - '0');
    }
    if (is_negative)
        number->exponent = -number->exponent;
    return digits.len > 0;
}

static bool
split(struct slice text, struct number *number)
{
    *number = (struct number){ .rest = text, .fraction = SLICE_EMPTY };
    number->is_negative = take(number, '-', '-');
    number->whole = take_digits(number);
    if (take(number, '.', '.')) {
        number->fraction = take_digits(number);
        if (number->fraction.len == 0)
            return false;
    }
    if (take(number, 'e', 'E') && !take_exponent(number))
        return false;
    return number->whole.len > 0 && number->rest.len == 0;
}

static char
digit_at(const struct number *number, size_t i)
{
    return i < number->whole.len ? number->whole.ptr[i]
                                 : number->fraction.ptr[i - number->whole.len];
}

bool
decimal_hundredths_up(struct slice text, int64_t *hundredths)
{
    struct number number;
    int64_t sum = 0;
    bool is_more = false;

    if (!split(text, &number))
        return false;
    /* How many of the digits, as if zeros followed them, make the hundredths. */
    int64_t places = (int64_t)number.whole.len + 2 + number.exponent;
    size_t count = number.whole.len + number.fraction.len;
    for (size_t i = 0; i < count; i++) {
        int digit = digit_at(&number, i) - '0';
        if ((int64_t)i >= places)
            is_more = is_more || digit != 0;
        else if (sum < HUNDREDTHS_MAX)
            sum = sum * 10 + digit;
    }
    for (int64_t i = (int64_t)count; i < places && sum > 0 && sum < HUNDREDTHS_MAX; i++)
        sum *= 10;
    sum += is_more;
    *hundredths = sum < HUNDREDTHS_MAX ? sum : HUNDREDTHS_MAX;
    return !number.is_negative || sum == 0;
}
