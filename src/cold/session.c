/*
 * session.c - makes a fresh connection one of ours: settings, identity, clock, and the statements
 * as they are needed.
 *
 * All statements together cost the server some 40 ms and 8 MB a session, and most sessions use few
 * of them: each is prepared with its first use, in the same round trip. Only the one that begins
 * every transaction is prepared at once: a server without our tables shows before it is relied on.
 *
 * The settings are made and read back by one SELECT of set_config, in one round trip: a pooler or
 * a role that has its own mind about one of them shows at once.
 */
#include "cold_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "holdfast/log.h"

#define SERVER_VERSION_LEAST 150000
#define CLOCK_ROUND_TRIPS    3
#define PG_PREPARE_US        (3 * INT64_C(1000000)) /* all statements */

/* --- settings -------------------------------------------------------------- */

struct setting {
    const char *name;
    const char *value; /* NULL: request_timeout */
};

static const struct setting settings[] = {
    { "synchronous_commit", "on" }, /* law 1; remote_apply, which is more, is left */
    { "default_transaction_isolation", "read committed" }, /* law 4 */
    { "lock_timeout", "500ms" },
    { "idle_in_transaction_session_timeout", "2s" }, /* bounds what a stopped node can block */
    { "statement_timeout", NULL },
    { "plan_cache_mode", "force_generic_plan" }, /* custom plans cost 25 % */
    { "enable_seqscan", "off" }, /* plans made on empty tables would read full ones as a whole */
    { "jit", "off" },
    { "TimeZone", "UTC" },
    { "standard_conforming_strings", "on" },
};
#define SETTING_COUNT (int)(sizeof(settings) / sizeof(settings[0]))

/* What is only read, in the columns behind the settings. */
enum { SAW_VERSION = SETTING_COUNT, SAW_FSYNC, SAW_ENCODING, SAW_READ_ONLY };

static const char settings_tail[] =
    ", current_setting('server_version_num'), current_setting('fsync'),"
    " current_setting('client_encoding'), current_setting('transaction_read_only')";

static void
append_setting(struct buf *sql, const struct setting *setting, int64_t statement_timeout_us)
{
    if (strcmp(setting->name, "synchronous_commit") == 0) {
        buf_printf(sql,
                   "set_config('%s', CASE current_setting('%s') WHEN 'remote_apply' "
                   "THEN 'remote_apply' ELSE '%s' END, false)",
                   setting->name, setting->name, setting->value);
    } else if (setting->value == NULL) {
        buf_printf(sql, "set_config('%s', '%" PRId64 "ms', false)", setting->name,
                   statement_timeout_us / TIME_US_PER_MS);
    } else {
        buf_printf(sql, "set_config('%s', '%s', false)", setting->name, setting->value);
    }
}

static bool
refuse(struct pg *pg, const char *what, struct slice value)
{
    char text[PG_ERROR_BYTES];
    snprintf(text, sizeof(text), "%s is '%.*s'", what, SLICE_ARG(value));
    pg_note_error(pg, "", text);
    return false;
}

/* set_config answers in the server's own unit ("5s" for 5000ms), so durations are not compared. */
static bool
setting_took(const struct setting *setting, struct slice value)
{
    if (strcmp(setting->name, "synchronous_commit") == 0) {
        return slice_is(value, "on") || slice_is(value, "remote_apply");
    }
    if (strstr(setting->name, "timeout") != NULL) {
        return value.len > 0 && !slice_is(value, "0");
    }
    return slice_is(value, setting->value);
}

static bool
check_server(struct pg *pg, const struct pg_result *result)
{
    struct slice version = pg_get_text(result, 0, SAW_VERSION);
    int number = 0;
    for (size_t i = 0; i < version.len && version.ptr[i] >= '0' && version.ptr[i] <= '9' && i < 8;
         i++) {
        number = number * 10 + (version.ptr[i] - '0');
    }
    if (number < SERVER_VERSION_LEAST) {
        return refuse(pg, "Postgres 15 or newer is needed: server_version_num", version);
    }
    if (!slice_is(pg_get_text(result, 0, SAW_FSYNC), "on") &&
        !pg->config->allow_unsafe_durability) {
        return refuse(pg, "a committed hold could be lost (allow_unsafe_durability is off): fsync",
                      pg_get_text(result, 0, SAW_FSYNC));
    }
    if (!slice_is(pg_get_text(result, 0, SAW_ENCODING), "UTF8")) {
        return refuse(pg, "client_encoding", pg_get_text(result, 0, SAW_ENCODING));
    }
    if (!slice_is(pg_get_text(result, 0, SAW_READ_ONLY), "off")) {
        return refuse(pg, "no hold can be written there (a standby?): transaction_read_only",
                      pg_get_text(result, 0, SAW_READ_ONLY));
    }
    return true;
}

static bool
set_up(struct pg *pg, struct mono_time deadline)
{
    struct buf sql = { 0 };
    struct pg_result *result = NULL;
    bool done = false;

    buf_append_text(&sql, "SELECT ");
    for (int i = 0; i < SETTING_COUNT; i++) {
        buf_append_text(&sql, i > 0 ? ", " : "");
        append_setting(&sql, &settings[i], pg->config->request_timeout);
    }
    buf_append_text(&sql, settings_tail);
    if (sql.failed) {
        pg_note_error(pg, "", "no memory");
        goto out;
    }
    if (pg_run_text(pg, sql.data, 0, NULL, deadline, &result) != PG_DONE) {
        goto out;
    }
    for (int i = 0; i < SETTING_COUNT; i++) {
        if (!setting_took(&settings[i], pg_get_text(result, 0, i))) {
            refuse(pg, settings[i].name, pg_get_text(result, 0, i));
            goto out;
        }
    }
    done = check_server(pg, result);
out:
    pg_result_free(&result);
    buf_fini(&sql);
    return done;
}

/* --- identity --------------------------------------------------------------- */

/* The timeline of the WAL being written: the control file's is old until the first checkpoint. */
#define TIMELINE "('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int8"

/* pg_control_system is everybody's by default; where it was taken away, the timeline has to do. */
static bool
may_read_identifier(struct pg *pg, struct mono_time deadline, bool *may)
{
    struct pg_result *result = NULL;
    if (pg_run_text(pg, "SELECT has_function_privilege('pg_control_system()', 'EXECUTE')", 0, NULL,
                    deadline, &result) != PG_DONE) {
        return false;
    }
    *may = pg_get_bool(result, 0, 0);
    pg_result_free(&result);
    if (!*may) {
        LOG_EVENT(LOG_WARN, "postgres_identity_hidden",
                  log_text("hint", "GRANT EXECUTE ON FUNCTION pg_control_system() to this role; "
                                   "until then only a new timeline shows a fail-over"));
    }
    return true;
}

static bool
read_identity(struct pg *pg, struct mono_time deadline)
{
    static const char with[] =
        "SELECT (SELECT system_identifier FROM pg_control_system()), " TIMELINE;
    static const char without[] = "SELECT 0::int8, " TIMELINE;

    struct pg_result *result = NULL;
    bool may = false;
    if (!may_read_identifier(pg, deadline, &may) ||
        pg_run_text(pg, may ? with : without, 0, NULL, deadline, &result) != PG_DONE) {
        return false;
    }
    pg->generation = pg_identity_saw(pg->identity, pg->clock, pg_get_int(result, 0, 0),
                                     pg_get_int(result, 0, 1));
    pg_result_free(&result);
    return true;
}

/* --- statements --------------------------------------------------------------- */

bool
pg_session_queue_parse(struct pg *pg, enum pg_statement statement)
{
    const struct pg_statement_text *text = &pg_statements[statement];
    pg->prepared[statement] = true;
    return PQsendPrepare(pg->conn, text->name, text->sql, 0, NULL) == 1;
}

bool
pg_session_saw_parse(struct pg *pg, enum pg_statement statement, const PGresult *result)
{
    pg->prepared[statement] = PQresultStatus(result) == PGRES_COMMAND_OK;
    return pg->prepared[statement];
}

/* Of a pipeline, the first that fails says why; what comes behind it was skipped. */
static void
note_unprepared(struct pg *pg, enum pg_statement statement, const PGresult *result)
{
    char text[PG_ERROR_BYTES];

    if (PQresultStatus(result) == PGRES_PIPELINE_ABORTED) {
        return;
    }
    pg_note_result(pg, result);
    snprintf(text, sizeof(text), "statement %s: %.400s", pg_statements[statement].name, pg->error);
    snprintf(pg->error, sizeof(pg->error), "%s", text);
}

/* Whatever of [first, end) isn't yet, in one pipeline: one round trip however many there are. */
static bool
prepare_statements(struct pg *pg, enum pg_statement first, enum pg_statement end,
                   struct mono_time deadline)
{
    bool asked[STATEMENT_COUNT] = { false };
    bool queued = true;

    for (enum pg_statement i = first; i < end && queued; i++) {
        asked[i] = !pg->prepared[i];
        queued = !asked[i] || pg_session_queue_parse(pg, i);
    }
    if (!queued || PQpipelineSync(pg->conn) != 1) {
        pg_io_lost(pg, PQerrorMessage(pg->conn));
        return false;
    }

    bool done = true;
    for (enum pg_statement i = first; i < end && pg->conn != NULL; i++) {
        PGresult *result = asked[i] ? pg_io_answer(pg, deadline) : NULL;
        if (result != NULL && !pg_session_saw_parse(pg, i, result)) {
            note_unprepared(pg, i, result);
            done = false;
        }
        PQclear(result);
    }
    return pg->conn != NULL && pg_io_sync(pg, deadline) == PG_DONE && done;
}

bool
pg_prepare_all(struct pg *pg)
{
    struct mono_time deadline = { mono_now().us + PG_PREPARE_US };
    return prepare_statements(pg, 0, STATEMENT_COUNT, deadline);
}

/* --- clock ---------------------------------------------------------------------- */

bool
pg_session_observe_clock(struct pg *pg, struct mono_time deadline)
{
    for (int i = 0; i < CLOCK_ROUND_TRIPS; i++) {
        struct pg_result *result = NULL;
        struct mono_time sent = mono_now();
        if (pg_run_text(pg, "SELECT clock_timestamp()", 0, NULL, deadline, &result) != PG_DONE) {
            return false;
        }
        db_clock_observe(pg->clock, sent, mono_now(), pg_get_time(result, 0, 0));
        pg_result_free(&result);
    }
    pg->clock_at = mono_now();
    return true;
}

bool
pg_session_open(struct pg *pg, struct mono_time deadline)
{
    memset(pg->prepared, 0, sizeof(pg->prepared));
    return set_up(pg, deadline) && read_identity(pg, deadline) &&
           prepare_statements(pg, STATEMENT_INSERT_BATCH, STATEMENT_INSERT_BATCH + 1, deadline) &&
           pg_session_observe_clock(pg, deadline);
}
