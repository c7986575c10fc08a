/*
 * fuzz_json.c - the strict scanner, and what it promises about the tree.
 *
 * Beside not crashing: what json_scan takes, cJSON must be able to build (but
 * for numbers of more than 63 characters, which it cuts), and what is written
 * from that tree must be strict JSON again.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "holdfast/assert.h"
#include "holdfast/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* cJSON copies a number into 64 bytes, and takes what follows for something else. */
static bool
has_long_number(const uint8_t *data, size_t size)
{
    size_t run = 0;

    for (size_t i = 0; i < size; i++) {
        run = data[i] != 0 && strchr("0123456789+-eE.", data[i]) != NULL ? run + 1 : 0;
        if (run > 60)
            return true;
    }
    return false;
}

static bool
has_infinite_number(const cJSON *item)
{
    for (; item != NULL; item = item->next) {
        if (cJSON_IsNumber(item) && item->valuedouble - item->valuedouble != 0)
            return true;
        if (has_infinite_number(item->child))
            return true;
    }
    return false;
}

static void
check_round_trip(const cJSON *tree)
{
    struct json_error error;
    char *text;

    if (has_infinite_number(tree))
        return; /* 1e999 is JSON, but no double */
    text = cJSON_PrintUnformatted(tree);
    hf_assert(text != NULL);
    hf_assert(json_scan(slice_of(text), &error));
    free(text);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice text = { (const char *)data, size };
    struct json_error error = { 0, NULL };
    cJSON *tree;

    if (!json_scan(text, &error)) {
        hf_assert(error.reason != NULL && error.offset <= size);
        hf_assert(json_parse(text, &error) == NULL);
        return 0;
    }
    tree = json_parse(text, &error);
    hf_assert(tree != NULL || has_long_number(data, size));
    if (tree != NULL)
        check_round_trip(tree);
    cJSON_Delete(tree);
    return 0;
}
