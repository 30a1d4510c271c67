// A log written line by line without a buffer.
// cause: tiny_appends
// where: trace.log
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(void) {
    int log = open("trace.log", O_WRONLY | O_CREAT, 0644);
    char line[64];
    for (int i = 0; i < 600000; i++) {
        int length = snprintf(line, sizeof line, "event %d\n", i);
        if (write(log, line, length) < 0) return 1;
    }
}
