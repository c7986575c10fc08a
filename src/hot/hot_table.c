/*
 * hot_table.c - the hot table's contract on top of shards.
 *
 * Every function names its seat as a spot (hash and shard) without a lock, takes
 * that one shard's lock, does its few steps, and drops it. Only making room in a
 * full table looks at other shards, one after the other, holding nothing else.
 */
#include "hot_internal.h"

#include <stdlib.h>
#include <string.h>

/* When the own shard has nothing that may go, so many others are asked. */
#define SHARDS_ASKED_FOR_ROOM 16
/* What one hold of a shard's lock may do for expiry: about 50 microseconds. */
#define TICK_STEPS 512
#define TICK_POPS  128
/* So many waiters are looked at for those that are late. */
#define LATE_STEPS 256
/* By how much tombstones age at most in one tick, see struct shard. */
#define AGE_PER_TICK_US TIME_US_PER_S

/* --- a seat, named ------------------------------------------------------- */

static char *
text_append(char *to, struct slice id)
{
    hf_assert(id.len > 0 && id.len <= ID_BYTES_MAX);
    memcpy(to, id.ptr, id.len);
    return to + id.len;
}

void
seat_spot_init(struct seat_spot *spot, struct hot_table *table, const struct seat_key *key)
{
    /* NUL is in no id, so that no two keys give one text. */
    char *end = text_append(spot->text, key->org);
    *end++ = '\0';
    end = text_append(end, key->event);
    spot->event = (struct slice){ spot->text, (size_t)(end - spot->text) };
    *end++ = '\0';
    spot->seat.ptr = end;
    end = text_append(end, key->seat);
    spot->seat.len = (size_t)(end - spot->seat.ptr);

    /* One half chooses the shard, the other the bucket: they must not depend on each other. */
    uint64_t hash = hash_seeded(spot->text, (size_t)(end - spot->text));
    spot->shard = &table->shards[(hash >> 32) & (table->limits.shards - 1)];
    spot->hash = (unsigned)hash;
}

int
hot_table_order(const struct hot_table *table, const struct seat_key *a, const struct seat_key *b)
{
    struct seat_spot spot_a, spot_b;
    /* The spots only point into the table; nothing is changed through them. */
    seat_spot_init(&spot_a, (struct hot_table *)table, a);
    seat_spot_init(&spot_b, (struct hot_table *)table, b);
    if (spot_a.shard != spot_b.shard) {
        return spot_a.shard < spot_b.shard ? -1 : 1;
    }
    size_t bytes_a = (size_t)(spot_a.seat.ptr - spot_a.text) + spot_a.seat.len;
    size_t bytes_b = (size_t)(spot_b.seat.ptr - spot_b.text) + spot_b.seat.len;
    int order = memcmp(spot_a.text, spot_b.text, bytes_a < bytes_b ? bytes_a : bytes_b);
    return order != 0 ? order : (bytes_a > bytes_b) - (bytes_a < bytes_b);
}

/* --- life ---------------------------------------------------------------- */

struct hot_table *
hot_table_new(const struct hot_table_limits *limits)
{
    hf_assert(limits->shards > 0 && (limits->shards & (limits->shards - 1)) == 0);
    hf_assert(limits->seats_max > 0 && limits->parked_max >= 0);
    hf_assert(limits->lease_us >= 0 && limits->tombstone_us >= 0);

    size_t bytes = sizeof(struct hot_table) + limits->shards * sizeof(struct shard);
    struct hot_table *table = aligned_alloc(_Alignof(struct hot_table), bytes);
    if (table == NULL) {
        return NULL;
    }
    table->limits = *limits;
    atomic_init(&table->entries, 0);
    atomic_init(&table->parked, 0);
    trust_init(&table->trust);
    atomic_init(&table->distrusts, 0);
    atomic_init(&table->tick_from, 0);
    for (uint32_t i = 0; i < limits->shards; i++) {
        shard_init(&table->shards[i], table);
    }
    return table;
}

void
hot_table_free(struct hot_table **table)
{
    if (*table == NULL) {
        return;
    }
    for (uint32_t i = 0; i < (*table)->limits.shards; i++) {
        shard_fini(&(*table)->shards[i]);
    }
    free(*table);
    *table = NULL;
}

/* --- trust --------------------------------------------------------------- */

void
hot_table_distrust(struct hot_table *table)
{
    trust_distrust(&table->trust, mono_now());
    atomic_fetch_add(&table->distrusts, 1);
}

void
hot_table_set_trusted(struct hot_table *table, bool trusted)
{
    if (trust_is_given(&table->trust) == trusted) {
        return;
    }
    if (trusted) {
        /* A peer that was not heard may have committed what it never told. */
        hot_table_distrust(table);
    }
    trust_give(&table->trust, trusted);
}

void
hot_table_trust_until(struct hot_table *table, struct mono_time until)
{
    trust_until(&table->trust, until);
}

static bool
seat_is_trusted(const struct hot_table *table, const struct hot_seat *seat, struct mono_time mono)
{
    bool trusted = trust_holds(&table->trust, mono); /* first: see trust.h */
    if (!seat->known || !trust_covers(&table->trust, seat->began)) {
        return false;
    }
    return trusted || mono.us - seat->began.us < table->limits.lease_us;
}

/* --- what an entry says -------------------------------------------------- */

static void
seat_tell(const struct hot_seat *seat, struct seat_view *view)
{
    *view = (struct seat_view){
        .status = (enum seat_status)seat->status,
        .in_payment = seat->in_payment,
        .hold_id = seat->hold_id,
        .user_hash = seat->user_hash,
        .held_until = seat->held_until,
        .version = seat->version,
        .began = seat->began,
    };
}

/* Held beyond doubt: also by a clock that is off by error_us. */
static bool
seat_is_held(const struct hot_seat *seat, struct db_time now, int64_t error_us)
{
    return seat->status == SEAT_HELD &&
           (seat->in_payment || now.us + error_us < seat->held_until.us);
}

/* Whether an entry, if it is right, keeps this user from the seat. */
static bool
seat_keeps_out(const struct hot_seat *seat, uint64_t user_hash, struct db_time now,
               int64_t error_us)
{
    switch ((enum seat_status)seat->status) {
    case SEAT_SOLD:
    case SEAT_BLOCKED:
        return true;
    case SEAT_HELD:
        return seat->user_hash != user_hash && seat_is_held(seat, now, error_us);
    case SEAT_AVAILABLE:
    case SEAT_REMOVED:
        return false;
    }
    return false;
}

/* Writes only once: a look-up must not make every entry's cache line dirty. */
static void
seat_mark_used(struct hot_seat *seat)
{
    if (!seat->used) {
        seat->used = true;
    }
}

/* Refuses only what memory may refuse; tells then what it knows. */
static bool
seat_refuses_locked(const struct hot_table *table, struct hot_seat *seat, uint64_t user_hash,
                    struct db_time now, int64_t error_us, struct mono_time mono,
                    struct seat_view *view)
{
    seat_mark_used(seat);
    if (!seat_is_trusted(table, seat, mono) || !seat_keeps_out(seat, user_hash, now, error_us)) {
        return false;
    }
    seat_tell(seat, view);
    return true;
}

/* --- room ---------------------------------------------------------------- */

/* Nothing of the own shard may go: asks others, one lock at a time. False: none gave room. */
static bool
evict_elsewhere(struct hot_table *table, const struct shard *own)
{
    uint32_t mask = table->limits.shards - 1;
    uint32_t from = (uint32_t)(own - table->shards);
    for (uint32_t i = 1; i <= mask && i <= SHARDS_ASKED_FOR_ROOM; i++) {
        struct shard *shard = &table->shards[(from + i) & mask];
        lock_take(&shard->lock);
        bool evicted = shard_evict_locked(shard);
        lock_drop(&shard->lock);
        if (evicted) {
            return true;
        }
    }
    return false;
}

static bool
table_is_full(struct hot_table *table)
{
    return atomic_load_explicit(&table->entries, memory_order_relaxed) >= table->limits.seats_max;
}

/*
 * Takes the lock and finds the seat's entry, or adds one about which nothing is known.
 * NULL: there is no room or no memory. The lock is held in both cases.
 */
static struct hot_seat *
lock_and_add(struct hot_table *table, const struct seat_spot *spot)
{
    struct shard *shard = spot->shard;
    lock_take(&shard->lock);
    struct hot_seat *seat = shard_find_or_add_locked(shard, spot);
    if (seat != NULL || !table_is_full(table)) {
        return seat;
    }
    lock_drop(&shard->lock);
    bool room = evict_elsewhere(table, shard);
    lock_take(&shard->lock);
    /* Meanwhile another thread may have added the seat, or taken the room. */
    return room ? shard_find_or_add_locked(shard, spot) : shard_find_locked(shard, spot);
}

/* --- claims -------------------------------------------------------------- */

static void
crowd_link_locked(struct late_walk *late, struct hot_seat *seat, struct hot_waiter *first)
{
    first->seat = seat;
    first->before = NULL;
    first->after = late->crowds;
    if (first->after != NULL) {
        first->after->before = first;
    }
    late->crowds = first;
}

/* The crowd's place in the list is `first`'s now; NULL: nobody's. */
static void
crowd_pass_locked(struct late_walk *late, struct hot_waiter *old, struct hot_waiter *first)
{
    struct hot_waiter *before = old->before, *after = old->after;
    if (first != NULL) {
        first->seat = old->seat;
        first->before = before;
        first->after = after;
    }
    if (before != NULL) {
        before->after = first != NULL ? first : after;
    } else {
        late->crowds = first != NULL ? first : after;
    }
    if (after != NULL) {
        after->before = first != NULL ? first : before;
    }
}

/* To the next seat that has waiters. */
static void
late_walk_on_locked(struct late_walk *late)
{
    struct hot_waiter *next = late->seat->parked_last->next->after;
    late->seat = next != NULL ? next->seat : NULL;
    late->met = NULL;
}

static struct mono_time
earlier(struct mono_time a, struct mono_time b)
{
    return a.us < b.us ? a : b;
}

static void
ring_append_locked(struct shard *shard, struct hot_seat *seat, struct hot_waiter *waiter)
{
    struct late_walk *late = &shard->late;
    if (seat->parked_last == NULL) {
        waiter->next = waiter;
        crowd_link_locked(late, seat, waiter);
    } else {
        waiter->next = seat->parked_last->next;
        seat->parked_last->next = waiter;
    }
    seat->parked_last = waiter;
    late->first = earlier(late->first, waiter->until);
    late->first_left = earlier(late->first_left, waiter->until);
}

/* Takes out the one that comes after `before`. */
static struct hot_waiter *
ring_take_locked(struct shard *shard, struct hot_seat *seat, struct hot_waiter *before)
{
    struct hot_waiter *waiter = before->next;
    bool is_first = before == seat->parked_last, is_only = waiter == before;
    before->next = waiter->next;
    if (is_first) {
        crowd_pass_locked(&shard->late, waiter, is_only ? NULL : waiter->next);
    }
    if (waiter == seat->parked_last) {
        seat->parked_last = is_only ? NULL : before;
    }
    waiter->next = NULL;
    return waiter;
}

static bool
park_locked(struct shard *shard, struct hot_seat *seat, struct hot_waiter *waiter)
{
    struct hot_table *table = shard->table;
    int64_t before = atomic_fetch_add_explicit(&table->parked, 1, memory_order_relaxed);
    if (before >= table->limits.parked_max) {
        atomic_fetch_sub_explicit(&table->parked, 1, memory_order_relaxed);
        return false;
    }
    ring_append_locked(shard, seat, waiter);
    return true;
}

/* The parked ones as a list, first come first. */
static struct hot_waiter *
unpark_locked(struct shard *shard, struct hot_seat *seat)
{
    struct hot_waiter *last = seat->parked_last;
    if (last == NULL) {
        return NULL;
    }
    struct hot_waiter *first = last->next;
    if (shard->late.seat == seat) {
        late_walk_on_locked(&shard->late);
    }
    crowd_pass_locked(&shard->late, first, NULL);
    last->next = NULL;
    seat->parked_last = NULL;
    return first;
}

static void
claim_begin_locked(struct shard *shard, struct hot_seat *seat)
{
    hf_assert(!seat->claimed);
    seat->claimed = true;
    shard->claims++;
    shard_settle_place_locked(shard, seat);
}

static void
claim_end_locked(struct shard *shard, struct hot_seat *seat)
{
    hf_assert(seat->claimed && shard->claims > 0);
    seat->claimed = false;
    shard->claims--;
}

enum hot_answer
hot_table_claim(struct hot_table *table, const struct seat_key *key, uint64_t user_hash,
                bool may_refuse, struct db_time now, int64_t error_us, struct mono_time mono,
                struct hot_waiter *waiter, struct seat_view *view)
{
    struct seat_spot spot;
    seat_spot_init(&spot, table, key);
    struct hot_seat *seat = lock_and_add(table, &spot);
    enum hot_answer answer = HOT_FULL;
    if (seat == NULL) {
        /* neither room nor memory */
    } else if (may_refuse &&
               seat_refuses_locked(table, seat, user_hash, now, error_us, mono, view)) {
        answer = HOT_REFUSED;
    } else if (!seat->claimed) {
        claim_begin_locked(spot.shard, seat);
        answer = HOT_CLAIMED;
    } else if (waiter == NULL || park_locked(spot.shard, seat, waiter)) {
        answer = HOT_PARKED;
    }
    lock_drop(&spot.shard->lock);
    return answer;
}

bool
hot_table_refuses(struct hot_table *table, const struct seat_key *key, uint64_t user_hash,
                  struct db_time now, int64_t error_us, struct mono_time mono,
                  struct seat_view *view)
{
    struct seat_spot spot;
    seat_spot_init(&spot, table, key);
    lock_take(&spot.shard->lock);
    struct hot_seat *seat = shard_find_locked(spot.shard, &spot);
    bool refuses =
        seat != NULL && seat_refuses_locked(table, seat, user_hash, now, error_us, mono, view);
    lock_drop(&spot.shard->lock);
    return refuses;
}

/* Counts waiters that are on their way back; they belong to this thread now. */
static void
table_forget_parked(struct hot_table *table, const struct hot_waiter *first)
{
    int64_t count = 0;
    for (const struct hot_waiter *waiter = first; waiter != NULL; waiter = waiter->next) {
        count++;
    }
    if (count > 0) {
        atomic_fetch_sub_explicit(&table->parked, count, memory_order_relaxed);
    }
}

void
hot_table_settle(struct hot_table *table, const struct seat_key *key, const struct seat_view *view,
                 struct mono_time began, bool arm, struct hot_waiter **waiters)
{
    struct seat_spot spot;
    seat_spot_init(&spot, table, key);
    struct shard *shard = spot.shard;

    lock_take(&shard->lock);
    struct hot_seat *seat = shard_find_locked(shard, &spot);
    hf_assert(seat != NULL);
    claim_end_locked(shard, seat);
    *waiters = unpark_locked(shard, seat);
    /* Also when nothing was learned: the request may have committed all the same. */
    shard->changes++;
    if (view != NULL) {
        (void)shard_learn_locked(shard, seat, view, began, arm);
    }
    if (seat->known) {
        shard_settle_place_locked(shard, seat);
    } else {
        shard_remove_locked(shard, seat);
    }
    lock_drop(&shard->lock);

    table_forget_parked(table, *waiters);
}

/* The next one of the walk: given back if it is late. NULL: it stays. */
static struct hot_waiter *
late_walk_step_locked(struct shard *shard, struct mono_time now)
{
    struct late_walk *late = &shard->late;
    struct hot_seat *seat = late->seat;
    struct hot_waiter *before = late->met != NULL ? late->met : seat->parked_last;
    struct hot_waiter *waiter = before->next;
    bool is_late = waiter->until.us <= now.us;

    if (!is_late) {
        late->first_left = earlier(late->first_left, waiter->until);
        late->met = waiter;
    }
    if (waiter == seat->parked_last) {
        late_walk_on_locked(late);
    }
    return is_late ? ring_take_locked(shard, seat, before) : NULL;
}

/* A part of the walk, appended at *end. True: it is through, or nobody is late. */
static bool
take_late_locked(struct shard *shard, struct mono_time now, struct hot_waiter ***end)
{
    struct late_walk *late = &shard->late;
    if (now.us < late->first.us) {
        return true;
    }
    if (late->seat == NULL) {
        late->seat = late->crowds != NULL ? late->crowds->seat : NULL;
        late->first_left.us = INT64_MAX;
    }
    for (int i = 0; i < LATE_STEPS && late->seat != NULL; i++) {
        struct hot_waiter *waiter = late_walk_step_locked(shard, now);
        if (waiter != NULL) {
            **end = waiter;
            *end = &waiter->next;
        }
    }
    if (late->seat != NULL) {
        return false;
    }
    late->first = late->first_left;
    return true;
}

void
hot_table_take_late(struct hot_table *table, struct mono_time now, struct hot_waiter **late)
{
    struct hot_waiter **end = late;
    *late = NULL;
    if (atomic_load_explicit(&table->parked, memory_order_relaxed) == 0) {
        return;
    }
    for (uint32_t i = 0; i < table->limits.shards; i++) {
        struct shard *shard = &table->shards[i];
        bool through;
        do {
            lock_take(&shard->lock);
            through = take_late_locked(shard, now, &end);
            lock_drop(&shard->lock);
        } while (!through);
    }
    table_forget_parked(table, *late);
}

/* --- news without a claim ------------------------------------------------ */

void
hot_table_learn(struct hot_table *table, const struct seat_key *key, const struct seat_view *view,
                struct mono_time began, bool arm)
{
    struct seat_spot spot;
    seat_spot_init(&spot, table, key);
    struct hot_seat *seat = lock_and_add(table, &spot);
    /* News that found no room are news all the same; they are no loss, Postgres knows them. */
    if (seat == NULL || shard_learn_locked(spot.shard, seat, view, began, arm)) {
        spot.shard->changes++;
    }
    lock_drop(&spot.shard->lock);
}

/* Both only grow, so their sum stands still only if both do. */
static uint64_t
change_count_locked(struct hot_table *table, const struct shard *shard)
{
    return shard->changes + atomic_load(&table->distrusts);
}

uint64_t
hot_table_change_count(struct hot_table *table, const struct seat_key *key)
{
    struct seat_spot spot;
    seat_spot_init(&spot, table, key);
    lock_take(&spot.shard->lock);
    uint64_t count = change_count_locked(table, spot.shard);
    lock_drop(&spot.shard->lock);
    return count;
}

bool
hot_table_fill(struct hot_table *table, const struct seat_key *key, const struct seat_view *view,
               struct mono_time began, uint64_t change_count)
{
    struct seat_spot spot;
    seat_spot_init(&spot, table, key);
    bool filled = false;

    struct hot_seat *seat = lock_and_add(table, &spot);
    if (seat == NULL) {
        goto done;
    }
    if (change_count_locked(table, spot.shard) == change_count &&
        (!seat->known || view->version >= seat->version)) {
        (void)shard_learn_locked(spot.shard, seat, view, began, false);
        filled = true;
    } else if (!seat->known && !seat->claimed) {
        shard_remove_locked(spot.shard, seat);
    }

done:
    lock_drop(&spot.shard->lock);
    return filled;
}

bool
hot_table_read(struct hot_table *table, const struct seat_key *key, struct db_time now,
               int64_t error_us, struct mono_time mono, struct seat_view *view)
{
    struct seat_spot spot;
    seat_spot_init(&spot, table, key);
    bool told = false;

    lock_take(&spot.shard->lock);
    struct hot_seat *seat = shard_find_locked(spot.shard, &spot);
    if (seat != NULL) {
        seat_mark_used(seat);
        told = !seat->claimed && seat_is_trusted(table, seat, mono) &&
               (seat->status != SEAT_HELD || seat_is_held(seat, now, error_us));
        if (told) {
            seat_tell(seat, view);
        }
    }
    lock_drop(&spot.shard->lock);
    return told;
}

/* --- expiry -------------------------------------------------------------- */

static void
text_copy(char to[ID_BYTES_MAX + 1], struct slice from)
{
    memcpy(to, from.ptr, from.len);
    to[from.len] = '\0';
}

static void
due_fill(const struct shard *shard, const struct hot_seat *seat, struct hot_due *due)
{
    struct slice org, event;
    event_names_tell(&shard->names, seat->event, &org, &event);
    text_copy(due->org, org);
    text_copy(due->event, event);
    text_copy(due->seat, shard_seat_id(seat));
    due->hold_id = seat->hold_id;
    due->held_until = seat->held_until;
}

static void
shard_age_locked(struct shard *shard, struct db_time now)
{
    int64_t passed_us = now.us - shard->ticked.us;
    if (passed_us > AGE_PER_TICK_US) {
        passed_us = AGE_PER_TICK_US;
    }
    if (passed_us > 0) {
        shard->age_us += passed_us;
    }
    shard->ticked = now;
}

/* One bounded piece of a shard's tick. *more: another piece is left. Returns how many are due. */
static int
shard_tick_locked(struct shard *shard, struct db_time now, struct hot_due *due, int max, bool *more)
{
    bool arrived = timer_wheel_turn(&shard->wheel, now, TICK_STEPS);
    int count = 0;
    struct timer_node *node = NULL;
    while (count < max && count < TICK_POPS && (node = timer_wheel_pop(&shard->wheel)) != NULL) {
        struct hot_seat *seat =
            (struct hot_seat *)((char *)node - offsetof(struct hot_seat, timer));
        seat->place = PLACE_NONE;
        shard_settle_place_locked(shard, seat);
        due_fill(shard, seat, &due[count]);
        count++;
    }
    *more = !arrived || node != NULL;
    return count;
}

static int
shard_tick(struct shard *shard, struct db_time now, struct hot_due *due, int max)
{
    int count = 0;
    bool more = true;
    while (more && count < max) {
        lock_take(&shard->lock);
        shard_age_locked(shard, now);
        count += shard_tick_locked(shard, now, due + count, max - count, &more);
        lock_drop(&shard->lock);
    }
    return count;
}

int
hot_table_tick(struct hot_table *table, struct db_time now, struct hot_due *due, int max)
{
    uint32_t mask = table->limits.shards - 1;
    uint32_t from = atomic_load_explicit(&table->tick_from, memory_order_relaxed);
    int count = 0;
    for (uint32_t i = 0; i <= mask && count < max; i++) {
        uint32_t index = (from + i) & mask;
        count += shard_tick(&table->shards[index], now, due + count, max - count);
        /* Where this call stops, the next goes on: no shard waits for ever behind a busy one. */
        atomic_store_explicit(&table->tick_from, index, memory_order_relaxed);
    }
    return count;
}

bool
hot_table_rearm(struct hot_table *table, const struct seat_key *key, const struct uuid *hold_id,
                struct db_time at)
{
    struct seat_spot spot;
    seat_spot_init(&spot, table, key);
    lock_take(&spot.shard->lock);
    struct hot_seat *seat = shard_find_locked(spot.shard, &spot);
    bool is_its = seat != NULL && seat->known && seat->status == SEAT_HELD && !seat->in_payment &&
                  uuid_equal(&seat->hold_id, hold_id);
    if (is_its) {
        shard_arm_locked(spot.shard, seat, at);
    }
    lock_drop(&spot.shard->lock);
    return is_its;
}

/* --- numbers and checks -------------------------------------------------- */

void
hot_table_numbers(struct hot_table *table, struct hot_numbers *numbers)
{
    *numbers = (struct hot_numbers){ .parked = atomic_load(&table->parked) };
    for (uint32_t i = 0; i < table->limits.shards; i++) {
        struct shard *shard = &table->shards[i];
        lock_take(&shard->lock);
        numbers->entries += HASH_COUNT(shard->seats);
        numbers->timers += shard->wheel.armed;
        numbers->claims += shard->claims;
        lock_drop(&shard->lock);
    }
}

static int64_t
shard_count_held_locked(struct shard *shard, struct slice event_text, struct db_time now)
{
    uint32_t event;
    if (!event_names_find(&shard->names, event_text, &event)) {
        return 0;
    }
    int64_t count = 0;
    for (struct hot_seat *seat = shard->seats; seat != NULL; seat = seat->hh.next) {
        count += seat->event == event && seat->known && seat->seat[0] != '~' &&
                 seat_is_held(seat, now, 0);
    }
    return count;
}

int64_t
hot_table_count_held(struct hot_table *table, struct slice org, struct slice event,
                     struct db_time now)
{
    char text[2 * ID_BYTES_MAX + 1];
    char *end = text_append(text, org);
    *end++ = '\0';
    end = text_append(end, event);
    struct slice event_text = { text, (size_t)(end - text) };

    int64_t count = 0;
    for (uint32_t i = 0; i < table->limits.shards; i++) {
        struct shard *shard = &table->shards[i];
        lock_take(&shard->lock);
        count += shard_count_held_locked(shard, event_text, now);
        lock_drop(&shard->lock);
    }
    return count;
}

void
hot_table_validate(struct hot_table *table)
{
    int64_t entries = 0;
    for (uint32_t i = 0; i < table->limits.shards; i++) {
        struct shard *shard = &table->shards[i];
        lock_take(&shard->lock);
        shard_validate_locked(shard);
        entries += HASH_COUNT(shard->seats);
        lock_drop(&shard->lock);
    }
    hf_assert(entries == atomic_load(&table->entries));
}
