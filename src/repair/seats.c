/*
 * seats.c - what the warm tier has of an event's seats: key, member and meta of each hold.
 *
 * A portion is a page of seats. The first look reads Postgres' page, then Redis; what is equal
 * leaves. The others go through rounds (Redis, then Postgres): a round that finds a seat equal lets
 * it go, else the seat is mended and stays for the next. A seat that moved on in Postgres with each
 * round is alive: the engine writes it with each change, and no drift is said of it.
 */
#include "repair_internal.h"

#include <stdlib.h>
#include <string.h>

#define LOOKS             3                    /* rounds of a look: then it is drift */
#define ROUNDS            8                    /* of mending: then it is left */
#define SETTLE_US         (5 * TIME_US_PER_MS) /* before a round that isn't the first after a mend */
#define MENDS_AT_ONCE     100                  /* each is some 40 us of Redis' time */
#define MENDS_BEFORE_REST 2

struct seat_look {
    struct slice seat; /* in the portion's names */
    struct warm_want want;
    struct warm_want before; /* what was wanted a round before */
    bool found;
    struct slice text; /* what was found, in the portion's texts */
    bool details;      /* Redis has member and meta of what was wanted when it was read */
    bool mended;
};

struct portion {
    struct comparison *c;
    struct arena names;
    struct arena texts;
    struct pg_result *rows, *rows_before; /* the wants' texts point into them */
    bool failed;                          /* no memory */
    struct buf last;                      /* the last page's last seat; empty: none yet */
    bool more;                            /* seats behind it */
    int count;
    struct seat_look looks[PORTION]; /* in order of their ids */

    /* scratch */
    struct pg_array ids;
    struct slice seats[PORTION];
    struct warm_hold holds[PORTION];
    bool right[PORTION];
    struct warm_found drops[PORTION];
};

/* --- reading Redis ----------------------------------------------------------------- */

static int
compare_with_look(const void *key, const void *element)
{
    const struct slice *seat = key;
    const struct seat_look *look = element;
    size_t len = seat->len < look->seat.len ? seat->len : look->seat.len;
    int order = memcmp(seat->ptr, look->seat.ptr, len);

    return order != 0 ? order : (seat->len > look->seat.len) - (seat->len < look->seat.len);
}

static bool
take_found(void *context, const struct warm_found *found)
{
    struct portion *p = context;
    struct seat_look *look =
        bsearch(&found->seat, p->looks, (size_t)p->count, sizeof(*p->looks), compare_with_look);

    if (look == NULL)
        return true;
    look->text = arena_copy(&p->texts, found->text);
    look->found = look->text.ptr != NULL;
    p->failed = p->failed || !look->found;
    return !p->failed;
}

static bool
read_keys(struct portion *p)
{
    arena_fini(&p->texts);
    for (int i = 0; i < p->count; i++) {
        p->looks[i].found = false;
        p->seats[i] = p->looks[i].seat;
    }
    return warm_read_seats(p->c->warm, p->c->org, p->c->event, p->seats, p->count, take_found, p) &&
           !p->failed;
}

static bool
read_details(struct portion *p)
{
    int count = 0;

    for (int i = 0; i < p->count; i++) {
        if (p->looks[i].want.need == NEED_HOLD)
            p->holds[count++] = p->looks[i].want.hold;
    }
    if (count > 0 && !warm_read_details(p->c->warm, p->holds, count, p->right))
        return false;
    for (int i = 0, at = 0; i < p->count; i++)
        p->looks[i].details = p->looks[i].want.need == NEED_HOLD && p->right[at++];
    return true;
}

static enum hf_status
read_redis(struct portion *p)
{
    return p->count == 0 || (read_keys(p) && read_details(p)) ? HF_OK : HF_OVERLOADED;
}

/* --- reading Postgres ---------------------------------------------------------------- */

static enum hf_status
read_page(struct portion *p)
{
    enum hf_status status = compare_ask_page(p->c, buf_slice(&p->last), &p->rows);
    int rows = status == HF_OK ? pg_rows(p->rows) : 0;
    struct slice seat = SLICE_EMPTY;

    for (int row = 0; row < rows; row++) {
        struct seat_look *look = &p->looks[p->count];
        seat = pg_get_text(p->rows, row, WS_SEAT);
        *look = (struct seat_look){ .seat = arena_copy(&p->names, seat) };
        if (look->seat.ptr == NULL)
            return HF_OVERLOADED;
        warm_want_read(p->c, p->rows, row, &look->want);
        p->count += look->want.need != NEED_UNKNOWN;
        p->c->report->db_count += look->want.need == NEED_HOLD;
    }
    buf_clear(&p->last);
    buf_append_slice(&p->last, seat);
    p->more = rows == PORTION;
    return p->last.failed ? HF_OVERLOADED : status;
}

static enum hf_status
read_postgres(struct portion *p)
{
    pg_array_reset(&p->ids);
    for (int i = 0; i < p->count; i++)
        pg_array_text(&p->ids, p->looks[i].seat);
    pg_result_free(&p->rows_before);
    p->rows_before = p->rows;
    p->rows = NULL;
    for (int i = 0; i < p->count; i++)
        p->looks[i].before = p->looks[i].want;
    enum hf_status status = compare_ask_seats(p->c, &p->ids, &p->rows);
    for (int i = 0; status == HF_OK && i < p->count; i++)
        warm_want_read(p->c, p->rows, i, &p->looks[i].want);
    return status;
}

/* --- judging ---------------------------------------------------------------------------- */

static bool
same_member(const struct warm_want *a, const struct warm_want *b)
{
    return a->need >= NEED_MAYBE && b->need >= NEED_MAYBE &&
           uuid_equal(&a->hold.hold_id, &b->hold.hold_id) &&
           slice_equal(a->hold.user, b->hold.user);
}

/* Member and meta of both are the same: what was read of the one is true of the other. */
static bool
same_details(const struct warm_want *a, const struct warm_want *b)
{
    return same_member(a, b) && a->hold.held_until.us == b->hold.held_until.us &&
           a->hold.held_at.us == b->hold.held_at.us && slice_equal(a->hold.source, b->hold.source);
}

/* Postgres said the same of it twice. */
static bool
stands_still(const struct seat_look *look)
{
    const struct warm_want *now = &look->want, *then = &look->before;

    if (now->need != then->need || now->need < NEED_MAYBE)
        return now->need == then->need;
    return same_details(now, then) && now->hold.version == then->hold.version;
}

static bool
value_is_right(const struct seat_look *look)
{
    switch (look->want.need) {
    case NEED_UNKNOWN:
        return true;
    case NEED_NOTHING:
        return !look->found;
    case NEED_MAYBE:
        return !look->found || warm_value_is(look->text, &look->want.hold);
    case NEED_HOLD:
        return look->found && warm_value_is(look->text, &look->want.hold);
    }
    return true;
}

/* True if what was read of Redis says what Postgres says. */
static bool
is_equal(const struct seat_look *look)
{
    return value_is_right(look) && (look->want.need != NEED_HOLD || look->details);
}

/* What was read of member and meta was of another hold than Postgres names now. */
static void
judge_details(struct portion *p)
{
    for (int i = 0; i < p->count; i++) {
        struct seat_look *look = &p->looks[i];
        look->details = look->details && same_details(&look->want, &look->before);
    }
}

/* What we wrote is of a hold that ended meanwhile. Its key may be gone and its member stand: the
 * engine's removal may have come between our writing of the two. */
static bool
wrote_what_ended(const struct seat_look *look)
{
    return look->mended && look->before.need >= NEED_MAYBE &&
           !same_member(&look->want, &look->before);
}

static void
let_equal_ones_go(struct portion *p)
{
    int kept = 0;

    for (int i = 0; i < p->count; i++) {
        if (is_equal(&p->looks[i]) && !wrote_what_ended(&p->looks[i]))
            continue;
        if (kept != i)
            p->looks[kept] = p->looks[i];
        kept++;
    }
    p->count = kept;
}

/* --- mending -------------------------------------------------------------------------------- */

/* The member and, if it still stands, the key. */
static bool
take_back(struct portion *p)
{
    int count = 0;

    for (int i = 0; i < p->count; i++) {
        if (!wrote_what_ended(&p->looks[i]))
            continue;
        p->holds[count] = p->looks[i].before.hold;
        p->holds[count++].lives_on = true; /* for all we know */
    }
    return count == 0 || (warm_remove(p->c->warm, p->holds, count) && warm_collect(p->c->warm));
}

/* Drops what reads otherwise than Postgres says. Only what was left on a seat that isn't held
 * counts as removed: the other is replaced. */
static bool
drop_wrong_values(struct portion *p, bool of_held)
{
    int count = 0;

    for (int i = 0; i < p->count; i++) {
        const struct seat_look *look = &p->looks[i];
        if (look->found && !value_is_right(look) && (look->want.need == NEED_HOLD) == of_held)
            p->drops[count++] = (struct warm_found){ .seat = look->seat, .text = look->text };
    }
    int went = count > 0 ? warm_drop_seats(p->c->warm, p->c->org, p->c->event, p->drops, count) : 0;
    if (went > 0 && !of_held)
        p->c->report->removed += went;
    return went >= 0;
}

/* In pieces, so that neither the others wait for Redis nor we until it counts as failed. */
static bool
write_in_pieces(struct portion *p, int count)
{
    for (int i = 0; i < count; i += MENDS_AT_ONCE) {
        int piece = count - i < MENDS_AT_ONCE ? count - i : MENDS_AT_ONCE;
        if (!warm_mend(p->c->warm, p->holds + i, piece))
            return false;
    }
    return true;
}

/* Details that were never read of this hold (it is new to us) wait for the next round. */
static bool
write_holds(struct portion *p)
{
    int count = 0;

    for (int i = 0; i < p->count; i++) {
        struct seat_look *look = &p->looks[i];
        if (look->want.need != NEED_HOLD ||
            (value_is_right(look) && !same_details(&look->want, &look->before)))
            continue;
        p->holds[count++] = look->want.hold;
        p->c->report->restored += !look->mended;
        look->mended = true;
    }
    return write_in_pieces(p, count);
}

static enum hf_status
mend(struct portion *p)
{
    return take_back(p) && drop_wrong_values(p, true) && drop_wrong_values(p, false) &&
                   write_holds(p)
               ? HF_OK
               : HF_OVERLOADED;
}

/* --- rounds ----------------------------------------------------------------------------------- */

static enum hf_status
look_again(struct portion *p)
{
    enum hf_status status = compare_goes_on(p->c);

    if (status == HF_OK)
        status = read_redis(p);
    if (status == HF_OK)
        status = read_postgres(p);
    if (status == HF_OK) {
        judge_details(p);
        let_equal_ones_go(p);
    }
    return status;
}

/* What differs still. A seat that moves is the engine's to tell of, unless we wrote of it: nobody
 * has looked at that. */
static int64_t
count_left(const struct portion *p)
{
    int64_t count = 0;

    for (int i = 0; i < p->count; i++)
        count += p->looks[i].mended || stands_still(&p->looks[i]);
    return count;
}

static enum hf_status
look_in_rounds(struct portion *p)
{
    enum hf_status status = HF_OK;

    for (int round = 0; status == HF_OK && p->count > 0 && round < LOOKS; round++) {
        compare_rest(p->c, MOMENT_US);
        status = look_again(p);
    }
    p->c->report->differing += count_left(p);
    return status;
}

static enum hf_status
mend_in_rounds(struct portion *p)
{
    enum hf_status status = HF_OK;

    if (p->count > 0 && p->c->trusted)
        compare_rest(p->c, MOMENT_US);
    for (int round = 0; status == HF_OK && p->count > 0 && round < ROUNDS; round++) {
        if (round >= MENDS_BEFORE_REST)
            compare_rest(p->c, SETTLE_US);
        status = look_again(p);
        if (round == 0)
            p->c->report->differing += p->count;
        if (status == HF_OK)
            status = mend(p);
    }
    return status;
}

static enum hf_status
compare_portion(struct portion *p)
{
    enum hf_status status = read_page(p);

    if (status == HF_OK)
        status = read_redis(p);
    if (status != HF_OK)
        return status;
    let_equal_ones_go(p);
    status = p->c->mode == REPAIR_LOOK ? look_in_rounds(p) : mend_in_rounds(p);
    p->c->left += count_left(p);
    return status;
}

/* --- all of an event -------------------------------------------------------------------------- */

static struct portion *
portion_new(struct comparison *c)
{
    struct portion *p = calloc(1, sizeof(*p));

    if (p == NULL)
        return NULL;
    p->c = c;
    pg_array_init(&p->ids, PG_TEXT);
    return p;
}

static void
portion_clear(struct portion *p)
{
    p->count = 0;
    pg_result_free(&p->rows);
    pg_result_free(&p->rows_before);
    arena_fini(&p->names);
    arena_fini(&p->texts);
}

static void
portion_free(struct portion *p)
{
    portion_clear(p);
    buf_fini(&p->last);
    pg_array_fini(&p->ids);
    free(p);
}

enum hf_status
compare_seats(struct comparison *c)
{
    struct portion *p = portion_new(c);
    enum hf_status status;

    if (p == NULL)
        return HF_OVERLOADED;
    do {
        struct mono_time began = mono_now();
        portion_clear(p);
        status = compare_portion(p);
        compare_yield(c, began);
    } while (status == HF_OK && p->more && (status = compare_goes_on(c)) == HF_OK);
    portion_free(p);
    return status;
}
