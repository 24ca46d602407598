#include "deliver/webhook_priv.h"
#include "base/clock.h"
#include "base/mem.h"
#include "deliver/failure_priv.h"
#include "deliver/phases_priv.h"
#include "deliver/request_priv.h"
#include "task/outcome.h"
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

/* One attempt on a libcurl easy handle.
 *
 * Options that never change are set once, when the handle is made; those of one request are all set anew for each,
 * so nothing of the last request is left. Where libcurl is new enough, a handle serves attempt after attempt.
 *
 * Two callbacks keep the promises that libcurl alone does not: OPENSOCKET sees every address before it is dialled,
 * PREREQ is called before every send, also on a connection used before. Both check the address; PREREQ also refuses
 * a second send, by which libcurl would hide a lost connection from the task's attempts.
 *
 * The head of the answer is read line by line in the header callback. 1xx heads are passed over, trailers come after
 * the head is complete and are ignored. Callbacks only note things: no handle is removed inside libcurl. */

#define RECEIVE_BUFFER_BYTES 4096L /* answers are small, and there are hundreds of handles */
#define LINES_KEPT_BYTES 4096      /* of the header lines' memory, from one attempt to the next */
#define HTTP2_MIN_LIBCURL 0x080e01 /* 8.14.1, the oldest that was seen to lose nothing; see http_version() */

/* --- addresses --- */

/* What belongs to the gateway is never dialled, because a task must not create tasks or write to Redis: what is allowed
 * does not matter then. */
static bool address_is_allowed(struct attempt *a, const struct netaddr *address, int port, const char *text)
{
    static const struct endpoint_list none = {.count = 0};
    const struct pool_opts *opts = a->env->opts;
    const struct endpoint *own = endpoint_list_find(opts->own != NULL ? opts->own : &none, address, port);
    bool is_v6 = strchr(text, ':') != NULL;

    if (own == NULL && netaddr_is_allowed(address, opts->allow_net))
        return true;
    if (a->blocked[0] != '\0')
        return false;
    if (own != NULL)
        (void)snprintf(a->blocked, sizeof(a->blocked), "%s%s%s:%d is %s", is_v6 ? "[" : "", text, is_v6 ? "]" : "",
                       port, own->what);
    else
        (void)snprintf(a->blocked, sizeof(a->blocked), "%s is not a public address (allow-net)", text);
    return false;
}

static bool sockaddr_is_allowed(struct attempt *a, const struct sockaddr *sa)
{
    char text[INET6_ADDRSTRLEN] = "?";
    struct endpoint dialled;

    if (!endpoint_from_sockaddr(sa, NULL, &dialled))
        return false;
    if (sa->sa_family == AF_INET)
        (void)inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)sa)->sin_addr, text, sizeof(text));
    else
        (void)inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr, text, sizeof(text));
    return address_is_allowed(a, &dialled.address, dialled.port, text);
}

/* Before a new connection: libcurl goes on to the name's next address when this one is refused. */
static curl_socket_t on_open_socket(void *clientp, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct attempt *a = clientp;
    int fd = -1;

    (void)purpose;
    a->is_new_connection = true;
    a->env->on_found(a->env->ctx, a);
    if (!sockaddr_is_allowed(a, &address->addr))
        return CURL_SOCKET_BAD;
    fd = multi_socket(a->env->multi, address);
    if (fd == -1)
        a->socket_errno = errno;
    else
        a->open_count++;
    return fd;
}

/* Before every send, also on a reused connection. */
/* NOLINTNEXTLINE(readability-non-const-parameter): libcurl decides the types */
static int on_before_request(void *clientp, char *peer_ip, char *local_ip, int peer_port, int local_port)
{
    struct attempt *a = clientp;
    struct netaddr address;

    (void)local_ip;
    (void)local_port;
    a->env->on_found(a->env->ctx, a);
    if (a->sent_mono_us != 0) {
        a->was_resent = true;
        return CURL_PREREQFUNC_ABORT;
    }
    if (!netaddr_parse(peer_ip, strlen(peer_ip), &address) || !address_is_allowed(a, &address, peer_port, peer_ip))
        return CURL_PREREQFUNC_ABORT;
    a->sent_mono_us = clock_mono_us();
    return CURL_PREREQFUNC_OK;
}

/* --- the answer --- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The three digits of "HTTP/1.1 503" or "HTTP/2 503"; NULL when there are none, or more. libcurl passes some lines that
 * are no status line, and takes a status of its own from them. */
static const char *find_status(const char *line, size_t n)
{
    const char *end = line + n;
    const char *p = line + strlen("HTTP/");

    if (n < strlen("HTTP/1 200") || memcmp(line, "HTTP/", strlen("HTTP/")) != 0 || !is_digit(*p))
        return NULL;
    for (p++; p < end && (is_digit(*p) || *p == '.'); p++) {
    }
    if (p == end || *p != ' ')
        return NULL;
    for (; p < end && *p == ' '; p++) {
    }
    if (end - p < 3 || *p == '0' || !is_digit(p[0]) || !is_digit(p[1]) || !is_digit(p[2]))
        return NULL;
    return end - p == 3 || p[3] == ' ' ? p : NULL;
}

/* The first line of a head; false when it is no status line. */
static bool read_status_line(struct answer *answer, const char *line, size_t n)
{
    const char *status = find_status(line, n);
    const char *reason = NULL;
    size_t reason_bytes = 0;

    answer->is_invalid = status == NULL;
    if (status == NULL)
        return false;
    answer->is_in_head = true;
    answer->status = (status[0] - '0') * 100 + (status[1] - '0') * 10 + (status[2] - '0');
    answer->retry_after_count = 0;
    answer->retry_after_ms = -1;
    reason = status + 3;
    reason_bytes = (size_t)(line + n - reason);
    if (reason_bytes >= sizeof(answer->reason))
        reason_bytes = sizeof(answer->reason) - 1;
    memcpy(answer->reason, reason, reason_bytes);
    answer->reason[reason_bytes] = '\0';
    return true;
}

static void read_header(struct attempt *a, const char *line, size_t n)
{
    static const char name[] = "Retry-After:";
    const size_t name_bytes = sizeof(name) - 1;
    struct answer *answer = &a->answer;
    int64_t now_ms = 0;

    if (n < name_bytes || strncasecmp(line, name, name_bytes) != 0)
        return;
    now_ms = (clock_mono_us() + a->wall_offset_us) / 1000;
    answer->retry_after_count++;
    answer->retry_after_ms = outcome_retry_after_ms(line + name_bytes, n - name_bytes, now_ms);
}

static bool status_is_success(int status)
{
    return status >= 200 && status <= 299;
}

/* The blank line: the end of a head. 101 ends the exchange although it is below 200, since nobody asked for it. */
static void end_head(struct attempt *a)
{
    struct answer *answer = &a->answer;
    bool is_provisional = answer->status < 200 && answer->status != 101;

    if (!answer->is_in_head)
        return; /* blank lines before a status line */
    answer->is_in_head = false;
    if (is_provisional)
        return;
    answer->is_complete = true;
    (void)curl_easy_setopt(a->easy, CURLOPT_FORBID_REUSE, 0L); /* the connection has shown that it works */
    if (status_is_success(answer->status))
        a->env->on_success(a->env->ctx, a);
}

static size_t on_header(char *data, size_t size, size_t count, void *userp)
{
    struct attempt *a = userp;
    struct answer *answer = &a->answer;
    size_t n = size * count;
    size_t text = n;

    answer->head_bytes += n;
    if (answer->head_bytes > WEBHOOK_HEAD_MAX)
        return 0;
    if (answer->is_complete)
        return n; /* a trailer */
    while (text > 0 && (data[text - 1] == '\n' || data[text - 1] == '\r'))
        text--;
    if (text == 0)
        end_head(a);
    else if (answer->is_in_head)
        read_header(a, data, text);
    else if (!read_status_line(answer, data, text))
        return 0;
    return n;
}

/* Less than `n` returned makes libcurl end the transfer, which by then has its status. */
static size_t on_body(char *data, size_t size, size_t count, void *userp)
{
    struct attempt *a = userp;
    struct answer *answer = &a->answer;
    size_t n = size * count;
    size_t room = sizeof(answer->excerpt) - answer->excerpt_bytes;
    size_t kept = n < room ? n : room;

    if (!status_is_success(answer->status) && kept > 0) {
        memcpy(answer->excerpt + answer->excerpt_bytes, data, kept);
        answer->excerpt_bytes += kept;
    }
    answer->body_bytes += n;
    return answer->body_bytes > WEBHOOK_BODY_MAX ? 0 : n;
}

/* --- options --- */

/* Set an option and note a failure, so that a list of them reads as a list. */
#define SET(option, value) failed |= (int)curl_easy_setopt(a->easy, option, value)

/* HTTP/2 where a receiver has it, over TLS, one request at a time on a connection (multi_open()). Not with an older
 * libcurl: 7.88.1 loses about one request in 1000 against Node 20, which then gets it again without a fault of its own.
 * Probably Node closes the connection because libcurl resets each stream at its end, which looks like an attack. */
static long http_version(const curl_version_info_data *curl)
{
    bool is_fit = curl->version_num >= HTTP2_MIN_LIBCURL && (curl->features & CURL_VERSION_HTTP2) != 0;

    return is_fit ? (long)CURL_HTTP_VERSION_2TLS : (long)CURL_HTTP_VERSION_1_1;
}

static int set_transport(struct attempt *a)
{
    const curl_version_info_data *curl = a->env->libcurl;
    /* Idle for a second is too old: the receiver may be about to close. Newer versions take 0 for "no limit". */
    long idle_s = curl->version_num < 0x080e00 ? 0L : 1L;
    int failed = 0;

    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_QUICK_EXIT, 1L); /* never wait for a lookup that hangs */
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_HTTP_VERSION, http_version(curl));
    SET(CURLOPT_PATH_AS_IS, 1L);
    SET(CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    SET(CURLOPT_PROXY, ""); /* with NOPROXY: nothing from the environment */
    SET(CURLOPT_NOPROXY, "*");
    SET(CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    SET(CURLOPT_MAXAGE_CONN, idle_s);
    SET(CURLOPT_BUFFERSIZE, RECEIVE_BUFFER_BYTES);
    SET(CURLOPT_SSL_VERIFYPEER, 1L);
    SET(CURLOPT_SSL_VERIFYHOST, 2L);
    if (a->env->opts->ca_file != NULL)
        SET(CURLOPT_CAINFO, a->env->opts->ca_file);
    return failed;
}

static int set_callbacks(struct attempt *a)
{
    int failed = 0;

    SET(CURLOPT_PRIVATE, a);
    SET(CURLOPT_ERRORBUFFER, a->curl_error);
    SET(CURLOPT_OPENSOCKETFUNCTION, on_open_socket);
    SET(CURLOPT_OPENSOCKETDATA, a);
    SET(CURLOPT_CLOSESOCKETFUNCTION, multi_close_socket); /* of a connection that may outlive the attempt */
    SET(CURLOPT_CLOSESOCKETDATA, a->env->multi);
    SET(CURLOPT_PREREQFUNCTION, on_before_request);
    SET(CURLOPT_PREREQDATA, a);
    SET(CURLOPT_HEADERFUNCTION, on_header);
    SET(CURLOPT_HEADERDATA, a);
    SET(CURLOPT_WRITEFUNCTION, on_body);
    SET(CURLOPT_WRITEDATA, a);
    return failed;
}

/* GET and DELETE have a body only when the task gives one; the others always state their length. */
static int set_method_and_body(struct attempt *a)
{
    const struct task *t = a->task;
    bool sends_body =
        t->body_kind != TASK_BODY_NONE || (t->method != TASK_METHOD_GET && t->method != TASK_METHOD_DELETE);
    bool is_plain = t->method == (sends_body ? TASK_METHOD_POST : TASK_METHOD_GET);
    int failed = 0;

    if (sends_body) {
        SET(CURLOPT_POST, 1L);
        SET(CURLOPT_POSTFIELDS, t->body != NULL ? t->body : "");
        SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)(t->body != NULL ? t->body_bytes : 0));
    } else {
        SET(CURLOPT_POSTFIELDS, NULL);
        SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)0);
        SET(CURLOPT_HTTPGET, 1L);
    }
    SET(CURLOPT_CUSTOMREQUEST, is_plain ? NULL : task_method_name(t->method));
    return failed;
}

static enum err make_handle(struct attempt *a)
{
    a->easy = curl_easy_init();
    if (a->easy != NULL && set_transport(a) == 0 && set_callbacks(a) == 0)
        return ERR_OK;
    curl_easy_cleanup(a->easy);
    a->easy = NULL;
    return ERR_NOMEM;
}

/* libcurl before 8.1 keeps a pointer to the last header of an answer after it has freed it. When the next answer on
 * the handle begins with a folded line, it writes there: any receiver could corrupt our memory. So a handle that has
 * seen an answer is not used again. */
static enum err renew_handle(struct attempt *a)
{
    bool is_safe = a->env->libcurl->version_num >= 0x080200;

    if (a->easy != NULL && (is_safe || a->answer.head_bytes == 0))
        return ERR_OK;
    curl_easy_cleanup(a->easy);
    return make_handle(a);
}

static void clear_what_happened(struct attempt *a)
{
    a->sent_mono_us = 0;
    a->launched_mono_us = 0;
    a->ended_mono_us = 0;
    a->was_resent = false;
    a->local_reason = NULL;
    a->is_new_connection = false;
    a->open_count = 0;
    a->socket_errno = 0;
    a->code = CURLE_OK;
    a->blocked[0] = '\0';
    a->curl_error[0] = '\0';
    a->answer.status = 0;
    a->answer.is_in_head = false;
    a->answer.is_complete = false;
    a->answer.is_invalid = false;
    a->answer.head_bytes = 0;
    a->answer.retry_after_count = 0;
    a->answer.retry_after_ms = -1;
    a->answer.reason[0] = '\0';
    a->answer.body_bytes = 0;
    a->answer.excerpt_bytes = 0;
}

enum err attempt_prepare(struct attempt *a, const struct task *t, int attempt_number, bool is_last)
{
    int failed = 0;

    if (renew_handle(a) != ERR_OK)
        return ERR_NOMEM;
    a->task = t;
    clear_what_happened(a);
    if (request_headers(a, attempt_number, a->started_mono_us) != ERR_OK)
        return ERR_NOMEM;
    SET(CURLOPT_URL, t->url);
    SET(CURLOPT_HTTPHEADER, a->nodes);
    SET(CURLOPT_FRESH_CONNECT, is_last ? 1L : 0L);
    SET(CURLOPT_FORBID_REUSE, 1L); /* until it answers: HTTP/2 would keep a connection on which requests time out */
    failed |= set_method_and_body(a);
    return failed != 0 ? ERR_NOMEM : ERR_OK;
}

/* --- life --- */

struct attempt *attempt_create(struct webhook_env *env)
{
    struct attempt *a = xcalloc(1, sizeof(*a));

    a->env = env;
    buf_init(&a->lines, REQUEST_LINES_MAX_BYTES);
    if (make_handle(a) != ERR_OK)
        attempt_destroy(&a);
    return a;
}

void attempt_destroy(struct attempt **a)
{
    if (*a == NULL)
        return;
    curl_easy_cleanup((*a)->easy);
    buf_deinit(&(*a)->lines);
    free((*a)->nodes);
    free(*a);
    *a = NULL;
}

bool attempt_is_sent(const struct attempt *a)
{
    curl_off_t sent = 0;

    return curl_easy_getinfo(a->easy, CURLINFO_SIZE_UPLOAD_T, &sent) == CURLE_OK &&
           sent >= (curl_off_t)(a->task->body != NULL ? a->task->body_bytes : 0);
}

void attempt_result(const struct attempt *a, struct webhook_result *result)
{
    const struct answer *answer = &a->answer;

    *result = (struct webhook_result){
        .status = answer->is_complete ? answer->status : 0,
        .retry_after_ms = answer->is_complete && answer->retry_after_count == 1 ? answer->retry_after_ms : -1,
        .duration_us = a->ended_mono_us - a->started_mono_us,
        .sent_mono_us = a->sent_mono_us,
    };
    phases_read(a, &result->phases);
    if (!status_is_success(result->status))
        failure_describe(a, result);
}

void attempt_recycle(struct attempt *a)
{
    a->task = NULL;
    a->owner = NULL;
    if (a->lines.capacity > LINES_KEPT_BYTES)
        buf_deinit(&a->lines);
}
