/*
 * occupancy_count.c - one count in Postgres at a time for each event, for all who wait for it.
 *
 * Who comes is answered by the last count if it still stands, else by one that begins after he
 * came: so he sees what was answered before. A count is a job of the desk; it takes with it all who
 * wait when it begins, and those who come later wait for the next one, which begins COUNT_EVERY_US
 * after the last at the earliest. However many ask, Postgres counts an event four times a second.
 *
 * Before Postgres, the seat map is asked once more (it may have been loaded meanwhile), then Redis:
 * another node may have counted (occupancy_value.c says when its value stands).
 */
#include <stdlib.h>
#include <string.h>

#include "holdfast/lock.h"
#include "holdfast/log.h"
#include "holdfast/metrics.h"
#include "occupancy_internal.h"

#define HASH_FUNCTION(key, len, hash) ((hash) = (unsigned)hash_seeded((key), (len)))
#define HASH_NONFATAL_OOM             1
#include <uthash.h>
#include <utlist.h>

#define COUNT_EVERY_US (250 * TIME_US_PER_MS)
#define COUNTS_MAX     1024 /* events whose last count is kept */

/* One who waits; in its call's arena. */
struct waiter {
    struct waiter *next;
    struct api_call *call;
};

struct event_count {
    struct desk_job job; /* first; the desk's while is_counting */
    struct occupancies *owner;
    UT_hash_handle hh;
    struct event_count *prev, *next; /* in order of use */
    unsigned key_len;                /* fixed, as the key and the two below */
    char key[EVENT_KEY_BYTES];
    struct slice org, event;

    /* guarded by the owner's lock */
    struct waiter *first, **last;
    bool is_counting;
    struct mono_time counted_at; /* when the last count in Postgres began */
    bool has_value;
    struct occupancy_value value;
};

struct occupancies {
    struct node *node; /* fixed */
    struct lock lock;  /* rank OCCUPANCY */
    struct event_count *table;
    struct event_count *order; /* utlist head, the longest unused first */
};

/* --- the table ------------------------------------------------------------------- */

struct occupancies *
occupancies_new(struct node *node)
{
    struct occupancies *self = calloc(1, sizeof(*self));
    if (self == NULL)
        return NULL;
    self->node = node;
    lock_init(&self->lock, LOCK_OCCUPANCY);
    return self;
}

static void
remove_locked(struct occupancies *self, struct event_count *count)
{
    hf_assert(!count->is_counting && count->first == NULL);
    HASH_DEL(self->table, count);
    DL_DELETE(self->order, count);
    free(count);
}

void
occupancies_free(struct occupancies **self)
{
    struct event_count *count, *next;

    if (*self == NULL)
        return;
    DL_FOREACH_SAFE((*self)->order, count, next)
    remove_locked(*self, count);
    lock_fini(&(*self)->lock);
    free(*self);
    *self = NULL;
}

/* Makes room for one more. False: every place is in use. */
static bool
make_room_locked(struct occupancies *self)
{
    struct event_count *count;

    if (HASH_COUNT(self->table) < COUNTS_MAX)
        return true;
    DL_FOREACH(self->order, count)
    {
        if (!count->is_counting) {
            remove_locked(self, count);
            return true;
        }
    }
    return false;
}

static struct event_count *
find_locked(struct occupancies *self, struct slice org, struct slice event)
{
    char key[EVENT_KEY_BYTES];
    struct event_count *count = NULL;
    unsigned key_len = event_key(key, org, event);

    if (key_len > 0)
        HASH_FIND(hh, self->table, key, key_len, count);
    return count;
}

static struct event_count *
add_locked(struct occupancies *self, struct slice org, struct slice event)
{
    struct event_count *count = make_room_locked(self) ? calloc(1, sizeof(*count)) : NULL;
    if (count == NULL)
        return NULL;
    count->owner = self;
    count->last = &count->first;
    count->key_len = event_key(count->key, org, event);
    count->org = (struct slice){ count->key, org.len };
    count->event = (struct slice){ count->key + count->key_len - event.len, event.len };
    HASH_ADD(hh, self->table, key, count->key_len, count);
    if (count->hh.tbl == NULL) {
        free(count);
        return NULL;
    }
    DL_APPEND(self->order, count);
    return count;
}

static struct event_count *
use_locked(struct occupancies *self, struct slice org, struct slice event)
{
    struct event_count *count = find_locked(self, org, event);
    if (count == NULL)
        return add_locked(self, org, event);
    DL_DELETE(self->order, count);
    DL_APPEND(self->order, count);
    return count;
}

/* Copies the last count. False: there is none. */
static bool
copy_value(struct occupancies *self, struct slice org, struct slice event,
           struct occupancy_value *value)
{
    lock_take(&self->lock);
    const struct event_count *count = find_locked(self, org, event);
    bool has_value = count != NULL && count->has_value;
    if (has_value)
        *value = count->value;
    lock_drop(&self->lock);
    return has_value;
}

bool
occupancy_areas_stand(struct occupancies *self, struct slice org, struct slice event,
                      struct db_time now)
{
    lock_take(&self->lock);
    const struct event_count *count = find_locked(self, org, event);
    bool stand = count != NULL && count->has_value && now.us < count->value.areas_end_at.us;
    lock_drop(&self->lock);
    return stand;
}

/* --- who waits --------------------------------------------------------------------- */

static void
answer_all(struct waiter *waiter, const struct occupancy_answer *answer, enum metric_counter reads)
{
    while (waiter != NULL) {
        struct waiter *next = waiter->next; /* it goes with its call */
        metric_add(reads, 1);
        occupancy_answer(waiter->call, answer);
        waiter = next;
    }
}

static void
refuse_all(struct waiter *waiter, enum hf_status status)
{
    while (waiter != NULL) {
        struct waiter *next = waiter->next;
        respond_refusal(waiter->call, status, NULL);
        waiter = next;
    }
}

static struct waiter *
take_waiters(struct event_count *count)
{
    lock_take(&count->owner->lock);
    struct waiter *waiters = count->first;
    count->first = NULL;
    count->last = &count->first;
    lock_drop(&count->owner->lock);
    return waiters;
}

/* What is left without Postgres, marked stale; else the refusal. */
static void
answer_without_postgres(struct event_count *count, struct waiter *waiters, enum hf_status status)
{
    struct occupancy_value value;
    struct occupancy_answer answer;

    if (status != HF_STORE_UNAVAILABLE || waiters == NULL) {
        refuse_all(waiters, status);
        return;
    }
    if (!occupancy_from_old_map(waiters->call, &answer)) {
        if (!copy_value(count->owner, count->org, count->event, &value)) {
            refuse_all(waiters, status);
            return;
        }
        answer = (struct occupancy_answer){ value.counts, value.as_of, true };
    }
    answer_all(waiters, &answer, METRIC_OCCUPANCY_STALE_TOTAL);
}

/* --- a count ------------------------------------------------------------------------- */

static bool
find_in_redis(struct event_count *count, struct desk_tools *tools, struct occupancy_value *value)
{
    struct feed_position position;
    char *text = NULL;
    size_t len = 0;

    feed_position(tools->node->feed, &position);
    if (!warm_get_occupancy(tools->warm, count->org, count->event, &text, &len))
        return false;
    bool stands = occupancy_value_parse(value, tools->node, count->org, count->event,
                                        (struct slice){ text, len }) &&
                  occupancy_value_stands(value, tools->node, &position);
    free(text);
    return stands;
}

static void
tell_redis(const struct event_count *count, struct desk_tools *tools,
           const struct occupancy_value *value)
{
    struct buf text = { 0 };

    occupancy_value_write(value, count->org, count->event, &text);
    if (text.len > 0 && !text.failed)
        (void)warm_put_occupancy(tools->warm, count->org, count->event, buf_slice(&text),
                                 OCCUPANCY_KEEP_MS);
    buf_fini(&text);
}

/* call: one of those who wait, for its deadline and the log. */
static enum hf_status
count_in_postgres(struct event_count *count, struct desk_tools *tools, struct api_call *call,
                  struct occupancy_value *value)
{
    struct pg_params params;
    struct pg_result *rows = NULL;

    lock_take(&count->owner->lock);
    count->counted_at = mono_now();
    lock_drop(&count->owner->lock);
    metric_add(METRIC_OCCUPANCY_COUNTS_TOTAL, 1);
    occupancy_value_begin(value, tools->node);
    pg_params_init(&params);
    pg_param_text(&params, count->org);
    pg_param_text(&params, count->event);
    enum hf_status status =
        call_outcome(call, call_read(call, tools, STATEMENT_OCCUPANCY, &params, &rows), tools->pg);
    if (status == HF_OUTCOME_UNKNOWN) /* of a read there is none */
        status = HF_STORE_UNAVAILABLE;
    if (status == HF_OK && !occupancy_value_read(value, rows))
        status = HF_EVENT_NOT_FOUND;
    pg_result_free(&rows);
    return status;
}

static void
keep_value(struct event_count *count, const struct occupancy_value *value)
{
    lock_take(&count->owner->lock);
    count->value = *value;
    count->has_value = true;
    lock_drop(&count->owner->lock);
}

static void
count_for(struct event_count *count, struct desk_tools *tools, struct waiter *waiters)
{
    struct occupancy_value value;
    struct occupancy_answer answer;
    enum hf_status status = HF_OK;

    if (occupancy_from_map(waiters->call, &answer)) {
        answer_all(waiters, &answer, METRIC_OCCUPANCY_MAP_TOTAL);
        return;
    }
    bool was_counted = find_in_redis(count, tools, &value);
    if (!was_counted)
        status = count_in_postgres(count, tools, waiters->call, &value);
    if (status != HF_OK) {
        answer_without_postgres(count, waiters, status);
        return;
    }
    keep_value(count, &value);
    answer = (struct occupancy_answer){ value.counts, value.as_of, false };
    answer_all(waiters, &answer,
               was_counted ? METRIC_OCCUPANCY_REDIS_TOTAL : METRIC_OCCUPANCY_PG_TOTAL);
    if (!was_counted)
        tell_redis(count, tools, &value);
}

/* --- the job ------------------------------------------------------------------------- */

static void submit_or_refuse(struct event_count *count);

/* Hands the job out once more if somebody came meanwhile. */
static void
count_is_done(struct event_count *count)
{
    lock_take(&count->owner->lock);
    count->is_counting = count->first != NULL;
    bool again = count->is_counting;
    lock_drop(&count->owner->lock);
    if (again)
        submit_or_refuse(count);
}

static void
count_run(struct desk_job *job, struct desk_tools *tools)
{
    struct event_count *count = (struct event_count *)job;
    struct waiter *waiters = take_waiters(count);

    if (waiters != NULL)
        count_for(count, tools, waiters);
    count_is_done(count);
}

static void
count_fail(struct desk_job *job, struct desk_tools *tools, enum hf_status status)
{
    struct event_count *count = (struct event_count *)job;

    (void)tools;
    answer_without_postgres(count, take_waiters(count), status);
    count_is_done(count);
}

/* The caller has set is_counting. The first who waits has the earliest deadline. */
static void
submit_or_refuse(struct event_count *count)
{
    struct occupancies *self = count->owner;

    lock_take(&self->lock);
    count->job = (struct desk_job){
        .deadline = count->first->call->deadline,
        .not_before = { count->counted_at.us == 0 ? 0 : count->counted_at.us + COUNT_EVERY_US },
        .run = count_run,
        .fail = count_fail,
    };
    lock_drop(&self->lock);
    if (desk_submit(self->node->desk, &count->job))
        return;
    lock_take(&self->lock);
    struct waiter *waiters = count->first;
    count->first = NULL;
    count->last = &count->first;
    count->is_counting = false;
    lock_drop(&self->lock);
    refuse_all(waiters, HF_OVERLOADED);
}

/* --- the way in ----------------------------------------------------------------------- */

static bool
answered_by_last_count(struct api_call *call)
{
    const struct node *node = call->api->node;
    struct occupancy_value value;
    struct feed_position position;

    feed_position(node->feed, &position);
    if (!copy_value(call->api->occupancies, call_org(call), call->event, &value) ||
        !occupancy_value_stands(&value, node, &position))
        return false;
    metric_add(METRIC_OCCUPANCY_RECENT_TOTAL, 1);
    occupancy_answer(call, &(struct occupancy_answer){ value.counts, value.as_of, false });
    return true;
}

void
occupancy_await(struct api_call *call)
{
    struct occupancies *self = call->api->occupancies;
    struct waiter *waiter;

    if (answered_by_last_count(call))
        return;
    waiter = arena_alloc(&call->arena, sizeof(*waiter));
    lock_take(&self->lock);
    struct event_count *count =
        waiter == NULL ? NULL : use_locked(self, call_org(call), call->event);
    bool begins = count != NULL && !count->is_counting;
    if (count != NULL) {
        *waiter = (struct waiter){ NULL, call };
        *count->last = waiter;
        count->last = &waiter->next;
        count->is_counting = true;
    }
    lock_drop(&self->lock);
    if (count == NULL)
        respond_refusal(call, HF_OVERLOADED, NULL);
    else if (begins)
        submit_or_refuse(count);
}
