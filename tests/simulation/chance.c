/*
 * chance.c - the only dice of the simulation: splitmix64 (Steele, Lea, Flood 2014).
 */
#include "sim.h"

static uint64_t state;

void
chance_seed(uint64_t seed)
{
    state = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
}

uint64_t
chance_next(void)
{
    uint64_t z = state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

int64_t
chance_below(int64_t n)
{
    return n <= 1 ? 0 : (int64_t)(chance_next() % (uint64_t)n);
}

int64_t
chance_between(int64_t least, int64_t most)
{
    return least + chance_below(most - least + 1);
}

bool
chance_one_in(int64_t n)
{
    return n > 0 && chance_below(n) == 0;
}

int64_t
chance_delay(int64_t usual_us, int64_t most_us)
{
    return chance_one_in(25) ? chance_between(0, most_us) : chance_between(usual_us / 4, usual_us);
}
