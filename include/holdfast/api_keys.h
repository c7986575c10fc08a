/*
 * api_keys.h - which organization a front end speaks for: X-Api-Key against the setting api_keys.
 *
 * Callers:  api (logins), main (check-config).
 * Threads:  constant after start: any.
 * Memory:   keeps digests, never the keys.
 * Limits:   API_KEYS_MAX pairs; several keys of one organization are fine (rotation).
 */
#ifndef HOLDFAST_API_KEYS_H
#define HOLDFAST_API_KEYS_H

#include <stdbool.h>
#include <stddef.h>

#include "holdfast/assert.h"
#include "holdfast/config.h"
#include "holdfast/slice.h"

#define API_KEYS_MAX 1024

struct api_keys; /* opaque */

/* From config->api_keys. NULL: error says which pair is wrong, without its key. */
HF_MUST_CHECK struct api_keys *api_keys_new(const struct config *config, char *error,
                                            size_t error_bytes);
/* Takes the keys; *keys becomes NULL. NULL is fine. */
void api_keys_free(struct api_keys **keys);

/* The organization of `key`; NULL: nobody's. Takes as long whichever of the keys it is, and for
 * none. */
const char *api_keys_find(const struct api_keys *keys, struct slice key);

/* Whether the settings will do. False: error says why. */
HF_MUST_CHECK bool api_keys_check(const struct config *config, char *error, size_t error_bytes);

#endif
