/*
 * seating.c - the order of a row, its blocks, and the rule of the single seat.
 *
 * Whether another choice of as many seats would leave none alone is found by going through the row
 * once: for each way that the seats so far can end (behind a seat that is taken, one free seat, two
 * or more of them) the set of how many can have been chosen, as bits.
 */
#include "holdfast/seating.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* --- order and blocks --------------------------------------------------------------- */

/* A number that can be counted: what stands before it, and its value. */
struct place {
    struct slice prefix;
    uint64_t value;
    bool is_digits, is_letter;
};

#define DIGITS_MAX 18 /* more of them fit no value */

static struct place
place_of(struct slice number)
{
    size_t digits = 0;
    struct place place = { .prefix = number };

    while (digits < number.len && isdigit((unsigned char)number.ptr[number.len - 1 - digits]))
        digits++;
    if (digits > 0 && digits <= DIGITS_MAX) {
        place.is_digits = true;
        place.prefix.len -= digits;
        for (size_t i = place.prefix.len; i < number.len; i++)
            place.value = place.value * 10 + (uint64_t)(number.ptr[i] - '0');
    } else if (number.len == 1 && isalpha((unsigned char)number.ptr[0])) {
        place.is_letter = true;
        place.prefix.len = 0;
        place.value = (uint64_t)number.ptr[0];
    }
    return place;
}

/* Many houses number the seats left of the middle odd, and those right of it even. */
static uint64_t
step_of(const struct seating_label *labels, int count)
{
    if (count < 3)
        return 1;
    uint64_t parity = place_of(labels[0].number).value % 2;
    for (int i = 0; i < count; i++) {
        struct place place = place_of(labels[i].number);
        if (!place.is_digits || place.value % 2 != parity)
            return 1;
    }
    return 2;
}

static bool
letters_are_next(uint64_t a, uint64_t b)
{
    uint64_t between = a + 1;
    bool left_out = between == 'I' || between == 'O' || between == 'i' || between == 'o';

    return b == a + 1 || (b == a + 2 && left_out);
}

static bool
are_next(struct slice a, struct slice b, uint64_t step)
{
    struct place left = place_of(a), right = place_of(b);

    if (left.is_letter && right.is_letter)
        return letters_are_next(left.value, right.value);
    if (left.is_digits && right.is_digits)
        return slice_equal(left.prefix, right.prefix) && right.value - left.value <= step;
    return true;
}

static int
compare_labels(const void *a, const void *b)
{
    const struct seating_label *left = a, *right = b;
    int order = natural_compare(left->number, right->number);

    return order != 0 ? order : (left->tag > right->tag) - (left->tag < right->tag);
}

static int
compare_removed(const void *a, const void *b)
{
    const struct seating_label *left = a, *right = b;

    return left->is_removed != right->is_removed ? (int)left->is_removed - (int)right->is_removed
                                                 : compare_labels(a, b);
}

int
seating_order(struct seating_label *labels, int count, uint8_t *seats)
{
    int kept = 0;

    if (count == 0)
        return 0;
    qsort(labels, (size_t)count, sizeof(*labels), compare_labels);
    uint64_t step = step_of(labels, count);
    for (int i = 0; i < count; i++) {
        bool is_last = i + 1 == count;
        bool ends = is_last || labels[i].aisle_after || labels[i + 1].is_removed ||
                    !are_next(labels[i].number, labels[i + 1].number, step);
        if (!labels[i].is_removed)
            seats[kept++] = ends ? SEATING_BREAK : 0;
    }
    qsort(labels, (size_t)count, sizeof(*labels), compare_removed);
    return kept;
}

/* --- who is left alone --------------------------------------------------------------- */

static bool
is_free(uint8_t seat, uint8_t unless)
{
    return (seat & unless) == 0;
}

/* unless: what makes a seat not free. */
static bool
is_alone(const uint8_t *seats, int count, int i, uint8_t unless)
{
    bool left = i > 0 && (seats[i - 1] & SEATING_BREAK) == 0 && is_free(seats[i - 1], unless);
    bool right = i + 1 < count && (seats[i] & SEATING_BREAK) == 0 && is_free(seats[i + 1], unless);

    return is_free(seats[i], unless) && !left && !right;
}

static bool
was_alone(const uint8_t *seats, int count, int i)
{
    return is_alone(seats, count, i, SEATING_TAKEN | SEATING_MINE);
}

/* --- is there a better choice? --------------------------------------------------------- */

#define WORD_BITS 64
#define WORDS_MAX 16
#define CHOICE_MAX                                                                                 \
    (WORD_BITS * WORDS_MAX - 1) /* who takes more of a row isn't told to take others */

/* Which numbers of chosen seats are possible. */
struct counts {
    uint64_t words[WORDS_MAX];
};

/* How the seats so far can end. */
struct endings {
    struct counts closed; /* with a seat that isn't free, or the end of a block */
    struct counts one;    /* with one free seat after that */
    struct counts more;   /* with two or more */
};

static void
add(struct counts *to, const struct counts *from, int words)
{
    for (int i = 0; i < words; i++)
        to->words[i] |= from->words[i];
}

static void
add_one_to_each(struct counts *counts, int words)
{
    for (int i = words - 1; i >= 0; i--)
        counts->words[i] = counts->words[i] << 1 | (i > 0 ? counts->words[i - 1] >> 63 : 0);
}

/* All that may end here. one_may: a single free seat before it is no fault. */
static struct counts
closable(const struct endings *before, bool one_may, int words)
{
    struct counts all = before->closed;

    add(&all, &before->more, words);
    if (one_may)
        add(&all, &before->one, words);
    return all;
}

static bool
there_is_a_better_choice(const uint8_t *seats, int count, int chosen)
{
    int words = chosen / WORD_BITS + 1;
    struct endings now = { .closed = { { 1 } } };

    for (int i = 0; i < count; i++) {
        struct endings next = { .closed = closable(&now, i > 0 && was_alone(seats, count, i - 1),
                                                   words) };
        if ((seats[i] & SEATING_TAKEN) == 0) {
            add_one_to_each(&next.closed, words);
            next.one = now.closed;
            next.more = now.more;
            add(&next.more, &now.one, words);
        }
        if (seats[i] & SEATING_BREAK || i + 1 == count)
            next = (struct endings){ .closed = closable(&next, was_alone(seats, count, i), words) };
        now = next;
    }
    return now.closed.words[chosen / WORD_BITS] >> (chosen % WORD_BITS) & 1;
}

int
seating_left_alone(const uint8_t *seats, int count, int *alone, int alone_max)
{
    int found = 0, chosen = 0;

    for (int i = 0; i < count; i++) {
        chosen += (seats[i] & SEATING_CHOSEN) != 0;
        if (!is_alone(seats, count, i, SEATING_TAKEN | SEATING_CHOSEN) ||
            was_alone(seats, count, i))
            continue;
        if (found < alone_max)
            alone[found] = i;
        found++;
    }
    if (found == 0 || chosen > CHOICE_MAX || !there_is_a_better_choice(seats, count, chosen))
        return 0;
    return found;
}
