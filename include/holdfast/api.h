/*
 * api.h - HTTP in, JSON out: routes, tokens, limits, and the handlers behind them.
 *
 * Callers:  main makes it and gives its http_handler to the acceptor.
 * Threads:  the handler's functions run on loop threads and never block;
 *           api_set_phase from any thread.
 * Memory:   the api owns token keys and rate limits; `node` must outlive it.
 *           Free it when the acceptor has stopped.
 */
#ifndef HOLDFAST_API_H
#define HOLDFAST_API_H

#include <stddef.h>
#include <stdint.h>

#include "holdfast/assert.h"
#include "holdfast/engine.h"
#include "holdfast/http.h"

struct api; /* opaque */

enum api_phase {
    API_STARTING, /* /ready says 503 */
    API_SERVING,
    API_DRAINING, /* /ready says 503; everything else is answered as before */
    API_CLOSED    /* every request is refused as draining: engine and desk may go */
};

/* NULL: error says why (a bad key, a bad trusted proxy, no memory). */
HF_MUST_CHECK struct api *api_new(struct node *node, char *error, size_t error_bytes);
void api_free(struct api **api);

/* What the acceptor asks; valid as long as the api. */
struct http_handler api_http_handler(struct api *api);

void api_set_phase(struct api *api, enum api_phase phase);

/*
 * Calls whose answer hasn't been given to the acceptor yet. Once API_CLOSED is set and this
 * is 0, no call will touch the engine or the desk any more.
 */
int64_t api_unanswered(const struct api *api);

#endif
