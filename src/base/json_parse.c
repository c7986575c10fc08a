/*
 * json_parse.c - the strict scanner first, then cJSON for the tree.
 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <math.h>

#include "holdfast/json.h"

/*
 * Beyond this a double no longer tells a whole number from its neighbour:
 * 2^53 may have been 2^53 + 1 in the text.
 */
#define JSON_INT_MAX 9007199254740991.0

/* cJSON 1.7.15 without its distribution's patches cuts a number after 63 characters. */
static bool
is_blank(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r'))
        at++;
    return at == end;
}

struct cJSON *
json_parse(struct slice text, struct json_error *error)
{
    const char *stop = NULL;

    if (!json_scan(text, error))
        return NULL;

    errno = 0;
    cJSON *tree = cJSON_ParseWithLengthOpts(text.ptr, text.len, &stop, false);
    if (tree != NULL && is_blank(stop, text.ptr + text.len))
        return tree;
    /* Such numbers are all that the scanner passes and some cJSON doesn't take whole. */
    error->offset = stop != NULL ? (size_t)(stop - text.ptr) : 0;
    error->reason = errno == ENOMEM ? "out of memory" : "a number has too many digits";
    cJSON_Delete(tree);
    return NULL;
}

bool
json_is_int(const struct cJSON *item, int64_t min, int64_t max, int64_t *value)
{
    if (!cJSON_IsNumber(item))
        return false;
    double number = item->valuedouble;
    if (!isfinite(number) || number != trunc(number) || fabs(number) > JSON_INT_MAX)
        return false;

    int64_t whole = (int64_t)number;
    if (whole < min || whole > max)
        return false;
    *value = whole;
    return true;
}
