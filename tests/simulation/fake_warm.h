/*
 * fake_warm.h - what the world does to the fake Redis.
 */
#ifndef HOLDFAST_SIM_FAKE_WARM_H
#define HOLDFAST_SIM_FAKE_WARM_H

#include <stdbool.h>
#include <stdint.h>

void redis_goes_away(int64_t us);
void redis_is_wiped(void);

#endif
