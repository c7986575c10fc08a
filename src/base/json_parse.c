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

struct cJSON *
json_parse(struct slice text, struct json_error *error)
{
    if (!json_scan(text, error))
        return NULL;

    errno = 0;
    cJSON *tree = cJSON_ParseWithLength(text.ptr, text.len);
    if (tree == NULL) {
        /* Of what the scanner passes, cJSON refuses only numbers of 64 characters and more. */
        error->offset = 0;
        error->reason = errno == ENOMEM ? "out of memory" : "a number has too many digits";
    }
    return tree;
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
