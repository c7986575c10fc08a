/*
 * login_limit.c - wrong logins, counted in a set-associative table that its shape bounds.
 *
 * A count is found by the seeded hash of what it is of; nobody outside can aim at another's.
 */
#include "holdfast/login_limit.h"

#include <stdlib.h>
#include <string.h>

#include "address.h"
#include "holdfast/ids.h"
#include "holdfast/lock.h"

#define WAYS         8
#define SETS         (LOGIN_COUNTS_MAX / WAYS)
#define IN_FLIGHT_S  1 /* others' tries of the same name are decided by then */
#define NAME_SALT    'n'
#define ADDRESS_SALT 'a'
#define KEY_BYTES    512
_Static_assert((SETS & (SETS - 1)) == 0, "a set is cut from the hash by bits");

struct count {
    uint64_t key; /* 0: free */
    int64_t began_us;
    int32_t wrong;
    int32_t under_way;
};

struct login_limit {
    /* fixed after start */
    int64_t tries, tries_of_address, window_us;
    bool counts_addresses;

    struct lock lock; /* rank RATE; guards all below */
    struct count sets[SETS][WAYS];
};

struct login_limit *
login_limit_new(const struct config *config)
{
    struct login_limit *limit = calloc(1, sizeof(*limit));
    if (limit == NULL)
        return NULL;
    limit->tries = config->login_tries;
    limit->tries_of_address = config->login_tries_per_address;
    limit->window_us = config->login_window;
    limit->counts_addresses = config->rate_limits;
    lock_init(&limit->lock, LOCK_RATE);
    return limit;
}

void
login_limit_free(struct login_limit **limit)
{
    if (*limit != NULL)
        lock_fini(&(*limit)->lock);
    free(*limit);
    *limit = NULL;
}

/* --- the table ------------------------------------------------------------------------ */

static uint64_t
key_of(char salt, struct slice text)
{
    char bytes[KEY_BYTES] = { salt };
    size_t len = text.len < KEY_BYTES - 1 ? text.len : KEY_BYTES - 1;

    memcpy(bytes + 1, text.ptr, len);
    return hash_seeded(bytes, len + 1) | 1;
}

static uint64_t
key_of_address(struct slice text)
{
    struct address address;

    (void)address_key(text, &address);
    return key_of(ADDRESS_SALT,
                  (struct slice){ (const char *)address.bytes, sizeof(address.bytes) });
}

static bool
is_over(const struct login_limit *limit, const struct count *count, int64_t now_us)
{
    return count->under_way == 0 &&
           (count->wrong == 0 || now_us - count->began_us >= limit->window_us);
}

static struct count *
find_locked(struct login_limit *limit, uint64_t key)
{
    struct count *set = limit->sets[(key >> 8) & (SETS - 1)];

    for (int way = 0; way < WAYS; way++) {
        if (set[way].key == key)
            return &set[way];
    }
    return NULL;
}

/* Whether `a` should make room rather than `b`. */
static bool
goes_before(const struct login_limit *limit, const struct count *a, const struct count *b,
            int64_t now_us)
{
    bool a_is_over = is_over(limit, a, now_us), b_is_over = is_over(limit, b, now_us);

    return a_is_over != b_is_over ? a_is_over : a->wrong < b->wrong;
}

/* The count, made if need be; NULL: all of its set have tries under way. */
static struct count *
get_locked(struct login_limit *limit, uint64_t key, int64_t now_us)
{
    struct count *set = limit->sets[(key >> 8) & (SETS - 1)];
    struct count *count = find_locked(limit, key), *chosen = NULL;

    if (count != NULL)
        return count;
    for (int way = 0; way < WAYS; way++) {
        if (set[way].under_way == 0 &&
            (chosen == NULL || goes_before(limit, &set[way], chosen, now_us)))
            chosen = &set[way];
    }
    if (chosen != NULL)
        *chosen = (struct count){ .key = key };
    return chosen;
}

/* --- judging ---------------------------------------------------------------------------- */

static int64_t
seconds_left(const struct login_limit *limit, const struct count *count, int64_t now_us)
{
    int64_t left_us = count->began_us + limit->window_us - now_us;

    return left_us <= TIME_US_PER_S ? 1 : (left_us + TIME_US_PER_S - 1) / TIME_US_PER_S;
}

/* Wrong tries of a window that is over are forgotten. */
static int64_t
wrong_locked(const struct login_limit *limit, struct count *count, int64_t now_us)
{
    if (count->wrong > 0 && now_us - count->began_us >= limit->window_us)
        count->wrong = 0;
    return count->wrong;
}

static int64_t
address_wait_locked(struct login_limit *limit, uint64_t address, int64_t now_us)
{
    struct count *count = limit->counts_addresses ? find_locked(limit, address) : NULL;

    if (count == NULL || wrong_locked(limit, count, now_us) < limit->tries_of_address)
        return 0;
    return seconds_left(limit, count, now_us);
}

static int64_t
begin_locked(struct login_limit *limit, struct login_try *attempt, int64_t now_us)
{
    int64_t wait_s = address_wait_locked(limit, attempt->address, now_us);
    struct count *count = wait_s == 0 ? get_locked(limit, attempt->name, now_us) : NULL;

    if (wait_s > 0 || count == NULL)
        return wait_s > 0 ? wait_s : IN_FLIGHT_S;
    if (wrong_locked(limit, count, now_us) >= limit->tries)
        return seconds_left(limit, count, now_us);
    if (count->wrong + count->under_way >= limit->tries)
        return IN_FLIGHT_S;
    count->under_way++;
    return 0;
}

int64_t
login_limit_begin(struct login_limit *limit, struct slice name, struct slice address,
                  struct mono_time now, struct login_try *attempt)
{
    *attempt = (struct login_try){ key_of(NAME_SALT, name), key_of_address(address) };
    lock_take(&limit->lock);
    int64_t wait_s = begin_locked(limit, attempt, now.us);
    lock_drop(&limit->lock);
    return wait_s;
}

/* True: it was the last one of so many. count may be NULL. */
static bool
count_wrong_locked(const struct login_limit *limit, struct count *count, int64_t tries,
                   int64_t now_us)
{
    if (count == NULL)
        return false;
    if (wrong_locked(limit, count, now_us) == 0)
        count->began_us = now_us;
    return ++count->wrong == tries;
}

static bool
end_wrong_locked(struct login_limit *limit, const struct login_try *attempt, struct count *name,
                 int64_t now_us)
{
    struct count *address =
        limit->counts_addresses ? get_locked(limit, attempt->address, now_us) : NULL;
    bool is_last = count_wrong_locked(limit, name, limit->tries, now_us);

    return count_wrong_locked(limit, address, limit->tries_of_address, now_us) || is_last;
}

bool
login_limit_end(struct login_limit *limit, const struct login_try *attempt, bool was_wrong,
                struct mono_time now)
{
    lock_take(&limit->lock);
    struct count *name = find_locked(limit, attempt->name); /* it stays while tries are under way */
    hf_assert(name != NULL && name->under_way > 0);
    bool is_last = was_wrong && end_wrong_locked(limit, attempt, name, now.us);
    name->under_way--;
    lock_drop(&limit->lock);
    return is_last;
}
