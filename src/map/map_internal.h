/*
 * map_internal.h - what the files of the map room share.
 *
 * layout.c         what does not change from sale to sale: order, names, ready JSON prefixes
 * hall.c           the same seats as places: rows, blocks, distances, wishes
 * choose.c         the best free seats, and those that are under way; choose.h: between it and
 * choosing.c       the same with maps and locks
 * map_state.c      what does: status, version, end of each seat, in order of change; their counts
 * ends.c           whose end comes next
 * version.c        public versions, and what a reader who names one has
 * render.c         from both to a body, plain and gzip
 * event_map.h      one event's map and the table of all, for the next three and
 *                  choosing.c:
 * seat_map.c       the table of maps, trust, watchers
 * moving.c         changes and readings that move a map forward
 * serving.c        answers
 * read_map.c       a map from Postgres
 * counts_json.c    counts as JSON
 */
#ifndef HOLDFAST_MAP_INTERNAL_H
#define HOLDFAST_MAP_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "holdfast/assert.h"
#include "holdfast/buf.h"
#include "holdfast/clock.h"
#include "holdfast/feed_position.h"
#include "holdfast/hot_table.h"
#include "holdfast/seat_map.h"
#include "holdfast/slice.h"

struct http_body;
struct pg_result;

/* --- bits, one a seat ---------------------------------------------------------- */

#define BITS_WORD 64

/* None is set. NULL: no memory. */
static inline uint64_t *
bits_new(uint32_t count)
{
    return calloc(count / BITS_WORD + 1, sizeof(uint64_t));
}

static inline bool
bit_is_set(const uint64_t *bits, uint32_t i)
{
    return bits[i / BITS_WORD] >> (i % BITS_WORD) & 1;
}

static inline void
bit_set(uint64_t *bits, uint32_t i)
{
    bits[i / BITS_WORD] |= UINT64_C(1) << (i % BITS_WORD);
}

static inline void
bit_clear(uint64_t *bits, uint32_t i)
{
    bits[i / BITS_WORD] &= ~(UINT64_C(1) << (i % BITS_WORD));
}

/* --- hall.c ------------------------------------------------------------------- */

#define HALL_NO_PRICE INT64_MIN

struct hall_row {
    uint32_t first, end;
    uint64_t section; /* hash_seeded of its name */
};

/* Constant after hall_init; seats are those of the layout, by the same numbers. */
struct hall {
    uint32_t count;
    uint64_t *ends;               /* bits: no neighbour after it */
    uint64_t *accessible;         /* bits */
    int64_t *far;                 /* from the focal point; what is less is better */
    int64_t *price;               /* or HALL_NO_PRICE */
    uint64_t *type;               /* hash_seeded of its name */
    uint32_t *row;                /* in rows[] */
    uint32_t row_count, row_most; /* the most seats of one */
    struct hall_row *rows;
};

/* row_of: as layout_new makes it. False: no memory. */
HF_MUST_CHECK bool hall_init(struct hall *hall, const struct pg_result *rows, const int *row_of,
                             uint32_t count);
void hall_fini(struct hall *hall);
/* Seats of such a type are accessible ones. */
bool hall_type_is_accessible(struct slice type);

/* --- layout.c --------------------------------------------------------------- */

#define LAYOUT_NONE UINT32_MAX

/*
 * The seats of one event in display order, each with its JSON up to and including
 * `"status":`. Constant after layout_new (but for by_row, which is made when it is first asked
 * for), shared by the map and by bodies being made.
 */
struct layout {
    atomic_int refs;
    _Atomic(uint32_t *) by_row; /* the seats by row and number, whatever their section; or NULL */
    uint32_t count;
    uint32_t slot_mask; /* of slots: a power of two, at most half full */
    uint32_t *slots;    /* index of a seat, or LAYOUT_NONE: open addressing by hash of the id */
    uint32_t *starts;   /* count + 1: where each seat's prefix begins in `text` */
    uint64_t *prints;   /* a fingerprint of what a seat's prefix and place were made from */
    uint8_t *id_lens;
    size_t text_len;
    char *text;
    struct hall hall;
};

/*
 * From the rows of read_seat_map. row_of[i] becomes the row that seat i came from; the caller
 * frees it with free(). NULL: no memory.
 */
HF_MUST_CHECK struct layout *layout_new(const struct pg_result *rows, int **row_of);
/*
 * True when the rows are the very seats of `layout`, whatever their order: then it is found
 * without sorting and writing anew. row_of as above; NULL without memory (then false).
 */
HF_MUST_CHECK bool layout_matches(const struct layout *layout, const struct pg_result *rows,
                                  int **row_of);
struct layout *layout_get(struct layout *layout);
void layout_put(struct layout *layout); /* NULL is fine */
bool layout_same(const struct layout *a, const struct layout *b);
struct slice layout_prefix(const struct layout *layout, uint32_t seat);
struct slice layout_id(const struct layout *layout, uint32_t seat);
/* The order by row and number; any thread may ask, without a lock. NULL: no memory. */
const uint32_t *layout_by_row(struct layout *layout);
/* LAYOUT_NONE: there is no such seat. */
uint32_t layout_find(const struct layout *layout, struct slice id);

/* --- map_state.c ------------------------------------------------------------- */

/* One seat as this node has it. */
struct map_seat {
    struct db_time until; /* of a held one */
    int64_t version;
    uint64_t changed_at;   /* the position at which it got to be like this */
    struct feed_mark from; /* the record that brought this version; see below */
    uint64_t user_hash;    /* hash_seeded of who has it; 0: nobody, or it isn't known */
    uint32_t newer, older; /* neighbours in the order of change, LAYOUT_NONE at the ends */
    enum seat_status status;
    bool in_payment;
    bool over; /* its end has passed: shown as available */
};

_Static_assert(sizeof(struct map_seat) == 64, "seat_map.h says what a seat takes");

/*
 * What `from` is when no record brought the seat: it was read, and whoever has the base (version.c)
 * has it too; or it can't be said who has it, so it is told to everybody.
 */
#define FROM_BASE   ((struct feed_mark){ 0, 0 })
#define FROM_NOBODY ((struct feed_mark){ 0, UINT64_MAX })

static inline bool
is_from_record(struct feed_mark from)
{
    return from.incarnation != 0;
}

struct map_area {
    char id[ID_BYTES_MAX + 1];
    char *name; /* JSON, with its quotes */
    int64_t capacity, held, sold, price;
    bool has_price;
    int64_t version;
};

/* --- ends.c ------------------------------------------------------------------ */

/* The held seats that time can end, the soonest first. */
struct seat_ends {
    uint32_t count;
    uint32_t *heap;  /* seats, a binary heap by `until` */
    uint32_t *place; /* of each seat: where in the heap it is, counted from 1; 0: it isn't */
};
HF_MUST_CHECK bool seat_ends_init(struct seat_ends *ends, uint32_t seats);
void seat_ends_fini(struct seat_ends *ends);
/* seats[seat] is another one now, all the others are as they were. */
void seat_ends_note(struct seat_ends *ends, const struct map_seat *seats, uint32_t seat);

/* --- map_state.c, more --------------------------------------------------------- */

/* The state of one event's seats and areas. Guarded by the map's lock. */
struct map_state {
    struct layout *layout;   /* NULL: nothing loaded yet */
    struct map_seat *seats;  /* layout->count of them */
    struct choices *choices; /* NULL until somebody chooses, and without memory */
    uint32_t newest;         /* head of the order of change */
    struct seat_ends ends;
    struct db_time next_end;       /* the soonest of them */
    struct seat_map_counts counts; /* of the seats alone, as they are marked */
    int area_count;
    struct map_area *areas;
    uint64_t position; /* of the last change */
    uint64_t floor;    /* of the first loading: what was before is not known */
};

void map_state_fini(struct map_state *state);
/* Seat `i` is now like this, since `position`. */
void map_state_set(struct map_state *state, uint32_t i, const struct map_seat *now,
                   uint64_t position);
/* Marks seats whose end has passed. True: there were some; they changed at `position`. */
bool map_state_sweep(struct map_state *state, struct db_time now, uint64_t position);
/* Of seats and areas, after a sweep. */
void map_state_count(const struct map_state *state, struct seat_map_counts *counts);
/* NULL: there is none of that id. */
struct map_area *map_area_find(struct map_area *areas, int count, struct slice id);
/*
 * More than fits was taken only if the capacity was raised, which is known only once it is read:
 * until then it is what was taken at the least. True: so it is.
 */
bool map_area_make_room(struct map_area *area);
/* True when somebody is to be told of a difference. */
bool map_seat_differs(const struct map_seat *a, const struct map_seat *b);

/*
 * What a loading found, ready to be merged: made without the lock.
 * The map_state in it has no position and no order of change yet.
 * known: a layout that may still be right, or NULL; shared if it is.
 */
HF_MUST_CHECK bool map_state_read(struct map_state *fresh, struct layout *known,
                                  const struct pg_result *seats, const struct pg_result *areas);
/* Told of each seat that a merge moves forward; nothing at a first loading. known: NULL: the seat
 * was not there. */
struct merge_listener {
    void (*moved)(struct merge_listener *listener, struct slice seat, const struct map_seat *known,
                  const struct map_seat *now);
};
/*
 * Takes what is new of `fresh` (which is used up) into `state`: a seat that state has in a newer
 * version stays. What differs counts as changed at `position`. True: something did.
 * listener: NULL for none.
 */
bool map_state_merge(struct map_state *state, struct map_state *fresh, uint64_t position,
                     struct merge_listener *listener);

/* --- choose.c ---------------------------------------------------------------- */

/* Which seats of a map can be chosen now. Guarded by the map's lock. */
struct choices;

void choices_free(struct choices *choices); /* NULL is fine */
/* Seat `i` was set. */
void choices_moved(struct choices *choices, uint32_t i, const struct map_seat *now);
/* The state has another layout and seats than choices were made for: they are made anew, and what
 * is under way stays so. */
void choices_follow(struct map_state *state);

/* --- version.c --------------------------------------------------------------- */

#define BOOT_TEXT_BYTES    17
#define VERSION_TEXT_BYTES (BOOT_TEXT_BYTES + 2 * 21 + FEED_POSITION_TEXT_BYTES)

/* What a public version says. */
struct map_version {
    char boot[BOOT_TEXT_BYTES]; /* tells this process's versions from all others */
    uint64_t position;
    bool is_told;      /* the rest is known too: any node may tell a difference */
    struct db_time at; /* it was not earlier than that */
    struct feed_position feed;
};
void version_write(const struct map_version *version, char text[VERSION_TEXT_BYTES]);
HF_MUST_CHECK bool version_parse(struct slice text, struct map_version *version);

/* The reading that a map rests on, as other nodes' versions are measured by it. */
struct map_base {
    bool is_known;
    struct db_time settled; /* versions from before are not told from */
    struct feed_position feed;
};
/* Whether a reader with `version`, which is completed, has all that the base has. now: this node's
 * feed. */
bool base_is_in(const struct map_base *base, struct map_version *version,
                const struct feed_position *now);

/* What a reader has already. */
struct map_reader {
    bool has_nothing;                 /* the whole is owed */
    uint64_t position;                /* what changed after it is owed, */
    const struct feed_position *feed; /* NULL, or: and only if this doesn't have it */
};
bool reader_lacks(const struct map_reader *reader, const struct map_seat *seat);

/* --- render.c ---------------------------------------------------------------- */

/* A copy of what a body says, taken under the lock and written without it. */
struct snapshot {
    struct layout *layout;
    uint64_t position;
    bool full;
    uint32_t count;
    uint32_t *index; /* which seat; ascending */
    struct map_seat *seats;
    int area_count;
    struct map_area *areas;
};

/* What the reader lacks; of the whole, every seat that is not removed. False: no memory. */
HF_MUST_CHECK bool snapshot_take(struct snapshot *shot, const struct map_state *state,
                                 const struct map_reader *reader);
void snapshot_fini(struct snapshot *shot);
/* How many seats have to be looked at for that; stops counting at `most`. */
uint32_t snapshot_count(const struct map_state *state, const struct map_reader *reader,
                        uint32_t most);

/* The body; show: what it says of the show, as JSON; empty: it is the map alone. NULL: no memory.
 */
HF_MUST_CHECK struct http_body *render_body(struct snapshot *shot, struct slice event,
                                            struct slice show, const char *version);
HF_MUST_CHECK struct http_body *render_gzip(const struct http_body *plain);

#endif
