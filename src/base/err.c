#include "base/err.h"

static const char *const codes[] = {
#define X(name, code, status, title) [name] = (code),
    ERR_MAP(X)
#undef X
};

static const int statuses[] = {
#define X(name, code, status, title) [name] = (status),
    ERR_MAP(X)
#undef X
};

static const char *const titles[] = {
#define X(name, code, status, title) [name] = (title),
    ERR_MAP(X)
#undef X
};

static int is_known(enum err err)
{
    return (unsigned)err < (unsigned)ERR_COUNT;
}

const char *err_code(enum err err)
{
    return is_known(err) ? codes[err] : "unknown";
}

int err_status(enum err err)
{
    return is_known(err) ? statuses[err] : 500;
}

const char *err_title(enum err err)
{
    return is_known(err) ? titles[err] : titles[ERR_INTERNAL];
}
