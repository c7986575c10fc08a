/*
 * outgoing.h - what our requests to other servers have in common: which URLs they go to, and how.
 *
 * Only http and https; redirects are not followed, certificates are verified (libcurl's default),
 * proxies of the environment are not used: who is asked is who the settings name.
 *
 * Callers:  payments, baggage. Threads: any. Memory: values only.
 */
#ifndef HOLDFAST_OUTGOING_H
#define HOLDFAST_OUTGOING_H

#include <stdbool.h>

#include <curl/curl.h>

#include "holdfast/assert.h"

/*
 * An http or https URL without a user or a password, which would stand in every log line with it.
 * may_have_query: a query or a fragment, too, unless something is to be written behind it.
 */
HF_MUST_CHECK bool outgoing_url_is_good(const char *text, bool may_have_query);

/* All but what is asked. It connects within a part of the time, if that is long. False: no memory.
 */
HF_MUST_CHECK bool outgoing_set_manners(CURL *easy, long timeout_ms);

#endif
