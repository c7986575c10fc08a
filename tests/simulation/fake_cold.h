/*
 * fake_cold.h - what the world does to connections to the fake Postgres.
 */
#ifndef HOLDFAST_SIM_FAKE_COLD_H
#define HOLDFAST_SIM_FAKE_COLD_H

#include <stdbool.h>
#include <stdint.h>

/* The node of this group is gone: its sockets close. */
void cold_cut_group(int group);
/* Postgres ends, or another one answers: every session dies, and with it what has not committed. */
void cold_restart(int64_t away_us, bool another);
/* Nobody reaches Postgres for a while; what it is doing it goes on doing. */
void cold_partition(int64_t away_us);
/* Somebody ends one session (pg_terminate_backend). */
void cold_end_one_session(void);

#endif
