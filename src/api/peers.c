/*
 * peers.c - what this node says about the others that it hears: in /metrics, /ready and the
 * registry.
 */
#include "api_internal.h"
#include "holdfast/fanout.h"
#include "holdfast/json.h"

/* --- /metrics ------------------------------------------------------------------------- */

static void
write_seconds(struct buf *out, int64_t us)
{
    if (us < 0)
        buf_append_text(out, "NaN"); /* never heard */
    else
        buf_printf(out, "%.6f", (double)us / TIME_US_PER_S);
}

static void
write_lag(struct buf *out, const struct fanout_peer *peer)
{
    write_seconds(out, peer->lag_us);
}

static void
write_silence(struct buf *out, const struct fanout_peer *peer)
{
    write_seconds(out, peer->silent_us);
}

static void
write_gaps(struct buf *out, const struct fanout_peer *peer)
{
    buf_append_int(out, peer->gaps);
}

static void
write_number(struct buf *out, const struct fanout_peer *peer)
{
    buf_append_int(out, (long long)peer->number);
}

static void
write_heard(struct buf *out, const struct fanout_peer *peer)
{
    buf_append_int(out, peer->heard);
}

static const struct {
    const char *name, *type, *help;
    void (*write)(struct buf *out, const struct fanout_peer *peer);
} metrics[] = {
    { "peer_heard", "gauge", "1 while the peer speaks and is in no doubt", write_heard },
    { "peer_lag_seconds", "gauge", "Age of the peer's last message when it was heard", write_lag },
    { "peer_silent_seconds", "gauge", "Since the peer was last heard", write_silence },
    { "peer_gaps_total", "counter", "Times that messages of the peer were missed", write_gaps },
    { "peer_records_total", "counter", "The peer's last transaction that this node knows of",
      write_number },
};

void
peers_write_metrics(struct buf *out, struct fanout *fanout)
{
    struct fanout_peer peers[FEED_NODES_MAX];
    int count = fanout != NULL ? fanout_peers(fanout, peers, FEED_NODES_MAX) : 0;

    for (size_t m = 0; count > 0 && m < sizeof(metrics) / sizeof(metrics[0]); m++) {
        buf_printf(out, "# HELP holdfast_%s %s\n# TYPE holdfast_%s %s\n", metrics[m].name,
                   metrics[m].help, metrics[m].name, metrics[m].type);
        for (int i = 0; i < count; i++) {
            buf_printf(out, "holdfast_%s{peer=\"%s\",incarnation=\"%lld\"} ", metrics[m].name,
                       peers[i].id, (long long)peers[i].incarnation);
            metrics[m].write(out, &peers[i]);
            buf_append_char(out, '\n');
        }
    }
}

/* --- /ready and the registry -------------------------------------------------------------- */

void
peers_write_summary(struct json_writer *w, struct fanout *fanout)
{
    struct fanout_peer peers[FEED_NODES_MAX];
    int count = fanout_peers(fanout, peers, FEED_NODES_MAX), heard = 0;

    for (int i = 0; i < count; i++)
        heard += peers[i].heard;
    json_field_bool(w, "trusted", fanout_is_trusted(fanout));
    json_field_int(w, "peers_known", count);
    json_field_int(w, "peers_heard", heard);
}

void
peers_write_one(struct json_writer *w, struct fanout *fanout, int64_t incarnation)
{
    struct fanout_peer peers[FEED_NODES_MAX], peer = { .lag_us = -1 };
    int count = fanout_peers(fanout, peers, FEED_NODES_MAX);

    for (int i = 0; i < count; i++)
        if (peers[i].incarnation == incarnation)
            peer = peers[i];
    json_field_bool(w, "heard", peer.heard);
    json_name(w, "lag_ms");
    if (peer.lag_us < 0)
        json_null(w);
    else
        json_double(w, (double)peer.lag_us / TIME_US_PER_MS, 3);
    json_field_int(w, "gaps", peer.gaps);
    json_field_int(w, "number", (int64_t)peer.number);
}
