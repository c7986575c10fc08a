/*
 * audit_page.h - a page of the audit log: what a request asks for, and the answer around its
 * entries. For audit_api.c and seat_events.c, which say what an entry is.
 */
#ifndef HOLDFAST_AUDIT_PAGE_H
#define HOLDFAST_AUDIT_PAGE_H

#include "api_internal.h"
#include "audit_search.h"

struct json_writer;

/* `from`, `to`, `after` and `limit` of the query. False: refused, the call is gone. */
HF_MUST_CHECK bool audit_page_read(struct api_call *call, struct audit_question *question);

/* Searches; once more on a new connection when the old one turned out to be dead. */
HF_MUST_CHECK enum pg_outcome audit_page_find(struct api_call *call, struct desk_tools *tools,
                                              const struct audit_question *question,
                                              struct audit_found *found);

/* {"<name>": [entries], "next"?: where the next page begins} */
typedef void audit_page_entry(struct json_writer *w, const struct pg_result *rows, int row);
void audit_page_answer(struct api_call *call, const struct audit_found *found, const char *name,
                       audit_page_entry *write);

#endif
