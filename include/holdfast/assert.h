/*
 * assert.h - what cannot happen, checked also in release.
 *
 * Invariants of our own code only: bytes from a client, a peer, Redis,
 * Postgres or a file get a status, never an assertion.
 */
#ifndef HOLDFAST_ASSERT_H
#define HOLDFAST_ASSERT_H

#define HF_MUST_CHECK                 __attribute__((warn_unused_result))
#define HF_PRINTF(format_at, args_at) __attribute__((format(printf, format_at, args_at)))

/* Logs the broken invariant with its place, and aborts. */
_Noreturn void hf_assert_failed(const char *what, const char *file, int line);

#define hf_assert(condition)                                                                       \
    ((condition) ? (void)0 : hf_assert_failed(#condition, __FILE__, __LINE__))

/* For start-up calls that return 0 when they succeed and have no other way to go. */
#define hf_must(call) ((call) == 0 ? (void)0 : hf_assert_failed(#call, __FILE__, __LINE__))

/* Objects that pass through a `void *` begin with a magic word. */
#define HF_MAGIC_CHECK(object, word) hf_assert((object) != NULL && (object)->magic == (word))

#endif
