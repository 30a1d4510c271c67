/* Known calls on known files, a prime number of times each, for a program that no recorder is in. Its argument is a
 * directory; standard input is a file. Fails loudly if a call does. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define MUST(call) ({ long result = (call); if (result < 0) abort(); result; })

static char data[4096];
static char *volatile nowhere = (char *)8;
static struct iovec parts[2] = {{data, 10}, {data + 10, 9}};

static int opened(const char *name, int flags) { return MUST(open(name, flags | O_CREAT, 0600)); }

/* Sends a descriptor over a socket, as no system call that names a file does. */
static void pass(int socket, int fd) {
    char byte = 0, room[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec one = {&byte, 1};
    struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    *head = (struct cmsghdr){CMSG_LEN(sizeof fd), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    MUST(sendmsg(socket, &message, 0));
}

static int taken(int socket) {
    int fd;
    char byte, room[CMSG_SPACE(sizeof fd)];
    struct iovec one = {&byte, 1};
    struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    MUST(recvmsg(socket, &message, 0));
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

int main(int count, char **arguments) {
    if (count != 2) return 2;
    MUST(chdir(arguments[1]));
    int fd = opened("./positions", O_RDWR | O_TRUNC);
    for (int i = 0; i < 101; i++) MUST(pwrite(fd, data, 13, i * 13));
    for (int i = 0; i < 97; i++) MUST(pread(fd, data, 7, i * 7));
    MUST(lseek(fd, 5, SEEK_SET));
    for (int i = 0; i < 11; i++) MUST(read(fd, data, 17)); /* 5 to 192 */
    int second = MUST(dup(fd));
    for (int i = 0; i < 3; i++) MUST(readv(second, parts, 2)); /* 192 to 249 */
    for (int i = 0; i < 2; i++) MUST(syscall(SYS_preadv2, fd, parts, 2, -1L, 0L, 0)); /* 249 to 287 */
    for (int i = 0; i < 5; i++) MUST(pwritev(fd, parts, 2, 100 + i));

    int append = opened("appended", O_WRONLY | O_APPEND);
    for (int i = 0; i < 7; i++) MUST(write(append, data, 11)); /* 0 to 77 */

    /* A child shares the position, has its own directory, and a file opened there is opened there. */
    int pipes[2];
    MUST(pipe(pipes));
    if (!MUST(fork())) {
        for (int i = 0; i < 3; i++) MUST(read(fd, data, 23)); /* 287 to 356 */
        MUST(mkdir("below", 0700));
        MUST(chdir("below"));
        int own = opened("../below/own", O_WRONLY);
        MUST(write(own, data, 19));
        MUST(close(own));
        MUST(write(pipes[1], data, 29));
        _exit(0);
    }
    MUST(read(pipes[0], data, 4096));
    MUST(wait(NULL));
    MUST(read(fd, data, 31)); /* 356 to 387 */

    /* Relative to a directory's descriptor, by openat2, and gone before the next of the same number. */
    int below = MUST(open("below", O_DIRECTORY));
    struct { unsigned long flags, mode, resolve; } how = {O_RDONLY, 0, 0};
    int own = MUST(syscall(SYS_openat2, below, "own", &how, sizeof how));
    MUST(read(own, data, 37));
    MUST(close(own));
    own = MUST(openat(below, "other", O_RDWR | O_CREAT, 0600));
    MUST(write(own, data, 41));
    MUST(renameat(below, "other", AT_FDCWD, "renamed"));
    MUST(unlink("renamed"));

    /* A descriptor that came over a socket. */
    int pair[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    pass(pair[0], append);
    int came = taken(pair[1]);
    for (int i = 0; i < 3; i++) MUST(write(came, data, 43)); /* 77 to 206 */

    MUST(read(0, data, 47));
    if (open("missing", O_RDONLY) >= 0 || pread(fd, nowhere, 10, 0) >= 0) abort();
    MUST(fsync(fd));
    return 0;
}
