/*
 * natural_order.c - how people sort rows and seat numbers: A2 before A10.
 *
 * A run of digits is compared as a number of any length, without reading it as one:
 * leading zeros off, the longer one is larger, equal lengths compare as text. Texts
 * that are equal that way ("7", "07") are told apart by their bytes.
 */
#include <string.h>

#include "holdfast/seating.h"

static bool
is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Takes the digits at *at; returns them without leading zeros. */
static struct slice
take_number(struct slice text, size_t *at)
{
    while (*at < text.len && text.ptr[*at] == '0')
        (*at)++;
    size_t from = *at;
    while (*at < text.len && is_digit(text.ptr[*at]))
        (*at)++;
    return (struct slice){ text.ptr + from, *at - from };
}

static int
compare_bytes(struct slice a, struct slice b)
{
    size_t least = a.len < b.len ? a.len : b.len;
    int order = least == 0 ? 0 : memcmp(a.ptr, b.ptr, least);

    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

static int
compare_numbers(struct slice a, struct slice b)
{
    return a.len != b.len ? (a.len > b.len ? 1 : -1) : compare_bytes(a, b);
}

int
natural_compare(struct slice a, struct slice b)
{
    size_t i = 0;
    size_t j = 0;

    while (i < a.len && j < b.len) {
        int order;
        if (is_digit(a.ptr[i]) && is_digit(b.ptr[j])) {
            struct slice left = take_number(a, &i);
            order = compare_numbers(left, take_number(b, &j));
        } else {
            order = (int)(unsigned char)a.ptr[i++] - (int)(unsigned char)b.ptr[j++];
        }
        if (order != 0)
            return order;
    }
    int rest = (i < a.len) - (j < b.len);
    return rest != 0 ? rest : compare_bytes(a, b);
}
