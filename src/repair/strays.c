/*
 * strays.c - what Redis has and nothing in Postgres explains: members of seat_holds whose hold is
 * over, keys of seats that never were.
 *
 * A walk hands out one trace after the other; Postgres is asked for a portion of them at a time,
 * after Redis was read. Mending drops strays and counts what was still there to drop. A look walks
 * twice, a moment apart: what is a stray both times is one.
 */
#include "repair_internal.h"

#include <stdlib.h>

#define STRAYS_MAX                                                                                 \
    4096 /* of one walk; where there are more they are dropped and it begins anew                  \
          */
#define UUID_LEN (UUID_TEXT_BYTES - 1)

/* Something in Redis, as it names itself. Texts live in the walk's memory of the portion. */
struct trace {
    struct slice text, seat, user;
    struct uuid hold_id;
    bool is_ours; /* it can be read, and its seat can exist */
};

struct stray_walk {
    struct comparison *c;
    const struct stray_kind *kind;
    enum hf_status status;

    /* the portion */
    struct arena memory;
    struct pg_array ids;
    int count;
    struct trace traces[PORTION];

    /* what was found to be a stray */
    struct arena kept;
    int strays;
    struct warm_found stray[STRAYS_MAX];
    uint64_t hashes[STRAYS_MAX];
};

struct stray_kind {
    bool (*walk)(struct stray_walk *walk, warm_visit *visit);
    void (*read)(struct trace *trace); /* from its text and seat */
    bool (*is_stray)(const struct trace *trace, const struct warm_want *want);
    int (*drop)(struct warm *warm, struct slice org, struct slice event,
                const struct warm_found *found, int count);
};

/* --- members of seat_holds ------------------------------------------------------------- */

static bool
walk_members(struct stray_walk *walk, warm_visit *visit)
{
    const struct comparison *c = walk->c;
    return warm_read_members(c->warm, c->org, c->event, visit, walk);
}

/* "<seat>:<hold>:<user>"; ids have no colon. */
static void
read_member(struct trace *trace)
{
    struct slice text = trace->text;
    size_t hold_at = trace->seat.len + 1;
    size_t user_at = hold_at + UUID_LEN + 1;

    if (text.len < user_at || text.ptr[hold_at - 1] != ':' || text.ptr[user_at - 1] != ':')
        return;
    trace->user = (struct slice){ text.ptr + user_at, text.len - user_at };
    trace->is_ours = id_is_valid(trace->seat) &&
                     uuid_parse((struct slice){ text.ptr + hold_at, UUID_LEN }, &trace->hold_id);
}

static bool
member_is_stray(const struct trace *trace, const struct warm_want *want)
{
    if (want->need == NEED_UNKNOWN)
        return false;
    return want->need == NEED_NOTHING || !uuid_equal(&want->hold.hold_id, &trace->hold_id) ||
           !slice_equal(want->hold.user, trace->user);
}

static const struct stray_kind members = { walk_members, read_member, member_is_stray,
                                           warm_drop_members };

/* --- keys of seats ------------------------------------------------------------------------ */

static bool
walk_keys(struct stray_walk *walk, warm_visit *visit)
{
    const struct comparison *c = walk->c;
    return warm_scan_seats(c->warm, c->org, c->event, c->deadline, visit, walk);
}

static void
read_key(struct trace *trace)
{
    trace->is_ours = id_is_valid(trace->seat);
}

/* An empty value counts as none where a seat's key is read, so only this walk sees it. */
static bool
key_is_stray(const struct trace *trace, const struct warm_want *want)
{
    return !want->exists || (trace->text.len == 0 && want->need == NEED_NOTHING);
}

static const struct stray_kind keys = { walk_keys, read_key, key_is_stray, warm_drop_seats };

/* --- a walk ----------------------------------------------------------------------------------- */

static bool
keep_stray(struct stray_walk *walk, const struct trace *trace)
{
    struct warm_found *stray = &walk->stray[walk->strays];

    stray->text = arena_copy(&walk->kept, trace->text);
    stray->seat = arena_copy(&walk->kept, trace->seat);
    if (stray->text.ptr == NULL || stray->seat.ptr == NULL)
        return false;
    /* A trace of another type than ours has no text: then its seat tells it from others. */
    struct slice name = trace->text.len > 0 ? trace->text : trace->seat;
    walk->hashes[walk->strays++] = hash_seeded(name.ptr, name.len);
    return true;
}

static enum hf_status
ask_about_portion(struct stray_walk *walk, struct pg_result **rows)
{
    pg_array_reset(&walk->ids);
    for (int i = 0; i < walk->count; i++) {
        if (walk->traces[i].is_ours)
            pg_array_text(&walk->ids, walk->traces[i].seat);
    }
    return compare_ask_seats(walk->c, &walk->ids, rows);
}

/* Judges the portion and forgets it. */
static enum hf_status
judge_portion(struct stray_walk *walk)
{
    struct pg_result *rows = NULL;
    enum hf_status status = walk->count > 0 ? ask_about_portion(walk, &rows) : HF_OK;

    for (int i = 0, row = 0; status == HF_OK && i < walk->count && walk->strays < STRAYS_MAX; i++) {
        const struct trace *trace = &walk->traces[i];
        struct warm_want want;
        if (trace->is_ours)
            warm_want_read(walk->c, rows, row++, &want);
        if ((!trace->is_ours || walk->kind->is_stray(trace, &want)) && !keep_stray(walk, trace))
            status = HF_OVERLOADED;
    }
    pg_result_free(&rows);
    arena_fini(&walk->memory);
    walk->count = 0;
    return status;
}

static bool
take_trace(void *context, const struct warm_found *found)
{
    struct stray_walk *walk = context;
    struct trace *trace = &walk->traces[walk->count];

    *trace = (struct trace){ .text = arena_copy(&walk->memory, found->text),
                             .seat = arena_copy(&walk->memory, found->seat) };
    if (trace->text.ptr == NULL || trace->seat.ptr == NULL) {
        walk->status = HF_OVERLOADED;
        return false;
    }
    walk->kind->read(trace);
    if (++walk->count == PORTION) {
        walk->status = judge_portion(walk);
        if (walk->status == HF_OK)
            walk->status = compare_goes_on(walk->c);
    }
    return walk->status == HF_OK && walk->strays < STRAYS_MAX;
}

/* Fills walk->stray anew. */
static enum hf_status
find_strays(struct stray_walk *walk)
{
    arena_fini(&walk->kept);
    walk->strays = 0;
    walk->status = HF_OK;
    bool walked = walk->kind->walk(walk, take_trace);
    if (walk->status == HF_OK)
        walk->status = walked ? judge_portion(walk) : HF_OVERLOADED;
    arena_fini(&walk->memory);
    walk->count = 0;
    return walk->status;
}

/* --- looking and mending
 * -------------------------------------------------------------------------- */

static int
compare_hashes(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

static enum hf_status
look_twice(struct stray_walk *walk)
{
    enum hf_status status = find_strays(walk);
    int before = walk->strays;
    uint64_t *hashes = before > 0 ? malloc((size_t)before * sizeof(*hashes)) : NULL;

    if (status != HF_OK || hashes == NULL) {
        free(hashes);
        return before > 0 && status == HF_OK ? HF_OVERLOADED : status;
    }
    memcpy(hashes, walk->hashes, (size_t)before * sizeof(*hashes));
    qsort(hashes, (size_t)before, sizeof(*hashes), compare_hashes);
    compare_rest(walk->c, MOMENT_US);
    status = find_strays(walk);
    for (int i = 0; status == HF_OK && i < walk->strays; i++) {
        bool again = bsearch(&walk->hashes[i], hashes, (size_t)before, sizeof(*hashes),
                             compare_hashes) != NULL;
        walk->c->report->differing += again;
        walk->c->left += again;
    }
    free(hashes);
    return status;
}

static enum hf_status
drop_strays(struct stray_walk *walk)
{
    struct comparison *c = walk->c;
    enum hf_status status;
    int went = 0;

    do {
        status = find_strays(walk);
        if (status != HF_OK || walk->strays == 0)
            return status;
        if (c->trusted)
            compare_rest(c, MOMENT_US);
        went = walk->kind->drop(c->warm, c->org, c->event, walk->stray, walk->strays);
        if (went < 0)
            return HF_OVERLOADED;
        c->report->differing += went;
        c->report->removed += went;
        status = compare_goes_on(c);
    } while (status == HF_OK && walk->strays == STRAYS_MAX && went > 0);
    return status;
}

static enum hf_status
compare_strays(struct comparison *c, const struct stray_kind *kind)
{
    struct stray_walk *walk = calloc(1, sizeof(*walk));
    if (walk == NULL)
        return HF_OVERLOADED;
    walk->c = c;
    walk->kind = kind;
    pg_array_init(&walk->ids, PG_TEXT);
    enum hf_status status = c->mode == REPAIR_LOOK ? look_twice(walk) : drop_strays(walk);
    pg_array_fini(&walk->ids);
    arena_fini(&walk->kept);
    arena_fini(&walk->memory);
    free(walk);
    return status;
}

enum hf_status
compare_stray_members(struct comparison *c)
{
    return compare_strays(c, &members);
}

enum hf_status
compare_stray_keys(struct comparison *c)
{
    return compare_strays(c, &keys);
}
