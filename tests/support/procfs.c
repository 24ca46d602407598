#include "procfs.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LISTENING " 0A " /* the state column of /proc/net/tcp */

/* Whether one of the descriptors in `dir` is the socket with this inode. */
static bool holds_socket(const char *dir, unsigned long inode)
{
    char wanted[64];
    bool is_held = false;
    DIR *fds = opendir(dir);

    (void)snprintf(wanted, sizeof(wanted), "socket:[%lu]", inode);
    for (struct dirent *e; fds && !is_held && (e = readdir(fds)) != NULL;) {
        char path[320], target[64] = "";
        (void)snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
        if (readlink(path, target, sizeof(target) - 1) > 0)
            is_held = strcmp(target, wanted) == 0;
    }
    if (fds)
        closedir(fds);
    return is_held;
}

/* The inode in a line of /proc/net/tcp: its tenth column. */
static unsigned long inode_of(const char *line)
{
    for (int column = 1; column < 10; column++) {
        line += strspn(line, " ");
        line += strcspn(line, " ");
    }
    return strtoul(line, NULL, 10);
}

/* "  0: 0100007F:1F90 00000000:0000 0A ..." */
static int port_of(const char *line)
{
    const char *address = strchr(line, ':');
    const char *port = address ? strchr(address + 1, ':') : NULL;

    return port ? (int)strtol(port + 1, NULL, 16) : 0;
}

static int port_in_table(pid_t pid, const char *table)
{
    char path[64], dir[64], line[512];
    int port = 0;

    (void)snprintf(path, sizeof(path), "/proc/%d/net/%s", (int)pid, table);
    (void)snprintf(dir, sizeof(dir), "/proc/%d/fd", (int)pid);
    FILE *f = fopen(path, "r");
    while (f && port == 0 && fgets(line, sizeof(line), f)) {
        if (strstr(line, LISTENING) && holds_socket(dir, inode_of(line)))
            port = port_of(line);
    }
    if (f)
        (void)fclose(f);
    return port;
}

int procfs_listening_port(pid_t pid)
{
    int port = port_in_table(pid, "tcp");

    return port != 0 ? port : port_in_table(pid, "tcp6");
}

/* State and parent from /proc/PID/stat; false when there is no such process. */
static bool read_stat(const char *pid, char *state, pid_t *parent)
{
    char path[320], line[512] = "";

    (void)snprintf(path, sizeof(path), "/proc/%s/stat", pid);
    FILE *f = fopen(path, "r");
    bool is_read = f && fgets(line, sizeof(line), f);
    if (f)
        (void)fclose(f);
    const char *after_name = is_read ? strrchr(line, ')') : NULL;
    if (!after_name || strlen(after_name) < 4)
        return false;
    *state = after_name[2];
    *parent = (pid_t)strtol(after_name + 3, NULL, 10);
    return true;
}

pid_t procfs_child(pid_t pid)
{
    DIR *all = opendir("/proc");
    pid_t found = 0;

    for (struct dirent *e; all && found == 0 && (e = readdir(all)) != NULL;) {
        char state;
        pid_t parent;
        if (read_stat(e->d_name, &state, &parent) && parent == pid && state != 'Z')
            found = (pid_t)strtol(e->d_name, NULL, 10);
    }
    if (all)
        closedir(all);
    return found;
}

bool procfs_is_alive(pid_t pid)
{
    char name[16], state;
    pid_t parent;

    (void)snprintf(name, sizeof(name), "%d", (int)pid);
    return read_stat(name, &state, &parent) && state != 'Z';
}
