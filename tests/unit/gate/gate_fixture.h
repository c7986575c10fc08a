/*
 * gate_fixture.h - what the tests of the gate share: a config, and the vectors
 * of corpora/jws. Include after cmocka.h.
 */
#ifndef HOLDFAST_TEST_GATE_FIXTURE_H
#define HOLDFAST_TEST_GATE_FIXTURE_H

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "holdfast/config.h"
#include "holdfast/json.h"

/* The settings that the gate reads, at their defaults; text fields are literals. */
static inline struct config
gate_config(void)
{
    struct config config;

    memset(&config, 0, sizeof(config));
    config.jwt_secret = (char *)(uintptr_t) "";
    config.jwt_keys_file = (char *)(uintptr_t) "";
    config.rate_limits = true;
    config.rate_general_per_min = 60;
    config.rate_holds_per_min = 20;
    config.rate_burst_per_5s = 100;
    config.rate_maps_per_2s = 10;
    config.block_duration = INT64_C(3600) * 1000000;
    return config;
}

/* The Wycheproof vectors as a tree (cJSON_Delete); skips the test when they are absent. */
static inline cJSON *
jws_corpus(void)
{
    const char *root = getenv("HOLDFAST_CORPORA");
    char path[PATH_MAX];
    struct buf text = { 0 };
    char chunk[65536];
    size_t len;
    struct json_error error = { 0, "" };
    cJSON *tree;
    FILE *file;

    snprintf(path, sizeof(path), "%s/jws/json_web_signature_test.json",
             root != NULL ? root : HOLDFAST_CORPORA);
    file = fopen(path, "rb");
    if (file == NULL) {
        print_message("no %s (set HOLDFAST_CORPORA): nothing judged\n", path);
        skip();
    }
    while ((len = fread(chunk, 1, sizeof(chunk), file)) > 0)
        buf_append(&text, chunk, len);
    fclose(file);
    tree = json_parse(buf_slice(&text), &error);
    buf_fini(&text);
    assert_non_null(tree);
    return tree;
}

/* What is a member of `object`; asserts that it is there. */
static inline cJSON *
member(const cJSON *object, const char *name)
{
    cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);

    assert_non_null(item);
    return item;
}

#endif
