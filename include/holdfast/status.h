/*
 * status.h - what became of a request: one enum for the whole server.
 *
 * Threads: any; everything here is constant.
 */
#ifndef HOLDFAST_STATUS_H
#define HOLDFAST_STATUS_H

#include <stdbool.h>

enum hf_status {
#define STATUS(name, http, code, text) HF_##name,
#include "holdfast/status.def"
#undef STATUS
    HF_STATUS_COUNT
};

int status_http(enum hf_status status);         /* 200, 409, ... */
const char *status_code(enum hf_status status); /* "seat_taken" */
const char *status_text(enum hf_status status); /* a sentence for a person */

/* Finds the status of a public code. False: there is none. */
bool status_from_code(const char *code, enum hf_status *status);

#endif
