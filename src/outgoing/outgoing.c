/*
 * outgoing.c - URLs that may be asked, and libcurl's options that are the same whoever asks.
 */
#include "holdfast/outgoing.h"

#include <string.h>

#define CONNECT_MS_MAX 2000 /* soon enough for a caller to hear that nothing was asked */

static bool
has_part(CURLU *url, CURLUPart part)
{
    char *text = NULL;
    bool has = curl_url_get(url, part, &text, 0) == CURLUE_OK;

    curl_free(text);
    return has;
}

static bool
is_http(CURLU *url)
{
    char *scheme = NULL;
    bool is = curl_url_get(url, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
              (strcmp(scheme, "https") == 0 || strcmp(scheme, "http") == 0);

    curl_free(scheme);
    return is;
}

bool
outgoing_url_is_good(const char *text, bool may_have_query)
{
    CURLU *url = curl_url();
    bool good = url != NULL && curl_url_set(url, CURLUPART_URL, text, 0) == CURLUE_OK &&
                is_http(url) && !has_part(url, CURLUPART_USER) &&
                !has_part(url, CURLUPART_PASSWORD);

    if (good && !may_have_query)
        good = !has_part(url, CURLUPART_QUERY) && !has_part(url, CURLUPART_FRAGMENT);
    curl_url_cleanup(url);
    return good;
}

bool
outgoing_set_manners(CURL *easy, long timeout_ms)
{
    long connect_ms = timeout_ms < CONNECT_MS_MAX ? timeout_ms : CONNECT_MS_MAX;

    return curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PROXY, "") == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_USERAGENT, "holdfast/" HOLDFAST_VERSION) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, timeout_ms) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, connect_ms) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
           /* A name that takes its time to be found must not stop the thread when its call ends. */
           curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L) == CURLE_OK;
}
