#include "deliver/phases_priv.h"

/* libcurl gives the moment each phase was completed, counted from its own start: 0 when it was not, and on a connection
 * used before whatever its version thinks fit, so those are not asked for there. Of
 * a connection that never stood, because TLS failed, it does not tell when TCP did. */

static int64_t moment_us(const struct attempt *a, CURLINFO info)
{
    curl_off_t us = 0;

    return curl_easy_getinfo(a->easy, info, &us) == CURLE_OK ? (int64_t)us : 0;
}

/* The time since the last completed phase, which this one becomes; none when it was not completed. */
static int64_t phase_us(int64_t at_us, int64_t *last_us)
{
    int64_t took_us = at_us - *last_us;

    if (at_us <= 0)
        return TASK_TIME_NONE;
    if (took_us > 0)
        *last_us = at_us;
    return took_us > 0 ? took_us : 0;
}

void phases_read(const struct attempt *a, struct task_phases *out)
{
    int64_t last_us = 0;

    *out = (struct task_phases)TASK_PHASES_NONE;
    if (a->is_new_connection) {
        int64_t waited_us = a->launched_mono_us - a->started_mono_us;

        out->dns_us = phase_us(moment_us(a, CURLINFO_NAMELOOKUP_TIME_T), &last_us);
        if (out->dns_us >= 0)
            out->dns_us += waited_us;
        out->connect_us = phase_us(moment_us(a, CURLINFO_CONNECT_TIME_T), &last_us);
        out->tls_us = phase_us(moment_us(a, CURLINFO_APPCONNECT_TIME_T), &last_us);
    } else {
        last_us = moment_us(a, CURLINFO_PRETRANSFER_TIME_T); /* the connection was ready, the request goes out */
    }
    if (a->answer.head_bytes > 0)
        out->first_byte_us = phase_us(moment_us(a, CURLINFO_STARTTRANSFER_TIME_T), &last_us);
}
