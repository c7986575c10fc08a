/*
 * fuzz_signature.c - the Holdfast-Signature of strangers' webhooks.
 *
 * The text up to the first NUL is the header, what follows the body. Nobody is let in without the
 * secret, and a good signature stays good whatever schemes of others stand around it.
 */
#include <stdint.h>
#include <string.h>

#include "holdfast/assert.h"
#include "holdfast/buf.h"
#include "holdfast/signature.h"

#define SECRETS "a secret that the fuzzer can't guess,and the one before it"
#define NOW     1700000000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A second time in the header makes it bad. */
static bool
has_time(struct slice text)
{
    for (size_t i = 0; i + 1 < text.len; i++) {
        if (text.ptr[i] == 't' && text.ptr[i + 1] == '=' && (i == 0 || text.ptr[i - 1] == ','))
            return true;
    }
    return false;
}

static void
fuzz_around_a_good_one(struct slice junk, struct slice body)
{
    char made[SIGNATURE_BYTES];
    struct buf header = { 0 };

    hf_assert(signature_make(slice_of("and the one before it"), NOW, body, made));
    buf_append_slice(&header, junk);
    buf_append_char(&header, ',');
    buf_append_text(&header, made);
    if (!header.failed)
        hf_assert(signature_is_good(slice_of(SECRETS), NOW, buf_slice(&header), body) !=
                  has_time(junk));
    buf_fini(&header);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice header = { (const char *)data, strnlen((const char *)data, size) };
    struct slice body = SLICE_EMPTY;

    if (header.len < size)
        body = (struct slice){ header.ptr + header.len + 1, size - header.len - 1 };
    hf_assert(!signature_is_good(slice_of(SECRETS), NOW, header, body));
    fuzz_around_a_good_one(header, body);
    return 0;
}
