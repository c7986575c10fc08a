/*
 * openapi.h - openapi.json, embedded by the build (openapi.cmake).
 */
#ifndef HOLDFAST_OPENAPI_H
#define HOLDFAST_OPENAPI_H

struct embedded_text {
    const char *name;
    const char *text;
};

extern const struct embedded_text openapi_files[1];

#endif
