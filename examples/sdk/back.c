/* The storage end of a two-part system: appends what it is sent to a file. One request a line on its standard
 * input, "LENGTH<tab>TRACEPARENT<tab>TRACESTATE", answered by "ok" or an error number. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <iotrail.h>

enum { BLOCK = 4096 };

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s FILE\n", argv[0]);
        return 2;
    }
    int fd = open(argv[1], O_CREAT | O_WRONLY | O_APPEND, 0644);
    if (fd < 0) {
        perror(argv[1]);
        return 1;
    }
    iotrail_role("back");
    iotrail_symbol_t back = iotrail_symbol("back"), front = iotrail_symbol("front"),
                     append = iotrail_symbol("append"), disk = iotrail_symbol("file"),
                     cache = iotrail_symbol("page buffer");
    char *path = realpath(argv[1], NULL);
    int64_t file = iotrail_file(path);
    free(path);
    /* A record type of this program's own. */
    int queue = iotrail_declare("append_queue\tRequests waiting when one was taken.\n"
                                "bytes\tBIGINT\tbytes\tOf the one taken.\n"
                                "fill\tDOUBLE\tshare\tPart of a block that it fills.");
    static char line[2048], block[BLOCK];
    int64_t pos = 0;
    while (fgets(line, sizeof line, stdin)) {
        char *length = strtok(line, "\t\n"), *parent = strtok(NULL, "\t\n"), *state = strtok(NULL, "\t\n");
        size_t bytes = length ? strtoul(length, NULL, 10) : 0;
        if (bytes > BLOCK)
            bytes = BLOCK;
        iotrail_crumb_t crumb = iotrail_extract(parent, state), before = iotrail_crumb_set(crumb);
        iotrail_record_t request = iotrail_service_begin(IOTRAIL_SERVER, back, append, crumb);
        iotrail_service_about(&request, file, pos, (int64_t)bytes);
        iotrail_post(queue, crumb, (int64_t[]){(int64_t)bytes, iotrail_real((double)bytes / BLOCK)}, 2);
        iotrail_buffer(back, cache, IOTRAIL_WRITE, crumb, file, pos, (int64_t)bytes);
        iotrail_record_t io = iotrail_disk_begin(disk, append, crumb, pos, (int64_t)bytes);
        iotrail_disk_issued(&io);
        ssize_t done = write(fd, block, bytes);
        iotrail_disk_end(&io);
        int status = done < 0 ? errno : 0;
        pos += done > 0 ? done : 0;
        char reply[16];
        int size = snprintf(reply, sizeof reply, status ? "%d\n" : "ok\n", status);
        iotrail_transmit(back, front, crumb, size);
        iotrail_service_end(&request, 0, status);
        fputs(reply, stdout);
        fflush(stdout);
        iotrail_crumb_set(before);
    }
    return 0;
}
