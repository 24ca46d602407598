#include "http/query_priv.h"
#include <string.h>

#define NAME_SHOWN_MAX 100 /* characters of a parameter's name that a fault shows */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

int query_decode_char(const char **s, const char *end)
{
    const char *p = *s;
    int high = 0;
    int low = 0;

    if (*p != '%') {
        *s = p + 1;
        return (unsigned char)*p;
    }
    if (end - p < 3)
        return -1;
    high = hex_digit(p[1]);
    low = hex_digit(p[2]);
    if (high < 0 || low < 0 || (high == 0 && low == 0))
        return -1;
    *s = p + 3;
    return high * 16 + low;
}

/* False when it is badly encoded or too long. */
static bool decode(const char *s, const char *end, char out[QUERY_VALUE_SIZE])
{
    size_t n = 0;

    while (s < end) {
        int c = query_decode_char(&s, end);

        if (c < 0 || n + 1 == QUERY_VALUE_SIZE)
            return false;
        out[n++] = (char)c;
    }
    out[n] = '\0';
    return true;
}

static struct query_parameter *find(struct query_parameter *parameters, size_t count, const char *name, size_t n)
{
    for (size_t i = 0; i < count; i++) {
        if (strlen(parameters[i].name) == n && memcmp(parameters[i].name, name, n) == 0)
            return &parameters[i];
    }
    return NULL;
}

static void read_pair(const char *s, const char *end, struct query_parameter *parameters, size_t count,
                      struct faults *faults)
{
    char shown[NAME_SHOWN_MAX + 1];
    const char *equals = memchr(s, '=', (size_t)(end - s));
    size_t name_bytes = (size_t)((equals ? equals : end) - s);
    size_t shown_bytes = name_bytes < NAME_SHOWN_MAX ? name_bytes : NAME_SHOWN_MAX;
    struct query_parameter *p = find(parameters, count, s, name_bytes);

    memcpy(shown, s, shown_bytes);
    shown[shown_bytes] = '\0';
    if (!p)
        faults_add(faults, shown, "is no parameter of this call");
    else if (p->is_given)
        faults_add(faults, shown, "is given more than once");
    else if (!decode(equals ? equals + 1 : end, end, p->value))
        faults_add(faults, shown, "is badly encoded or longer than %d bytes", QUERY_VALUE_SIZE - 1);
    if (p)
        p->is_given = true;
}

void query_read(const char *query, struct query_parameter *parameters, size_t count, struct faults *faults)
{
    while (query && *query != '\0') {
        size_t n = strcspn(query, "&");

        if (n > 0)
            read_pair(query, query + n, parameters, count, faults);
        query += n;
        if (*query == '&')
            query++;
    }
}
