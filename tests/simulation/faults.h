/*
 * faults.h - how unkind this seed is. Drawn once; zero means never (one in 0).
 */
#ifndef HOLDFAST_SIM_FAULTS_H
#define HOLDFAST_SIM_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

struct faults {
    /* one in so many */
    int64_t cut_one_in;         /* round trips to Postgres: the connection breaks meanwhile */
    int64_t cut_commit_one_in;  /* the same for those that carry a COMMIT */
    int64_t silent_one_in;      /* cuts: nobody is told, the client waits until its deadline */
    int64_t stall_one_in;       /* messages: the server stands still before it looks at one */
    int64_t repeat_one_in;      /* statements of a transaction: 40P01, the same again may work */
    int64_t data_error_one_in;  /* the same: P0001 */
    int64_t redis_fails_one_in; /* uses of Redis: no answer in time */
    /* copies of a message, each to one subscription */
    int64_t message_lost_one_in, message_twice_one_in, message_overtaken_one_in;

    /* at most so long */
    int64_t trip_us;       /* there or back */
    int64_t stall_us;      /* of the server */
    int64_t outlive_us;    /* a backend works on after its connection was cut */
    int64_t redis_trip_us; /* there and back */
    int64_t message_us;    /* from Redis to a subscription */

    /* now and then */
    bool store_goes, fails_over, nodes_die, nodes_drain, rival_comes, redis_goes, event_moves;
    bool redis_loses_one, subscriptions_break, nodes_stand_still;
};
extern struct faults faults;

/* Draws them from the seed, for so many nodes. Calm: delays and repetitions only, nothing is
 * lost. */
void faults_draw(int nodes, bool calm);
/* From now on the world is kind: to see that all comes to rest. */
void faults_end(void);
/* The fibers that bring them (chaos.c); they end with faults_end. */
void chaos_start(void);

#endif
