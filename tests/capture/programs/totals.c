/* Moves known amounts in ways that have two sides, or that the C library does out of sight.
 *
 *   totals copies DIR   1,000,000 bytes: by copy_file_range, sendfile, splice through a pipe; to a socket by sendfile
 *   totals seeks DIR    37 fseek + fread of 16 bytes, far apart, in a file of 1 MiB; prints the bytes that read(2) moved
 *   totals opens DIR    31 files and 29 directories, each opened once and made a stream of
 *   totals channels     pipes and a socket pair, written, read and closed
 *   totals aio DIR      POSIX AIO: 5 writes, 3 reads, an fsync, lio_listio of 2, one that fails
 *   totals submit DIR   io_submit: 7 writes in one call, 5 reads, an fsync; one on a bad descriptor
 */
#define _GNU_SOURCE
#include <aio.h>
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SIZE = 1000000 };
static char block[1 << 20];
static const char *work;

static int in(const char *name, int flags) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", work, name);
    int fd = open(path, flags, 0600);
    assert(fd >= 0);
    return fd;
}

static void copies(void) {
    int from = in("from", O_RDWR | O_CREAT);
    assert(write(from, block, SIZE) == SIZE);
    off_t at = 0, to = 0;
    int range = in("by_range", O_RDWR | O_CREAT);
    for (long left = SIZE; left > 0;) {
        ssize_t moved = copy_file_range(from, &at, range, &to, (size_t)left, 0);
        assert(moved > 0);
        left -= moved;
    }
    int sent = in("by_sendfile", O_RDWR | O_CREAT);
    at = 0;
    while (at < SIZE) assert(sendfile(sent, from, &at, (size_t)(SIZE - at)) > 0);
    int spliced = in("by_splice", O_RDWR | O_CREAT), pipes[2];
    assert(pipe(pipes) == 0);
    at = 0, to = 0;
    while (at < SIZE) {
        ssize_t moved = splice(from, &at, pipes[1], NULL, (size_t)(SIZE - at), 0);
        assert(moved > 0);
        while (moved > 0) {
            ssize_t out = splice(pipes[0], NULL, spliced, &to, (size_t)moved, 0);
            assert(out > 0);
            moved -= out;
        }
    }
    int pair[2];
    assert(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    at = 0;
    while (at < 30000) {
        ssize_t moved = sendfile(pair[0], from, &at, (size_t)(30000 - at));
        assert(moved > 0 && read(pair[1], block, (size_t)moved) > 0);
    }
}

static void seeks(void) {
    char path[512], small[16];
    int fd = in("records", O_RDWR | O_CREAT);
    assert(write(fd, block, sizeof block) == sizeof block);
    close(fd);
    snprintf(path, sizeof path, "%s/records", work);
    FILE *file = fopen(path, "r");
    for (long i = 0; i < 37; i++) {
        assert(fseek(file, (i * 7919 + 13) * 64 % (long)(sizeof block - 64), SEEK_SET) == 0);
        assert(fread(small, 1, sizeof small, file) == sizeof small);
    }
    fclose(file);
}

static void opens(void) {
    for (int i = 0; i < 31; i++) {
        FILE *file = fdopen(in("stream", O_RDWR | O_CREAT), "w");
        assert(file && fclose(file) == 0);
    }
    for (int i = 0; i < 29; i++) {
        DIR *directory = fdopendir(in(".", O_RDONLY | O_DIRECTORY));
        assert(directory);
        while (readdir(directory)) continue;
        assert(closedir(directory) == 0);
    }
}

static void channels(void) {
    for (int i = 0; i < 23; i++) {
        int pair[2];
        struct stat about;
        assert((i % 2 ? pipe(pair) : socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) == 0);
        assert(write(pair[1], block, 1000) == 1000 && read(pair[0], block, 1000) == 1000);
        assert(fstat(pair[0], &about) == 0 && close(dup(pair[1])) == 0);
        assert(close(pair[0]) == 0 && close(pair[1]) == 0);
    }
}

static long wait_for(struct aiocb *control) {
    const struct aiocb *list[] = {control};
    while (aio_error(control) == EINPROGRESS) aio_suspend(list, 1, NULL);
    return aio_return(control);
}

static void posix_aio(void) {
    int fd = in("aio", O_RDWR | O_CREAT);
    struct aiocb control;
    for (int i = 0; i < 5; i++) {
        control = (struct aiocb){.aio_fildes = fd, .aio_buf = block, .aio_nbytes = 4096, .aio_offset = i * 4096};
        assert(aio_write(&control) == 0 && wait_for(&control) == 4096);
    }
    for (int i = 0; i < 3; i++) {
        control = (struct aiocb){.aio_fildes = fd, .aio_buf = block, .aio_nbytes = 512, .aio_offset = i * 1024};
        assert(aio_read(&control) == 0 && wait_for(&control) == 512);
    }
    control = (struct aiocb){.aio_fildes = fd};
    assert(aio_fsync(O_SYNC, &control) == 0 && wait_for(&control) == 0);
    struct aiocb two[2], *list[] = {&two[0], NULL, &two[1]};
    for (int i = 0; i < 2; i++)
        two[i] = (struct aiocb){.aio_fildes = fd, .aio_buf = block, .aio_nbytes = 100, .aio_offset = 20480 + i * 100,
                                .aio_lio_opcode = LIO_WRITE};
    assert(lio_listio(LIO_WAIT, list, 3, NULL) == 0);
    assert(aio_return(&two[0]) == 100 && aio_return(&two[1]) == 100);
    int shut = in("aio", O_RDONLY);
    control = (struct aiocb){.aio_fildes = shut, .aio_buf = block, .aio_nbytes = 10};
    assert(aio_write(&control) == 0);
    while (aio_error(&control) == EINPROGRESS) usleep(1000);
    assert(aio_error(&control) == EBADF && aio_return(&control) == -1);
}

static long submit(aio_context_t context, long count, struct iocb **list) {
    return syscall(SYS_io_submit, context, count, list);
}

static void native_aio(void) {
    aio_context_t context = 0;
    if (syscall(SYS_io_setup, 16, &context)) exit(77);
    int fd = in("submit", O_RDWR | O_CREAT);
    struct iocb blocks[7], *list[7];
    struct io_event events[7];
    memset(blocks, 0, sizeof blocks);
    for (int i = 0; i < 7; i++) {
        blocks[i] = (struct iocb){.aio_lio_opcode = IOCB_CMD_PWRITE, .aio_fildes = (unsigned)fd,
                                  .aio_buf = (unsigned long)block, .aio_nbytes = 4096, .aio_offset = i * 4096};
        list[i] = &blocks[i];
    }
    assert(submit(context, 7, list) == 7);
    memset(blocks, 0xff, sizeof blocks); /* the kernel has copied them */
    assert(syscall(SYS_io_getevents, context, 7, 7, events, NULL) == 7);
    for (int i = 0; i < 5; i++) {
        blocks[i] = (struct iocb){.aio_lio_opcode = IOCB_CMD_PREAD, .aio_fildes = (unsigned)fd,
                                  .aio_buf = (unsigned long)block, .aio_nbytes = 1024, .aio_offset = i * 8192 % 24576};
        assert(submit(context, 1, &list[i]) == 1);
        assert(syscall(SYS_io_getevents, context, 1, 1, events, NULL) == 1 && events[0].res == 1024);
    }
    blocks[0] = (struct iocb){.aio_lio_opcode = IOCB_CMD_FSYNC, .aio_fildes = (unsigned)fd};
    if (submit(context, 1, list) == 1) syscall(SYS_io_getevents, context, 1, 1, events, NULL);
    blocks[0] = (struct iocb){.aio_lio_opcode = IOCB_CMD_PREAD, .aio_fildes = 999, .aio_nbytes = 1};
    assert(submit(context, 1, list) == -1 && errno == EBADF);
}

int main(int argc, char **argv) {
    assert(argc >= 2);
    work = argc > 2 ? argv[2] : ".";
    if (!strcmp(argv[1], "copies")) copies();
    if (!strcmp(argv[1], "seeks")) seeks();
    if (!strcmp(argv[1], "opens")) opens();
    if (!strcmp(argv[1], "channels")) channels();
    if (!strcmp(argv[1], "aio")) posix_aio();
    if (!strcmp(argv[1], "submit")) native_aio();
    return 0;
}
