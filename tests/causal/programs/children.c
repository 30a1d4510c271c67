// children FOLDER ROUNDS: has others write durably there, each in one of the ways in which a program runs another one, and waits for it.
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static pid_t spawn(char *command) {
    pid_t child;
    char *arguments[] = {"sh", "-c", command, NULL};
    if (posix_spawn(&child, "/bin/sh", NULL, NULL, arguments, environ) != 0)
        exit(1);
    return child;
}

int main(int count, char **arguments) {
    if (count != 3)
        return 2;
    char writes[4096];
    snprintf(writes, sizeof writes, "dd if=/dev/zero of=%s/data bs=4k count=4 oflag=dsync conv=notrunc status=none", arguments[1]);
    char twice[2 * sizeof writes];
    snprintf(twice, sizeof twice, "%s; %s", writes, writes);
    for (int round = atoi(arguments[2]); round > 0; round--) {
        if (system(writes) != 0)
            return 3;
        FILE *other = popen(twice, "w");
        FILE *stream = popen(writes, "r");
        if (other == NULL || stream == NULL || pclose(stream) != 0 || pclose(other) != 0)
            return 4;
        siginfo_t information;
        pid_t child = spawn(writes);
        if (waitid(P_ALL, 0, &information, WEXITED) != 0 || information.si_pid != child)
            return 5;
        child = spawn(writes);
        while (waitpid(child, NULL, WNOHANG) == 0)
            usleep(1000);
    }
    return 0;
}
