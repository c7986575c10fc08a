/*
 * sqlstate.c - what Postgres' error codes mean to holdfast. Nothing outside of here compares them,
 * save settle.c, whose question is a unique_violation.
 */
#include "cold_internal.h"

#include <string.h>

struct state {
    const char *prefix; /* a class (two characters) or a whole SQLSTATE */
    enum pg_outcome outcome;
};

/* The first match counts, so whole states stand before their class. */
static const struct state states[] = {
    { "22", PG_DATA_ERROR },     /* data exception */
    { "23", PG_DATA_ERROR },     /* integrity constraint violation */
    { "P0", PG_DATA_ERROR },     /* raised by our own functions */
    { "40", PG_REPEAT },         /* deadlock, serialization failure */
    { "55P03", PG_REPEAT },      /* lock_not_available: lock_timeout */
    { "57014", PG_REPEAT },      /* query_canceled: statement_timeout */
    { "0A000", PG_REPEAT },      /* "cached plan must not change result type", after a migration */
    { "26", PG_REPEAT },         /* a prepared statement is gone: DISCARD ALL, a pooler */
    { "08", PG_UNAVAILABLE },    /* connection exception */
    { "53", PG_UNAVAILABLE },    /* out of memory, disk, connections */
    { "57", PG_UNAVAILABLE },    /* shutdown, crash, starting up */
    { "58", PG_UNAVAILABLE },    /* I/O error below the server */
    { "25006", PG_UNAVAILABLE }, /* read-only: this server is a standby now */
    { "25P03", PG_UNAVAILABLE }, /* idle in transaction for too long: this process stood still */
};

enum pg_outcome
pg_classify(const char *sqlstate)
{
    if (sqlstate == NULL || sqlstate[0] == '\0') {
        return PG_UNAVAILABLE;
    }
    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
        if (strncmp(sqlstate, states[i].prefix, strlen(states[i].prefix)) == 0) {
            return states[i].outcome;
        }
    }
    return PG_BUG;
}

bool
pg_sqlstate_spoils_session(const char *sqlstate)
{
    return strcmp(sqlstate, "25006") == 0 || strcmp(sqlstate, "0A000") == 0 ||
           strncmp(sqlstate, "26", 2) == 0;
}

static const char *
skip_comment(const char *sql)
{
    const char *end = strchr(sql, '\n');
    return end != NULL ? end : sql + strlen(sql);
}

bool
pg_sql_writes(const char *sql)
{
    static const char *const words[] = { "INSERT INTO ", "DELETE FROM ", "UPDATE " };

    for (; *sql != '\0'; sql++) {
        if (sql[0] == '-' && sql[1] == '-') {
            sql = skip_comment(sql);
            if (*sql == '\0') {
                return false;
            }
            continue;
        }
        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
            size_t len = strlen(words[i]);
            /* "FOR UPDATE OF s" locks: our statements write table names in lower case. */
            if (strncmp(sql, words[i], len) == 0 && sql[len] >= 'a' && sql[len] <= 'z') {
                return true;
            }
        }
    }
    return false;
}
