/* A program under seccomp filters that kill it for any call it doesn't make itself.
 *
 *   confined filter FILE     allows read, write and exit_group only: reads 3 and writes 5 times
 *   confined strict FILE     SECCOMP_MODE_STRICT: writes 5 times, exits by exit(2)
 *   confined inherited SELF  allows what a loader and a shell need, then execs SELF inside
 *   confined inside          what it execs: writes, makes no other call
 *   confined forks FILE      allows fork too: the child writes 5 times
 *   confined refused FILE    a filter that the kernel refuses; the program goes on
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Installs a filter that allows these calls and kills the process for all others. */
static void allow(const int *calls, int count, int by_seccomp) {
    struct sock_filter code[64] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    };
    int n = 1;
    for (int i = 0; i < count; i++) {
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i], 0, 1);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    struct sock_fprog program = {(unsigned short)n, code};
    assert(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    if (by_seccomp)
        assert(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0);
    else
        assert(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}
#define ALLOW(by_seccomp, ...) allow((int[]){__VA_ARGS__}, sizeof((int[]){__VA_ARGS__}) / sizeof(int), by_seccomp)

static void write_five(int fd) {
    for (int i = 0; i < 5; i++)
        if (write(fd, "seven b", 7) != 7) _exit(1);
}

int main(int argc, char **argv) {
    const char *how = argv[1];
    if (!strcmp(how, "inside")) {
        write_five(1);
        _exit(6);
    }
    assert(argc == 3);
    if (!strcmp(how, "inherited")) {
        char *arguments[] = {argv[2], "inside", NULL};
        ALLOW(0, SYS_execve, SYS_openat, SYS_read, SYS_close, SYS_fstat, SYS_newfstatat, SYS_mmap, SYS_munmap,
              SYS_mprotect, SYS_brk, SYS_pread64, SYS_access, SYS_arch_prctl, SYS_set_tid_address,
              SYS_set_robust_list, SYS_rseq, SYS_prlimit64, SYS_getrandom, SYS_write, SYS_exit_group);
        execve(argv[2], arguments, environ);
        _exit(3);
    }
    char buffer[64];
    int fd = open(argv[2], O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (!strcmp(how, "filter")) {
        ALLOW(1, SYS_read, SYS_write, SYS_exit_group);
        write_five(fd);
        for (int i = 0; i < 3; i++)
            if (read(0, buffer, 11) < 0) _exit(2);
        write_five(1);
        _exit(7);
    }
    if (!strcmp(how, "strict")) {
        assert(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0);
        write_five(fd);
        write_five(1);
        syscall(SYS_exit, 5);
    }
    if (!strcmp(how, "forks")) {
        ALLOW(0, SYS_read, SYS_write, SYS_exit_group, SYS_clone, SYS_wait4, SYS_set_robust_list, SYS_gettid,
              SYS_rt_sigprocmask);
        pid_t child = fork();
        if (child == 0) {
            write_five(fd);
            _exit(4);
        }
        int status;
        if (waitpid(child, &status, 0) != child) _exit(1);
        write_five(1);
        _exit(WEXITSTATUS(status));
    }
    if (!strcmp(how, "refused")) {
        assert(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL) == -1 && errno == EFAULT);
        write_five(fd);
        assert(lseek(fd, 0, SEEK_SET) == 0);
        write_five(1);
        _exit(8);
    }
    return 9;
}
