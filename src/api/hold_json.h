/*
 * hold_json.h - a hold as every answer shows it.
 */
#ifndef HOLDFAST_HOLD_JSON_H
#define HOLDFAST_HOLD_JSON_H

#include "holdfast/json.h"
#include "holdfast/op.h"

/* Appends the object of API.md, `hold`. */
void hold_json_write(struct json_writer *w, const struct hold_view *hold);
/* Its tickets, as elements of a list that is open. */
void hold_json_tickets(struct json_writer *w, const struct hold_view *hold);

#endif
