/*
 * warm_internal.h - what the files of the warm room share.
 *
 * keys.c builds every key, values.c what stands under them, address.c reads redis_url,
 * link.c owns the connection, warm.c is the contract.
 */
#ifndef HOLDFAST_WARM_INTERNAL_H
#define HOLDFAST_WARM_INTERNAL_H

#include "holdfast/buf.h"
#include "holdfast/warm.h"

#include "scripts.h" /* enum warm_script, by db/embed.cmake */

struct warm_script_text {
    const char *name;
    const char *lua;
};
extern const struct warm_script_text warm_scripts[SCRIPT_COUNT];

/* --- keys.c: the only place that builds keys ------------------------------ */

/* Each appends one key to `out`, which it does not clear. */
void warm_key_seat(struct buf *out, struct slice org, struct slice event, struct slice seat);
void warm_key_seat_holds(struct buf *out, struct slice org, struct slice event);
void warm_key_hold_meta(struct buf *out, struct slice org, struct slice event,
                        const struct uuid *hold_id);

#endif
