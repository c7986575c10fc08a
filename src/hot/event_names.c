/* event_names.c - see event_names.h. */
#include "event_names.h"

#include <stdlib.h>
#include <string.h>

#include "seat_hash.h"

#define NUMBERS_FIRST 8u

struct event_name {
    UT_hash_handle hh;
    uint32_t number;
    uint32_t references;
    uint16_t org_bytes;
    uint16_t text_bytes;
    char text[]; /* org, NUL, event */
};

void
event_names_init(struct event_names *names)
{
    *names = (struct event_names){ 0 };
}

void
event_names_fini(struct event_names *names)
{
    struct event_name *name, *next;
    HASH_ITER(hh, names->by_text, name, next)
    {
        HASH_DEL(names->by_text, name);
        free(name);
    }
    free(names->by_number);
    event_names_init(names);
}

static struct event_name *
name_find(const struct event_names *names, struct slice text)
{
    struct event_name *name;
    HASH_FIND(hh, names->by_text, text.ptr, text.len, name);
    return name;
}

bool
event_names_find(const struct event_names *names, struct slice text, uint32_t *number)
{
    const struct event_name *name = name_find(names, text);
    if (name == NULL) {
        return false;
    }
    *number = name->number;
    return true;
}

/* Doubles by_number if all of it is in use. False: no memory. */
static bool
numbers_reserve(struct event_names *names)
{
    if (names->first_free < names->numbers) {
        return true;
    }
    uint32_t wanted = names->numbers == 0 ? NUMBERS_FIRST : names->numbers * 2;
    struct event_slot *by_number = realloc(names->by_number, wanted * sizeof(*by_number));
    if (by_number == NULL) {
        return false;
    }
    for (uint32_t number = names->numbers; number < wanted; number++) {
        by_number[number] = (struct event_slot){ .next_free = number + 1 };
    }
    names->by_number = by_number;
    names->numbers = wanted;
    return true;
}

/* Needs numbers_reserve before. */
static uint32_t
number_take(struct event_names *names, struct event_name *name)
{
    uint32_t number = names->first_free;
    struct event_slot *slot = &names->by_number[number];
    names->first_free = slot->next_free;
    slot->name = name;
    return number;
}

static void
number_give(struct event_names *names, uint32_t number)
{
    names->by_number[number] = (struct event_slot){ .next_free = names->first_free };
    names->first_free = number;
}

/* A new name without references; NULL: no memory. */
static struct event_name *
name_add(struct event_names *names, struct slice text)
{
    const char *nul = memchr(text.ptr, '\0', text.len);
    hf_assert(nul != NULL && text.len <= UINT16_MAX);
    struct event_name *name = calloc(1, sizeof(*name) + text.len);
    if (name == NULL) {
        return NULL;
    }
    name->org_bytes = (uint16_t)(nul - text.ptr);
    name->text_bytes = (uint16_t)text.len;
    memcpy(name->text, text.ptr, text.len);
    if (!numbers_reserve(names)) {
        goto no_memory;
    }
    HASH_ADD_KEYPTR(hh, names->by_text, name->text, name->text_bytes, name);
    if (name->hh.tbl == NULL) {
        goto no_memory;
    }
    name->number = number_take(names, name);
    return name;

no_memory:
    free(name);
    return NULL;
}

bool
event_names_get(struct event_names *names, struct slice text, uint32_t *number)
{
    struct event_name *name = name_find(names, text);
    if (name == NULL) {
        name = name_add(names, text);
    }
    if (name == NULL) {
        return false;
    }
    name->references++;
    *number = name->number;
    return true;
}

static struct event_name *
name_of(const struct event_names *names, uint32_t number)
{
    hf_assert(number < names->numbers && names->by_number[number].name != NULL);
    return names->by_number[number].name;
}

void
event_names_put(struct event_names *names, uint32_t number)
{
    struct event_name *name = name_of(names, number);
    hf_assert(name->references > 0);
    name->references--;
    if (name->references > 0) {
        return;
    }
    number_give(names, number);
    HASH_DEL(names->by_text, name);
    free(name);
}

void
event_names_tell(const struct event_names *names, uint32_t number, struct slice *org,
                 struct slice *event)
{
    const struct event_name *name = name_of(names, number);
    *org = (struct slice){ name->text, name->org_bytes };
    *event = (struct slice){ name->text + name->org_bytes + 1,
                             (size_t)name->text_bytes - name->org_bytes - 1 };
}

uint32_t
event_names_references(const struct event_names *names, uint32_t number)
{
    if (number >= names->numbers || names->by_number[number].name == NULL) {
        return 0;
    }
    return names->by_number[number].name->references;
}
