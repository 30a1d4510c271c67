// A log that is opened with O_DSYNC: each line waits for the disk.
// cause: synchronous_writes
// where: audit.log
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(void) {
    int log = open("audit.log", O_WRONLY | O_CREAT | O_DSYNC, 0644);
    char line[64];
    for (int i = 0; i < 400; i++) {
        snprintf(line, sizeof line, "user %d opened the door\n", i);
        if (write(log, line, strlen(line)) < 0) return 1;
    }
}
