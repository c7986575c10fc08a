/*
 * openapi.c - GET /openapi.json: the description of every route, as kept in openapi.json.
 */
#include "openapi.h"

#include "api_internal.h"

void
openapi_get(struct api *api, struct api_call *call)
{
    struct buf body = { 0 };

    (void)api;
    buf_append_text(&body, openapi_files[0].text);
    respond_header(call, "Cache-Control", SLICE_LITERAL("max-age=300"));
    respond_json(call, 200, &body);
}
