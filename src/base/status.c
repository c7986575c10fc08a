/*
 * status.c - the rows of status.def as constant tables.
 */
#include "holdfast/status.h"

#include <stddef.h>
#include <string.h>

#include "holdfast/assert.h"

struct status_row {
    int http;
    const char *code;
    const char *text;
};

static const struct status_row rows[HF_STATUS_COUNT] = {
#define STATUS(name, http, code, text) [HF_##name] = { http, code, text },
#include "holdfast/status.def"
#undef STATUS
};

static const struct status_row *
status_row(enum hf_status status)
{
    hf_assert((unsigned)status < HF_STATUS_COUNT);
    return &rows[status];
}

int
status_http(enum hf_status status)
{
    return status_row(status)->http;
}

const char *
status_code(enum hf_status status)
{
    return status_row(status)->code;
}

const char *
status_text(enum hf_status status)
{
    return status_row(status)->text;
}

bool
status_from_code(const char *code, enum hf_status *status)
{
    for (size_t i = 0; i < HF_STATUS_COUNT; i++) {
        if (strcmp(rows[i].code, code) == 0) {
            *status = (enum hf_status)i;
            return true;
        }
    }
    return false;
}
