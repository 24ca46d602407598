#include "store/fault_priv.h"

#include <criterion/criterion.h>

Test(fault_of, the_code_of_an_error_tells_what_to_do)
{
    static const struct {
        const char *text;
        enum fault_kind kind;
    } rows[] = {
        {"NOSCRIPT No matching script. Please use EVAL.", FAULT_NO_SCRIPT},
        {"NOGROUP No such key 'duepost{0}:ready' or consumer group 'workers'", FAULT_NO_GROUP},
        {"ERR Error running script (call to f_1): @user_script:12: NOGROUP No such key", FAULT_NO_GROUP},
        {"UNBLOCKED the stream key no longer exists", FAULT_NO_GROUP},
        {"READONLY You can't write against a read only replica.", FAULT_REPLICA},
        {"ERR Error running script: @user_script: 3: -READONLY You can't write", FAULT_REPLICA},
        {"LOADING Redis is loading the dataset in memory", FAULT_NOT_NOW},
        {"BUSY Redis is busy running a script.", FAULT_NOT_NOW},
        {"BUSYGROUP Consumer Group name already exists", FAULT_OTHER},
        {"OOM command not allowed when used memory > 'maxmemory'.", FAULT_NOT_NOW},
        {"MISCONF Errors writing to the AOF file: No space left on device", FAULT_NOT_NOW},
        {"NOREPLICAS Not enough good replicas to write.", FAULT_NOT_NOW},
        {"TRYAGAIN Multiple keys request during rehashing of slot", FAULT_NOT_NOW},
        {"CLUSTERDOWN The cluster is down", FAULT_NOT_NOW},
        {"MASTERDOWN Link with MASTER is down", FAULT_NOT_NOW},
        {"WRONGTYPE Operation against a key holding the wrong kind of value", FAULT_WRONG_TYPE},
        {"ERR user_script:30: attempt to index a nil value", FAULT_OTHER},
        {"", FAULT_OTHER},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        cr_expect_eq(fault_of(rows[i].text), rows[i].kind, "%s", rows[i].text);
}
