/*
 * shard.c - the entries of one shard: finding, adding, placing, evicting, learning.
 *
 * All of it runs under the shard's lock, calls nobody back, and takes a bounded
 * number of steps (uthash's doubling aside, see seat_hash.h).
 */
#include "hot_internal.h"

#include <string.h>

/* So many entries in use are passed over before the next one goes whatever its use. */
#define EVICTION_CHANCES 8

/* What uthash compares: the number of the event and the seat id, as in struct hot_seat. */
struct seat_probe {
    uint32_t event;
    char seat[ID_BYTES_MAX];
};

static struct slab *
slab_for(struct shard *shard, size_t seat_bytes)
{
    hf_assert(seat_bytes > 0 && seat_bytes <= ID_BYTES_MAX);
    return &shard->slabs[(seat_bytes - 1) / SEAT_BYTES_STEP];
}

void
shard_init(struct shard *shard, struct hot_table *table)
{
    shard->table = table;
    lock_init(&shard->lock, LOCK_SHARD);
    shard->seats = NULL;
    event_names_init(&shard->names);
    for (uint32_t i = 0; i < SEAT_CLASSES; i++) {
        slab_init(&shard->slabs[i],
                  (uint32_t)offsetof(struct hot_seat, seat) + (i + 1) * SEAT_BYTES_STEP);
    }
    timer_wheel_init(&shard->wheel);
    link_init(&shard->freed);
    link_init(&shard->idle);
    shard->changes = 0;
    shard->claims = 0;
    shard->late = (struct late_walk){ .first = { INT64_MAX } };
    shard->age_us = 0;
    shard->ticked = (struct db_time){ 0 };
}

void
shard_fini(struct shard *shard)
{
    hf_assert(shard->claims == 0);
    HASH_CLEAR(hh, shard->seats);
    for (int i = 0; i < SEAT_CLASSES; i++) {
        slab_fini(&shard->slabs[i]);
    }
    event_names_fini(&shard->names);
    lock_fini(&shard->lock);
}

struct slice
shard_seat_id(const struct hot_seat *seat)
{
    return (struct slice){ seat->seat, seat->hh.keylen - sizeof(seat->event) };
}

/* --- finding and adding -------------------------------------------------- */

struct hot_seat *
shard_find_locked(struct shard *shard, const struct seat_spot *spot)
{
    struct seat_probe probe;
    if (!event_names_find(&shard->names, spot->event, &probe.event)) {
        return NULL;
    }
    memcpy(probe.seat, spot->seat.ptr, spot->seat.len);
    struct hot_seat *seat;
    HASH_FIND_BYHASHVALUE(hh, shard->seats, &probe, sizeof(probe.event) + spot->seat.len,
                          spot->hash, seat);
    return seat;
}

/* Counts one more entry of the table. False: it is full. */
static bool
table_take_room(struct hot_table *table)
{
    int64_t before = atomic_fetch_add_explicit(&table->entries, 1, memory_order_relaxed);
    if (before < table->limits.seats_max) {
        return true;
    }
    atomic_fetch_sub_explicit(&table->entries, 1, memory_order_relaxed);
    return false;
}

static void
table_give_room(struct hot_table *table)
{
    atomic_fetch_sub_explicit(&table->entries, 1, memory_order_relaxed);
}

/* Makes the entry and puts it into the hash; room for it is taken already. NULL: no memory. */
static struct hot_seat *
seat_new(struct shard *shard, const struct seat_spot *spot)
{
    struct slab *slab = slab_for(shard, spot->seat.len);
    uint16_t slab_place;
    struct hot_seat *seat = slab_take(slab, &slab_place);
    if (seat == NULL) {
        return NULL;
    }
    memset(seat, 0, sizeof(*seat));
    seat->slab_place = slab_place;
    link_init(&seat->timer.link);
    memcpy(seat->seat, spot->seat.ptr, spot->seat.len);
    if (!event_names_get(&shard->names, spot->event, &seat->event)) {
        goto no_name;
    }
    HASH_ADD_KEYPTR_BYHASHVALUE(hh, shard->seats, &seat->event,
                                sizeof(seat->event) + spot->seat.len, spot->hash, seat);
    if (seat->hh.tbl == NULL) {
        goto not_added;
    }
    return seat;

not_added:
    event_names_put(&shard->names, seat->event);
no_name:
    slab_give(slab, seat, slab_place);
    return NULL;
}

struct hot_seat *
shard_find_or_add_locked(struct shard *shard, const struct seat_spot *spot)
{
    struct hot_seat *seat = shard_find_locked(shard, spot);
    if (seat != NULL) {
        return seat;
    }
    struct hot_table *table = shard->table;
    if (!table_take_room(table) && !(shard_evict_locked(shard) && table_take_room(table))) {
        return NULL;
    }
    seat = seat_new(shard, spot);
    if (seat == NULL) {
        table_give_room(table);
    }
    return seat;
}

/* --- places -------------------------------------------------------------- */

static bool
seat_is_free(const struct hot_seat *seat)
{
    return seat->status == SEAT_AVAILABLE || seat->status == SEAT_REMOVED;
}

static bool
seat_can_expire(const struct hot_seat *seat)
{
    return seat->known && seat->status == SEAT_HELD && !seat->in_payment;
}

/* Takes the entry out of whatever ring it is in. */
static void
seat_leave_place(struct shard *shard, struct hot_seat *seat)
{
    if (seat->place == PLACE_WHEEL) {
        timer_wheel_disarm(&shard->wheel, &seat->timer);
    } else {
        link_unlink(&seat->timer.link);
    }
    seat->place = PLACE_NONE;
}

static enum seat_place
seat_place_without_timer(const struct hot_seat *seat)
{
    if (seat->claimed) {
        return PLACE_NONE;
    }
    return seat_is_free(seat) ? PLACE_FREED : PLACE_IDLE;
}

void
shard_settle_place_locked(struct shard *shard, struct hot_seat *seat)
{
    enum seat_place place = seat_place_without_timer(seat);
    if (seat->place == PLACE_WHEEL || seat->place == place) {
        return;
    }
    seat_leave_place(shard, seat);
    seat->place = place;
    if (place == PLACE_FREED) {
        seat->timer.at.us = shard->age_us;
        link_append(&shard->freed, &seat->timer.link);
    } else if (place == PLACE_IDLE) {
        link_append(&shard->idle, &seat->timer.link);
    }
}

void
shard_arm_locked(struct shard *shard, struct hot_seat *seat, struct db_time at)
{
    hf_assert(seat_can_expire(seat));
    seat_leave_place(shard, seat);
    timer_wheel_arm(&shard->wheel, &seat->timer, at);
    seat->place = PLACE_WHEEL;
}

void
shard_remove_locked(struct shard *shard, struct hot_seat *seat)
{
    hf_assert(!seat->claimed && seat->parked_last == NULL);
    struct slab *slab = slab_for(shard, shard_seat_id(seat).len);
    seat_leave_place(shard, seat);
    HASH_DEL(shard->seats, seat);
    event_names_put(&shard->names, seat->event);
    slab_give(slab, seat, seat->slab_place);
    table_give_room(shard->table);
}

/* --- eviction ------------------------------------------------------------ */

static struct hot_seat *
seat_of(struct link *link)
{
    return (struct hot_seat *)((char *)link - offsetof(struct hot_seat, timer.link));
}

/* The oldest tombstone, if it is old enough to go. */
static struct hot_seat *
oldest_freed(struct shard *shard)
{
    if (link_is_empty(&shard->freed)) {
        return NULL;
    }
    struct hot_seat *seat = seat_of(shard->freed.next);
    int64_t age_us = shard->age_us - seat->timer.at.us;
    return age_us >= shard->table->limits.tombstone_us ? seat : NULL;
}

/* Second chance: who was asked for since the last time goes to the end once. */
static struct hot_seat *
least_used_idle(struct shard *shard)
{
    if (link_is_empty(&shard->idle)) {
        return NULL;
    }
    for (int chance = 0; chance < EVICTION_CHANCES; chance++) {
        struct hot_seat *seat = seat_of(shard->idle.next);
        if (!seat->used) {
            break;
        }
        seat->used = false;
        link_unlink(&seat->timer.link);
        link_append(&shard->idle, &seat->timer.link);
    }
    return seat_of(shard->idle.next);
}

bool
shard_evict_locked(struct shard *shard)
{
    struct hot_seat *seat = oldest_freed(shard);
    if (seat == NULL) {
        seat = least_used_idle(shard);
    }
    if (seat == NULL) {
        return false;
    }
    shard_remove_locked(shard, seat);
    return true;
}

/* --- learning ------------------------------------------------------------ */

static bool
seat_says_the_same(const struct hot_seat *seat, const struct seat_view *view)
{
    return seat->version == view->version && seat->status == view->status &&
           seat->in_payment == view->in_payment && seat->user_hash == view->user_hash &&
           seat->held_until.us == view->held_until.us && uuid_equal(&seat->hold_id, &view->hold_id);
}

static void
seat_take_over(struct hot_seat *seat, const struct seat_view *view)
{
    hf_assert(!seat->known || view->version >= seat->version);
    hf_assert((unsigned)view->status <= SEAT_REMOVED);
    seat->known = true;
    seat->status = view->status & 7;
    seat->in_payment = view->in_payment;
    seat->hold_id = view->hold_id;
    seat->user_hash = view->user_hash;
    seat->held_until = view->held_until;
    seat->version = view->version;
}

bool
shard_learn_locked(struct shard *shard, struct hot_seat *seat, const struct seat_view *view,
                   struct mono_time began, bool arm)
{
    if (seat->known && view->version < seat->version) {
        return false;
    }
    bool news = !seat->known || !seat_says_the_same(seat, view);
    if (news && seat->known && view->version == seat->version && began.us < seat->began.us) {
        /* One version, two tales (the store was restored): the younger one counts. */
        return false;
    }
    if (news) {
        /* Whatever timer there was spoke of a state that is gone. */
        seat_leave_place(shard, seat);
        seat_take_over(seat, view);
        seat->began = began;
    } else if (began.us > seat->began.us) {
        seat->began = began;
    }
    if (arm && seat_can_expire(seat) && seat->place != PLACE_WHEEL) {
        shard_arm_locked(shard, seat, seat->held_until);
    }
    shard_settle_place_locked(shard, seat);
    return news;
}

/* --- validation ---------------------------------------------------------- */

static int64_t
ring_count(const struct link *head)
{
    int64_t count = 0;
    for (const struct link *link = head->next; link != head; link = link->next) {
        hf_assert(link->next->prev == link);
        count++;
    }
    return count;
}

static void
seat_validate(struct shard *shard, const struct hot_seat *seat)
{
    hf_assert(seat->known || seat->claimed);
    hf_assert(seat->claimed || seat->parked_last == NULL);
    hf_assert(seat->place == PLACE_WHEEL ? seat_can_expire(seat)
                                         : seat->place == seat_place_without_timer(seat));
    hf_assert(event_names_references(&shard->names, seat->event) > 0);

    const struct hot_seat *found;
    HASH_FIND_BYHASHVALUE(hh, shard->seats, &seat->event, seat->hh.keylen, seat->hh.hashv, found);
    hf_assert(found == seat);
}

void
shard_validate_locked(struct shard *shard)
{
    timer_wheel_validate(&shard->wheel);
    int64_t places[4] = { 0 };
    int64_t claims = 0;
    for (struct hot_seat *seat = shard->seats; seat != NULL; seat = seat->hh.next) {
        seat_validate(shard, seat);
        places[seat->place]++;
        claims += seat->claimed;
    }
    hf_assert(claims == shard->claims);
    hf_assert(places[PLACE_WHEEL] == shard->wheel.armed);
    hf_assert(places[PLACE_FREED] == ring_count(&shard->freed));
    hf_assert(places[PLACE_IDLE] == ring_count(&shard->idle));

    int64_t items = 0;
    for (int i = 0; i < SEAT_CLASSES; i++) {
        slab_validate(&shard->slabs[i]);
        items += shard->slabs[i].items;
    }
    hf_assert(items == (int64_t)HASH_COUNT(shard->seats));
    int64_t references = 0;
    for (uint32_t number = 0; number < shard->names.numbers; number++) {
        references += event_names_references(&shard->names, number);
    }
    hf_assert(references == items);
}
