/*
 * ending.c - the tables must stand as the story of the seat ended.
 *
 * For lines the lives of each hold on the seat are counted by how they ended; a hold that
 * gave the seat back and took it again has two lives and two lines.
 */
#include <stdlib.h>
#include <string.h>

#include "audit_internal.h"

static int
compare_lives(const void *left, const void *right)
{
    const struct life *a = left;
    const struct life *b = right;

    return memcmp(a->hold.bytes, b->hold.bytes, sizeof(a->hold.bytes));
}

static void
check_field(struct story *story, bool same, const char *what)
{
    if (!same)
        story_wrong(story, "final_state", NULL, "%s in seats is not what the audit log ends with",
                    what);
}

static void
check_seat_row(struct story *story, const struct pg_result *rows, int row)
{
    enum seat_status status;
    struct uuid hold = pg_get_uuid(rows, row, SEAT_COLUMN_HOLD);

    check_field(story,
                seat_status_parse(pg_get_text(rows, row, SEAT_COLUMN_STATUS), &status) &&
                    status == story->status,
                "status");
    check_field(story, pg_get_int(rows, row, SEAT_COLUMN_VERSION) == story->version, "version");
    check_field(story, uuid_equal(&hold, &story->hold), "hold_id");
    check_field(story, pg_get_time(rows, row, SEAT_COLUMN_UNTIL).us == story->until.us,
                "held_until");
    check_field(story, slice_is(pg_get_text(rows, row, SEAT_COLUMN_USER), story->user), "user_id");
    check_field(story, pg_get_bool(rows, row, SEAT_COLUMN_IN_PAYMENT) == story->paying,
                "in_payment");
}

static void
check_seat(struct story *story, struct stream *seats)
{
    if (!audit_stream_has(seats, story->key)) {
        story_wrong(story, "seat_missing", NULL, "the audit log knows a seat that is not in seats");
        return;
    }
    story->report->seats++;
    check_seat_row(story, seats->rows, seats->at);
    audit_stream_next(seats);
}

/* How many of a hold's lives, or lines, ended which way. */
struct ends {
    int count[LIFE_ENDED + 1];
};

static enum life_end
line_end(struct slice status)
{
    if (slice_is(status, "active"))
        return LIFE_ACTIVE;
    return slice_is(status, "converted") ? LIFE_SOLD : LIFE_ENDED;
}

/* The living line says whose it is and until when, as the seat does. */
static void
check_living_line(struct story *story, const struct stream *lines, const struct uuid *hold)
{
    if (!uuid_equal(hold, &story->hold)) {
        story_wrong(story, "line_without_seat", hold,
                    "an active line of a hold that doesn't have the seat");
        return;
    }
    if (pg_get_time(lines->rows, lines->at, LINE_UNTIL).us != story->until.us ||
        pg_get_bool(lines->rows, lines->at, LINE_IN_PAYMENT) != story->paying ||
        !slice_is(pg_get_text(lines->rows, lines->at, LINE_USER), story->user))
        story_wrong(story, "line_differs", hold,
                    "seat and line disagree on the user, the end or the payment");
}

/* Takes all lines of one hold. */
static struct ends
take_lines(struct story *story, struct stream *lines, const struct uuid *hold)
{
    struct ends ends = { { 0 } };

    while (audit_stream_has(lines, story->key)) {
        struct uuid of = pg_get_uuid(lines->rows, lines->at, LINE_HOLD);
        if (!uuid_equal(&of, hold))
            break;
        enum life_end end = line_end(pg_get_text(lines->rows, lines->at, LINE_STATUS));
        ends.count[end]++;
        if (end == LIFE_ACTIVE)
            check_living_line(story, lines, hold);
        audit_stream_next(lines);
    }
    return ends;
}

/* Takes all lives of the hold of lives[*at]. */
static struct ends
take_lives(const struct story *story, int *at)
{
    struct ends ends = { { 0 } };
    struct uuid hold = story->lives[*at].hold;

    while (*at < story->life_count && uuid_equal(&story->lives[*at].hold, &hold))
        ends.count[story->lives[(*at)++].end]++;
    return ends;
}

static void
compare_ends(struct story *story, const struct uuid *hold, const struct ends *lives,
             const struct ends *lines)
{
    if (memcmp(lives, lines, sizeof(*lives)) == 0)
        return;
    bool has_lines = lines->count[0] + lines->count[1] + lines->count[2] > 0;
    bool has_lives = lives->count[0] + lives->count[1] + lives->count[2] > 0;
    const char *kind = !has_lines ? "line_missing" : !has_lives ? "line_unknown" : "line_status";

    story_wrong(story, kind, hold,
                "lives: %d active, %d sold, %d ended; lines: %d active, %d converted, %d ended",
                lives->count[LIFE_ACTIVE], lives->count[LIFE_SOLD], lives->count[LIFE_ENDED],
                lines->count[LIFE_ACTIVE], lines->count[LIFE_SOLD], lines->count[LIFE_ENDED]);
}

/* Both are in order of the hold: one pass. */
static void
check_lines(struct story *story, struct stream *lines)
{
    static const struct ends none;
    int at = 0;

    if (story->life_count > 1)
        qsort(story->lives, (size_t)story->life_count, sizeof(*story->lives), compare_lives);
    while (at < story->life_count || audit_stream_has(lines, story->key)) {
        bool has_line = audit_stream_has(lines, story->key);
        struct uuid of_line =
            has_line ? pg_get_uuid(lines->rows, lines->at, LINE_HOLD) : (struct uuid){ { 0 } };
        struct uuid hold = at < story->life_count ? story->lives[at].hold : of_line;
        if (has_line && memcmp(of_line.bytes, hold.bytes, sizeof(hold.bytes)) < 0)
            hold = of_line;
        struct ends of_lives = none, of_lines = none;
        if (at < story->life_count && uuid_equal(&story->lives[at].hold, &hold))
            of_lives = take_lives(story, &at);
        if (has_line && uuid_equal(&of_line, &hold))
            of_lines = take_lines(story, lines, &hold);
        compare_ends(story, &hold, &of_lives, &of_lines);
    }
}

void
ending_check(struct story *story, struct stream *seats, struct stream *lines)
{
    check_seat(story, seats);
    check_lines(story, lines);
}
