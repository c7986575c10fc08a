/*
 * decimal.h - decimal numbers as hundredths, exactly: what is compared with a limit never passes
 * through a binary fraction.
 *
 * Threads: any; no state.
 */
#ifndef HOLDFAST_DECIMAL_H
#define HOLDFAST_DECIMAL_H

#include <stdbool.h>
#include <stdint.h>

#include "holdfast/assert.h"
#include "holdfast/slice.h"

#define HUNDREDTHS_MAX INT64_C(1000000000000)

/*
 * A number as JSON writes it ("25", "25.01", "2.5e1") in hundredths, rounded up: 25.001 is more
 * than 25, and stays so. What is above HUNDREDTHS_MAX is that. False: it is below zero, or no
 * number.
 */
HF_MUST_CHECK bool decimal_hundredths_up(struct slice text, int64_t *hundredths);

#endif
