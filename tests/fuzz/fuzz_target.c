#include "task/target.h"
#include "task/task.h"
#include <arpa/inet.h>
#include <assert.h>
#include <curl/urlapi.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Any bytes as a URL. What is accepted must be read by libcurl as http or https without user info, must be the given
 * text up to a fragment, must be accepted again as it is, and must not have the literal of an address that the
 * resolver would take for loopback. */

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void check_parts(const char *clean)
{
    CURLU *url = curl_url();
    char *scheme = NULL;
    char *host = NULL;
    char *user = NULL;
    struct in_addr four;

    assert(curl_url_set(url, CURLUPART_URL, clean, CURLU_PATH_AS_IS) == CURLUE_OK);
    assert(curl_url_get(url, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK);
    assert(curl_url_get(url, CURLUPART_HOST, &host, 0) == CURLUE_OK);
    assert(curl_url_get(url, CURLUPART_USER, &user, 0) == CURLUE_NO_USER);
    assert(strcasecmp(scheme, "http") == 0 || strcasecmp(scheme, "https") == 0);
    assert(host[0] != '\0' && strcasecmp(host, "localhost") != 0);
    assert(inet_aton(host, &four) == 0 || ntohl(four.s_addr) >> 24 != 127);
    curl_free(scheme);
    curl_free(host);
    curl_free(user);
    curl_url_cleanup(url);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    static const struct cidr_list nothing_allowed = {0};
    const char *given = (const char *)data;
    char detail[TARGET_DETAIL_SIZE];
    char *clean = NULL;
    char *again = NULL;

    if (!target_check(given, size, &nothing_allowed, &clean, detail)) {
        assert(!clean && detail[0] != '\0' && strnlen(detail, sizeof(detail)) < sizeof(detail));
        return 0;
    }
    size_t n = strlen(clean);

    assert(n <= size && n <= TASK_URL_MAX && memcmp(clean, given, n) == 0);
    assert(n == size || given[n] == '#');
    check_parts(clean);
    assert(target_check(clean, n, &nothing_allowed, &again, detail) && strcmp(clean, again) == 0);
    free(clean);
    free(again);
    return 0;
}
