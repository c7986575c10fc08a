/*
 * story.c - the replay of one seat, audit row by audit row, in order of version.
 *
 * Each action may come only in certain states, and leaves a certain one; a step that is
 * not legal is told, and then taken all the same, so that one fault is one violation and
 * not a hundred. Grants on a hold are judged before its end, expiry after it, both by
 * the clock reading that judged (`at`). While a hold is in payment neither its end nor anybody
 * else counts: only the payment sells it, releases it, or lets it go on as before.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit_internal.h"

/* One audit row, cut from the result. */
struct entry {
    bool has_version, has_hold, has_until;
    int64_t version;
    struct slice action, user, reason;
    struct uuid hold;
    struct db_time at, until;
};

void
story_begin(struct story *story, struct audit_report *report, const struct audit_key *key)
{
    struct life *lives = story->lives;
    int room = story->life_room;
    bool failed = story->failed;

    memset(story, 0, sizeof(*story));
    story->report = report;
    story->key = key;
    story->status = SEAT_AVAILABLE; /* a new seat has no audit row */
    story->lives = lives;
    story->life_room = room;
    story->failed = failed;
}

void
story_fini(struct story *story)
{
    free(story->lives);
    story->lives = NULL;
}

void
story_wrong(struct story *story, const char *kind, const struct uuid *other, const char *format,
            ...)
{
    va_list args;
    struct audit_violation *violation =
        report_add(story->report, kind, slice_of(story->key->org), slice_of(story->key->event),
                   slice_of(story->key->seat));

    if (violation == NULL)
        return;
    if (!uuid_is_nil(&story->hold))
        violation->holds[violation->hold_count++] = story->hold;
    if (other != NULL && !uuid_is_nil(other) && !uuid_equal(other, &story->hold))
        violation->holds[violation->hold_count++] = *other;
    va_start(args, format);
    vsnprintf(violation->detail, sizeof(violation->detail), format, args);
    va_end(args);
}

/* --- lives ------------------------------------------------------------------- */

static void
life_begin(struct story *story, const struct uuid *hold)
{
    if (story->life_count == story->life_room) {
        int room = story->life_room == 0 ? 64 : story->life_room * 2;
        struct life *grown = realloc(story->lives, (size_t)room * sizeof(*grown));
        if (grown == NULL) {
            story->failed = true;
            return;
        }
        story->lives = grown;
        story->life_room = room;
    }
    story->lives[story->life_count++] = (struct life){ *hold, LIFE_ACTIVE };
}

/* The life that is running is the last one: lives don't overlap, or that was told already. */
static void
life_end(struct story *story, enum life_end end)
{
    if (story->life_count > 0)
        story->lives[story->life_count - 1].end = end;
}

static void
set_free(struct story *story, enum seat_status status)
{
    story->status = status;
    memset(&story->hold, 0, sizeof(story->hold));
    story->until.us = 0;
    story->paying = false;
    story->user[0] = '\0';
}

static void
set_user(struct story *story, struct slice user)
{
    size_t len = user.len < ID_BYTES_MAX ? user.len : ID_BYTES_MAX;

    memcpy(story->user, user.ptr, len);
    story->user[len] = '\0';
}

/* --- what may be --------------------------------------------------------------- */

#define STATE(status) (1u << (status))
#define STATE_ANY                                                                                  \
    (STATE(SEAT_AVAILABLE) | STATE(SEAT_HELD) | STATE(SEAT_SOLD) | STATE(SEAT_BLOCKED))

static bool
legal(struct story *story, const struct entry *entry, unsigned states)
{
    if (states & STATE(story->status))
        return true;
    story_wrong(story, "illegal_step", &entry->hold, "%.*s at version %lld on a seat that is %s",
                SLICE_ARG(entry->action), (long long)entry->version,
                seat_status_word(story->status));
    return false;
}

static void
check_hold(struct story *story, const struct entry *entry)
{
    if (!uuid_equal(&entry->hold, &story->hold))
        story_wrong(story, "wrong_hold", &entry->hold,
                    "%.*s at version %lld is not by the hold that has the seat",
                    SLICE_ARG(entry->action), (long long)entry->version);
}

/* A grant on a hold is judged before its end. */
static void
check_alive(struct story *story, const struct entry *entry)
{
    if (story->until.us != 0 && entry->at.us >= story->until.us)
        story_wrong(story, "after_end", &entry->hold,
                    "%.*s at version %lld came %lld us after the hold's end",
                    SLICE_ARG(entry->action), (long long)entry->version,
                    (long long)(entry->at.us - story->until.us));
}

/* What a payment keeps everybody else from doing. */
static void
check_not_paying(struct story *story, const struct entry *entry)
{
    if (story->paying)
        story_wrong(story, "in_payment", &entry->hold,
                    "%.*s at version %lld on a hold that is in payment", SLICE_ARG(entry->action),
                    (long long)entry->version);
}

/* --- what each action does -------------------------------------------------------- */

static void
seat_held(struct story *story, const struct entry *entry)
{
    if (story->status == SEAT_HELD || story->status == SEAT_SOLD)
        story_wrong(story, "overlap", &entry->hold,
                    "taken at version %lld in the life of another hold", (long long)entry->version);
    else
        (void)legal(story, entry, STATE(SEAT_AVAILABLE));
    if (!entry->has_hold || !entry->has_until || entry->user.len == 0)
        story_wrong(story, "incomplete", &entry->hold,
                    "seat_held at version %lld lacks hold, user or end", (long long)entry->version);
    else if (entry->until.us <= entry->at.us)
        story_wrong(story, "born_dead", &entry->hold, "held at version %lld until before it began",
                    (long long)entry->version);
    story->status = SEAT_HELD;
    story->hold = entry->hold;
    story->until = entry->until;
    set_user(story, entry->user);
    life_begin(story, &entry->hold);
}

/* extended, changed, transferred: the seat stays with its hold. */
static bool
goes_on(struct story *story, const struct entry *entry)
{
    if (!legal(story, entry, STATE(SEAT_HELD)))
        return false;
    check_hold(story, entry);
    check_not_paying(story, entry);
    check_alive(story, entry);
    return true;
}

static void
hold_extended(struct story *story, const struct entry *entry)
{
    if (!goes_on(story, entry))
        return;
    if (!entry->has_until || entry->until.us < story->until.us)
        story_wrong(story, "shortened", &entry->hold, "extended at version %lld to an earlier end",
                    (long long)entry->version);
    story->until = entry->until;
}

static void
hold_changed(struct story *story, const struct entry *entry)
{
    if (!goes_on(story, entry))
        return;
    if (entry->until.us != story->until.us)
        story_wrong(story, "end_moved", &entry->hold, "changed at version %lld, and its end moved",
                    (long long)entry->version);
    story->until = entry->until;
}

static void
hold_transferred(struct story *story, const struct entry *entry)
{
    if (goes_on(story, entry))
        set_user(story, entry->user);
}

static void
payment_started(struct story *story, const struct entry *entry)
{
    if (goes_on(story, entry))
        story->paying = true;
}

/* Nothing was decided: the hold's end counts again, and may have passed. */
static void
payment_stopped(struct story *story, const struct entry *entry)
{
    if (!legal(story, entry, STATE(SEAT_HELD)))
        return;
    check_hold(story, entry);
    if (!story->paying)
        story_wrong(story, "illegal_step", &entry->hold,
                    "payment_stopped at version %lld, and none had started",
                    (long long)entry->version);
    story->paying = false;
}

static void
seat_sold(struct story *story, const struct entry *entry)
{
    if (legal(story, entry, STATE(SEAT_HELD))) {
        check_hold(story, entry);
        if (!story->paying)
            check_alive(story, entry);
        life_end(story, LIFE_SOLD);
    }
    story->status = SEAT_SOLD;
    story->hold = entry->hold;
    story->until.us = 0;
    story->paying = false;
}

/* What was sold is released by whoever has it, or because he has bought another seat. */
static bool
gives_back(const struct entry *entry)
{
    return slice_is(entry->reason, "user_cancelled") || slice_is(entry->reason, "replaced");
}

static void
seat_released(struct story *story, const struct entry *entry)
{
    if (legal(story, entry, STATE(SEAT_HELD) | STATE(SEAT_SOLD))) {
        check_hold(story, entry);
        bool expired = slice_is(entry->reason, "ttl_expired") ||
                       slice_is(entry->reason, "waitlist_lapsed");
        if (!slice_is(entry->reason, "payment_failed"))
            check_not_paying(story, entry);
        if (story->status == SEAT_SOLD && !gives_back(entry))
            story_wrong(story, "sold_released", &entry->hold,
                        "a sold seat was released as %.*s at version %lld",
                        SLICE_ARG(entry->reason), (long long)entry->version);
        else if (expired && entry->at.us < story->until.us)
            story_wrong(story, "expired_early", &entry->hold,
                        "expired at version %lld, %lld us before its end",
                        (long long)entry->version, (long long)(story->until.us - entry->at.us));
        life_end(story, LIFE_ENDED);
    }
    set_free(story, SEAT_AVAILABLE);
}

static void
seat_blocked(struct story *story, const struct entry *entry)
{
    (void)legal(story, entry, STATE(SEAT_AVAILABLE));
    set_free(story, SEAT_BLOCKED);
}

static void
seat_unblocked(struct story *story, const struct entry *entry)
{
    (void)legal(story, entry, STATE(SEAT_BLOCKED));
    set_free(story, SEAT_AVAILABLE);
}

static void
seat_removed(struct story *story, const struct entry *entry)
{
    (void)legal(story, entry, STATE(SEAT_AVAILABLE) | STATE(SEAT_BLOCKED));
    set_free(story, SEAT_REMOVED);
}

static void
seat_added(struct story *story, const struct entry *entry)
{
    (void)legal(story, entry, STATE(SEAT_REMOVED));
    set_free(story, SEAT_AVAILABLE);
}

static void
seat_changed(struct story *story, const struct entry *entry)
{
    (void)legal(story, entry, STATE_ANY);
}

static const struct {
    const char *action;
    void (*step)(struct story *story, const struct entry *entry);
} steps[] = {
    { "seat_held", seat_held },
    { "hold_extended", hold_extended },
    { "hold_changed", hold_changed },
    { "hold_transferred", hold_transferred },
    { "payment_started", payment_started },
    { "payment_stopped", payment_stopped },
    { "seat_sold", seat_sold },
    { "seat_released", seat_released },
    { "seat_blocked", seat_blocked },
    { "seat_unblocked", seat_unblocked },
    { "seat_removed", seat_removed },
    { "seat_added", seat_added },
    { "seat_changed", seat_changed },
};

/* --- one row ------------------------------------------------------------------------ */

static void
check_version(struct story *story, const struct entry *entry)
{
    if (!entry->has_version)
        story_wrong(story, "version_missing", &entry->hold, "%.*s has no version",
                    SLICE_ARG(entry->action));
    else if (entry->version != story->version + 1)
        story_wrong(story, entry->version <= story->version ? "version_double" : "version_gap",
                    &entry->hold, "%.*s makes version %lld after %lld", SLICE_ARG(entry->action),
                    (long long)entry->version, (long long)story->version);
    if (entry->has_version)
        story->version = entry->version;
}

/* A change can't have been judged before the one whose result it found. */
static void
check_time(struct story *story, const struct entry *entry)
{
    if (story->born && entry->at.us < story->last_at.us)
        story_wrong(story, "time_backwards", &entry->hold,
                    "%.*s at version %lld was judged before the change before it",
                    SLICE_ARG(entry->action), (long long)entry->version);
    story->last_at = entry->at;
    story->born = true;
}

static struct entry
read_entry(const struct pg_result *rows, int row)
{
    return (struct entry){
        .has_version = !pg_is_null(rows, row, ENTRY_VERSION),
        .has_hold = !pg_is_null(rows, row, ENTRY_HOLD),
        .has_until = !pg_is_null(rows, row, ENTRY_UNTIL),
        .version = pg_get_int(rows, row, ENTRY_VERSION),
        .action = pg_get_text(rows, row, ENTRY_ACTION),
        .user = pg_get_text(rows, row, ENTRY_USER),
        .reason = pg_get_text(rows, row, ENTRY_REASON),
        .hold = pg_get_uuid(rows, row, ENTRY_HOLD),
        .at = pg_get_time(rows, row, ENTRY_AT),
        .until = pg_get_time(rows, row, ENTRY_UNTIL),
    };
}

void
story_tell(struct story *story, const struct pg_result *rows, int row)
{
    struct entry entry = read_entry(rows, row);

    story->report->entries++;
    check_version(story, &entry);
    check_time(story, &entry);
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        if (slice_is(entry.action, steps[i].action)) {
            steps[i].step(story, &entry);
            return;
        }
    }
    story_wrong(story, "unknown_action", &entry.hold, "%.*s at version %lld",
                SLICE_ARG(entry.action), (long long)entry.version);
}
