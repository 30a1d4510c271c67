/* Every call on files, in all forms libc offers, each a prime number of times.
 *
 * Built three times: plain, with _FORTIFY_SOURCE (the _chk forms) and with 64-bit offsets (the 64
 * forms under plain names). Results, positions, lengths, errors and names are noted call by call.
 */
#define _LARGEFILE64_SOURCE
#include "witness.h"
#include <dirent.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <utime.h>

extern int __open_2(const char *, int), __open64_2(const char *, int);
extern int __openat_2(int, const char *, int), __openat64_2(int, const char *, int);

static int dir;
static char buffer[1 << 16];
static struct iovec parts[3] = {{buffer, 100}, {buffer + 100, 200}, {buffer + 300, 713}}; /* 1013 bytes */
/* Not a constant to the compiler, so that _FORTIFY_SOURCE chooses the checking form. */
static volatile size_t some = 4093;

static int opened(const char *name, int flags) {
    int fd = DO("+open", name, ANY, ANY, open(in(name), flags, 0644));
    MUST(fd >= 0);
    return fd;
}
static void shut(int fd) { DO("+close", NULL, ANY, ANY, close(fd)); }

static void flushes(void) {
    int fd = opened("flushed", O_RDWR | O_CREAT);
    for (int i = 0; i < 4; i++) DO("+write", "flushed", i * 4096, 4096, write(fd, buffer, 4096));
    TIMES DO("fsync", "flushed", ANY, ANY, fsync(fd));
    TIMES DO("fdatasync", "flushed", ANY, ANY, fdatasync(fd));
    TIMES DO("sync_file_range", "flushed", 4096, 8192, sync_file_range(fd, 4096, 8192, SYNC_FILE_RANGE_WRITE));
    char *map = DO("+mmap", "flushed", 0, 16384, mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    TIMES {
        map[5000]++;
        DO("msync", "flushed", ANY, 8192, msync(map, 8192, MS_SYNC));
    }
    TIMES DO("madvise", "flushed", ANY, 4096, madvise(map, 4096, MADV_SEQUENTIAL));
    DO("+munmap", "flushed", ANY, 16384, munmap(map, 16384));
    shut(fd);
}

static void openings(void) {
    volatile int flags = O_RDWR;
    char path[600];
    strcpy(path, in("opened"));
    TIMES shut(DO("open", "opened", ANY, ANY, open(path, O_RDWR | O_CREAT, 0644)));
    TIMES shut(DO("open64", "opened", ANY, ANY, open64(path, O_RDWR | O_CREAT, 0644)));
    TIMES shut(DO("openat", "opened", ANY, ANY, openat(dir, "opened", O_RDONLY)));
    TIMES shut(DO("openat64", "opened", ANY, ANY, openat64(AT_FDCWD, path, O_RDONLY)));
    TIMES shut(DO("creat", "created", ANY, ANY, creat(in("created"), 0600)));
    TIMES shut(DO("creat64", "created", ANY, ANY, creat64(in("created"), 0600)));
    TIMES shut(DO("__open_2", "opened", ANY, ANY, __open_2(path, O_RDONLY)));
    TIMES shut(DO("__open64_2", "opened", ANY, ANY, __open64_2(path, O_RDONLY)));
    TIMES shut(DO("__openat_2", "opened", ANY, ANY, __openat_2(dir, "opened", O_RDONLY)));
    TIMES shut(DO("__openat64_2", "opened", ANY, ANY, __openat64_2(dir, "opened", O_RDONLY)));
    TIMES shut(DO("open:var", "opened", ANY, ANY, open(path, flags)));
    TIMES shut(DO("openat:var", "opened", ANY, ANY, openat(dir, "opened", flags)));
    struct { uint64_t flags, mode, resolve; } how = {O_RDONLY, 0, 0};
    TIMES shut(DO("openat2", "opened", ANY, ANY, (int)syscall(SYS_openat2, dir, "opened", &how, sizeof how)));
    TIMES DO("open:missing", "missing", ANY, ANY, open(in("missing"), O_RDONLY));
    TIMES DO("close:bad", NULL, ANY, ANY, close(-1));
}

static void duplicates(void) {
    int fd = opened("opened", O_RDWR);
    TIMES DO("close", "opened", ANY, ANY, close(DO("+dup", "opened", ANY, ANY, dup(fd))));
    TIMES shut(DO("dup", "opened", ANY, ANY, dup(fd)));
    TIMES shut(DO("dup2", "opened", ANY, ANY, dup2(fd, 500)));
    TIMES shut(DO("dup3", "opened", ANY, ANY, dup3(fd, 501, O_CLOEXEC)));
    TIMES shut(DO("fcntl:dup", "opened", ANY, ANY, fcntl(fd, F_DUPFD, 300)));
    TIMES shut(DO("fcntl:dupc", "opened", ANY, ANY, fcntl(fd, F_DUPFD_CLOEXEC, 300)));
    TIMES DO("fcntl", "opened", ANY, ANY, fcntl(fd, F_SETFL, 0));
    TIMES DO("ioctl", "opened", ANY, ANY, ioctl(fd, FIONREAD, &(int){0}));
    shut(fd);
}

static void transfers(void) {
    int fd = opened("moved", O_RDWR | O_CREAT | O_TRUNC);
    int64_t at = 0;
    TIMES { DO("write", "moved", at, 4093, write(fd, buffer, some)); at += 4093; }
    TIMES { DO("writev", "moved", at, 1013, writev(fd, parts, 3)); at += 1013; }
    TIMES DO("pwrite", "moved", 4096 * left_, 4093, pwrite(fd, buffer, some, 4096 * left_));
    TIMES DO("pwrite64", "moved", 4096 * left_, 4093, pwrite64(fd, buffer, some, 4096 * left_));
    TIMES DO("pwritev", "moved", 64 * left_, 1013, pwritev(fd, parts, 3, 64 * left_));
    TIMES DO("pwritev64", "moved", 64 * left_, 1013, pwritev64(fd, parts, 3, 64 * left_));
    TIMES DO("pwritev2", "moved", 64 * left_, 1013, pwritev2(fd, parts, 3, 64 * left_, 0));
    TIMES DO("pwritev64v2", "moved", 64 * left_, 1013, pwritev64v2(fd, parts, 3, 64 * left_, 0));
    DO("+ftruncate", "moved", ANY, 1 << 20, ftruncate(fd, 1 << 20)); /* long enough for all reads */
    DO("+lseek", "moved", ANY, ANY, lseek(fd, 0, SEEK_SET));
    at = 0;
    TIMES { DO("read", "moved", at, 4093, read(fd, buffer, some)); at += 4093; }
    TIMES { DO("readv", "moved", at, 1013, readv(fd, parts, 3)); at += 1013; }
    TIMES DO("pread", "moved", 4096 * left_, 4093, pread(fd, buffer, some, 4096 * left_));
    TIMES DO("pread64", "moved", 4096 * left_, 4093, pread64(fd, buffer, some, 4096 * left_));
    TIMES DO("preadv", "moved", 64 * left_, 1013, preadv(fd, parts, 3, 64 * left_));
    TIMES DO("preadv64", "moved", 64 * left_, 1013, preadv64(fd, parts, 3, 64 * left_));
    TIMES DO("preadv2", "moved", 64 * left_, 1013, preadv2(fd, parts, 3, 64 * left_, RWF_HIPRI));
    TIMES DO("preadv64v2", "moved", 64 * left_, 1013, preadv64v2(fd, parts, 3, 64 * left_, 0));
    TIMES { DO("preadv2:here", "moved", at, 1013, preadv2(fd, parts, 3, -1, 0)); at += 1013; }
    TIMES { at = 3 * left_; DO("lseek", "moved", ANY, ANY, lseek(fd, at, SEEK_SET)); }
    TIMES { at += 5; DO("lseek64", "moved", ANY, ANY, lseek64(fd, 5, SEEK_CUR)); }
    DO("+read", "moved", at, 1000, read(fd, buffer, 1000));
    int64_t end = DO("+lseek", "moved", ANY, ANY, lseek(fd, 0, SEEK_END));
    TIMES DO("read:end", "moved", end, 4093, read(fd, buffer, some));
    TIMES DO("read:bad", NULL, ANY, ANY, read(-1, buffer, some));
    TIMES DO("pread:bad", "moved", -1, 4093, pread(fd, buffer, some, -1));
    shut(fd);
    int append = opened("appended", O_WRONLY | O_CREAT | O_APPEND);
    TIMES DO("write:append", "appended", ANY, 4093, write(append, buffer, some));
    shut(append);
    int sparse = opened("sparse", O_RDWR | O_CREAT);
    const int64_t far = 5LL << 30; /* beyond 4 GiB: a position kept in 32 bits would show */
    TIMES DO("pwrite:far", "sparse", far + left_, 1, pwrite64(sparse, buffer, 1, far + left_));
    DO("+lseek", "sparse", ANY, ANY, lseek64(sparse, far, SEEK_SET));
    DO("+read", "sparse", far, 4093, read(sparse, buffer, some));
    shut(sparse);
}

static void inside_the_kernel(void) {
    int from = opened("moved", O_RDONLY), to = opened("copied", O_RDWR | O_CREAT | O_TRUNC), ends[2];
    MUST(pipe(ends) == 0);
    off64_t at, into;
    TIMES { at = 11; DO("sendfile", "moved", 11, 1009, sendfile(to, from, &at, 1009)); }
    TIMES { at = 13; DO("sendfile64", "moved", 13, 1009, sendfile64(to, from, &at, 1009)); }
    TIMES {
        at = 17, into = 19;
        DO("copy_file_range", "moved", 17, 1009, copy_file_range(from, &at, to, &into, 1009, 0));
    }
    TIMES {
        at = 23;
        DO("splice:in", "moved", 23, 1009, splice(from, &at, ends[1], NULL, 1009, 0));
        into = 29;
        DO("+splice_write", NULL, ANY, 1009, splice(ends[0], NULL, to, &into, 1009, 0));
    }
    shut(from), shut(to), shut(ends[0]), shut(ends[1]);
}

static void sizes(void) {
    int fd = opened("sized", O_RDWR | O_CREAT);
    TIMES DO("truncate", "sized", ANY, 1000 + left_, truncate(in("sized"), 1000 + left_));
    TIMES DO("truncate64", "sized", ANY, 1000 + left_, truncate64(in("sized"), 1000 + left_));
    TIMES DO("ftruncate", "sized", ANY, 1000 + left_, ftruncate(fd, 1000 + left_));
    TIMES DO("ftruncate64", "sized", ANY, 1000 + left_, ftruncate64(fd, 1000 + left_));
    TIMES DO("fallocate", "sized", 4096, 8192, fallocate(fd, 0, 4096, 8192));
    TIMES DO("fallocate64", "sized", 4096, 8192, fallocate64(fd, 0, 4096, 8192));
    TIMES DO("posix_fallocate", "sized", 8192, 4096, posix_fallocate(fd, 8192, 4096));
    TIMES DO("posix_fallocate64", "sized", 8192, 4096, posix_fallocate64(fd, 8192, 4096));
    TIMES DO("posix_fadvise", "sized", 0, 4096, posix_fadvise(fd, 0, 4096, POSIX_FADV_WILLNEED));
    TIMES DO("posix_fadvise64", "sized", 0, 4096, posix_fadvise64(fd, 0, 4096, POSIX_FADV_WILLNEED));
    TIMES DO("readahead", "sized", 0, 4096, readahead(fd, 0, 4096));
    shut(fd);
}

static void attributes(void) {
    struct stat s;
    struct stat64 s64;
    struct statx sx;
    struct statfs f;
    struct statfs64 f64;
    struct statvfs v;
    char path[600];
    strcpy(path, in("sized"));
    int fd = opened("sized", O_RDWR);
    TIMES DO("stat", "sized", ANY, ANY, stat(path, &s));
    TIMES DO("stat64", "sized", ANY, ANY, stat64(path, &s64));
    TIMES DO("lstat", "sized", ANY, ANY, lstat(path, &s));
    TIMES DO("lstat64", "sized", ANY, ANY, lstat64(path, &s64));
    TIMES DO("fstatat", "sized", ANY, ANY, fstatat(dir, "sized", &s, 0));
    TIMES DO("fstatat64", "sized", ANY, ANY, fstatat64(dir, "sized", &s64, 0));
    TIMES DO("statx", "sized", ANY, ANY, statx(dir, "sized", 0, STATX_BASIC_STATS, &sx));
    TIMES DO("stat:missing", "missing", ANY, ANY, stat(in("missing"), &s));
    TIMES DO("fstat", "sized", ANY, ANY, fstat(fd, &s));
    TIMES DO("fstat64", "sized", ANY, ANY, fstat64(fd, &s64));
    TIMES DO("access", "sized", ANY, ANY, access(path, R_OK));
    TIMES DO("faccessat", "sized", ANY, ANY, faccessat(dir, "sized", R_OK, 0));
    TIMES DO("euidaccess", "sized", ANY, ANY, euidaccess(path, R_OK));
    TIMES DO("statfs", "sized", ANY, ANY, statfs(path, &f));
    TIMES DO("statfs64", "sized", ANY, ANY, statfs64(path, &f64));
    TIMES DO("fstatfs", "sized", ANY, ANY, fstatfs(fd, &f));
    TIMES DO("statvfs", "sized", ANY, ANY, statvfs(path, &v));
    TIMES DO("fstatvfs", "sized", ANY, ANY, fstatvfs(fd, &v));
    TIMES DO("chmod", "sized", ANY, ANY, chmod(path, 0640));
    TIMES DO("fchmod", "sized", ANY, ANY, fchmod(fd, 0640));
    TIMES DO("fchmodat", "sized", ANY, ANY, fchmodat(dir, "sized", 0640, 0));
    TIMES DO("chown", "sized", ANY, ANY, chown(path, -1, -1));
    TIMES DO("lchown", "sized", ANY, ANY, lchown(path, -1, -1));
    TIMES DO("fchown", "sized", ANY, ANY, fchown(fd, -1, -1));
    TIMES DO("fchownat", "sized", ANY, ANY, fchownat(dir, "sized", -1, -1, 0));
    TIMES DO("utimensat", "sized", ANY, ANY, utimensat(dir, "sized", NULL, 0));
    TIMES DO("futimens", "sized", ANY, ANY, futimens(fd, NULL));
    TIMES DO("utimes", "sized", ANY, ANY, utimes(path, NULL));
    TIMES DO("utime", "sized", ANY, ANY, utime(path, NULL));
    TIMES DO("setxattr", "sized", ANY, ANY, setxattr(path, "user.x", "y", 1, 0));
    TIMES DO("getxattr", "sized", ANY, ANY, getxattr(path, "user.x", buffer, 10));
    TIMES DO("fgetxattr", "sized", ANY, ANY, fgetxattr(fd, "user.x", buffer, 10));
    TIMES DO("listxattr", "sized", ANY, ANY, listxattr(path, buffer, 1000));
    shut(fd);
}

static void names(void) {
    char a[64], b[64];
    #define A(what) (snprintf(a, sizeof a, "%s-%d", what, left_), a)
    #define B(what) (snprintf(b, sizeof b, "%s-%d", what, left_), b)
    TIMES DO("mkdir", A("dir"), ANY, ANY, mkdir(in(a), 0755));
    TIMES DO("rmdir", A("dir"), ANY, ANY, rmdir(in(a))); /* the larger prime: the last ones fail */
    TIMES DO("mkdirat", A("dirat"), ANY, ANY, mkdirat(dir, a, 0755));
    TIMES DO("symlink", A("symlink"), ANY, ANY, symlink("sized", in(a)));
    TIMES DO("symlinkat", A("symlinkat"), ANY, ANY, symlinkat("sized", dir, a));
    TIMES DO("readlink", A("symlink"), ANY, ANY, readlink(in(a), buffer, sizeof buffer));
    TIMES DO("readlinkat", A("symlinkat"), ANY, ANY, readlinkat(dir, a, buffer, sizeof buffer));
    TIMES DO("link", "sized", ANY, ANY, link(in("sized"), in(A("link"))));
    TIMES DO("linkat", "sized", ANY, ANY, linkat(dir, "sized", dir, A("linkat"), 0));
    TIMES { B("rename"); DO("rename", A("link"), ANY, ANY, rename(in(a), in(b))); }
    TIMES { B("renameat"); DO("renameat", A("linkat"), ANY, ANY, renameat(dir, a, dir, b)); }
    TIMES { B("renameat2"); DO("renameat2", A("symlink"), ANY, ANY, renameat2(dir, a, dir, b, RENAME_NOREPLACE)); }
    TIMES DO("unlink", A("rename"), ANY, ANY, unlink(in(a)));
    TIMES DO("unlinkat", A("renameat"), ANY, ANY, unlinkat(dir, a, 0));
    TIMES DO("unlinkat:dir", A("dirat"), ANY, ANY, unlinkat(dir, a, AT_REMOVEDIR));
    TIMES DO("remove", A("symlinkat"), ANY, ANY, remove(in(a)));
    TIMES DO("mkfifo", A("fifo"), ANY, ANY, mkfifo(in(a), 0600));
    TIMES DO("mknod", A("node"), ANY, ANY, mknod(in(a), S_IFREG | 0600, 0));
    TIMES DO("mknodat", A("nodeat"), ANY, ANY, mknodat(dir, a, S_IFREG | 0600, 0));
    TIMES { char t[] = "/tmp/witness-XXXXXX"; shut(DO("mkstemp", NULL, ANY, ANY, mkstemp(t))); raw(SYS_unlink, (long)t, 0, 0, 0, 0, 0); }
    TIMES { char t[] = "/tmp/witness-XXXXXX"; shut(DO("mkostemp", NULL, ANY, ANY, mkostemp(t, O_CLOEXEC))); raw(SYS_unlink, (long)t, 0, 0, 0, 0, 0); }
    TIMES { char t[] = "/tmp/witness-XXXXXX.c"; shut(DO("mkstemps", NULL, ANY, ANY, mkstemps(t, 2))); raw(SYS_unlink, (long)t, 0, 0, 0, 0, 0); }
    TIMES shut(DO("memfd_create", NULL, ANY, ANY, memfd_create("witness", 0)));
}

static void directories(void) {
    DO("+mkdir", "listed", ANY, ANY, mkdir(in("listed"), 0755));
    for (int i = 0; i < 701; i++) { /* more than one buffer of getdents */
        char name[40];
        snprintf(name, sizeof name, "listed/entry-%d", i);
        raw(SYS_mknod, (long)in(name), S_IFREG | 0600, 0, 0, 0, 0);
    }
    DIR *d = NULL;
    TIMES {
        d = DO_AS("opendir", "listed", ANY, ANY, opendir(in("listed")), dirfd(r));
        DO("closedir", "listed", ANY, ANY, closedir(d));
    }
    int fd = opened("listed", O_RDONLY | O_DIRECTORY);
    d = DO_AS("+fdopendir", "listed", ANY, ANY, fdopendir(fd), dirfd(r));
    int entries = 0;
    while (DO_AS("readdir", "listed", ANY, ANY, readdir(d), r != NULL)) entries++;
    rewinddir(d);
    while (DO_AS("readdir64", "listed", ANY, ANY, readdir64(d), r != NULL)) entries++;
    MUST(entries == 2 * 703);
    DO("+closedir", "listed", ANY, ANY, closedir(d));
    TIMES DO("chdir", "listed", ANY, ANY, chdir(in("listed")));
    TIMES DO("fchdir", NULL, ANY, ANY, fchdir(dir));
}

static void mappings(void) {
    int fd = opened("moved", O_RDWR);
    void *map;
    TIMES {
        map = DO("mmap", "moved", 4096, 8192, mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, fd, 4096));
        DO("munmap", "moved", ANY, 8192, munmap(map, 8192));
    }
    TIMES {
        map = DO("mmap64", "moved", 4096, 8192, mmap64(NULL, 8192, PROT_READ, MAP_SHARED, fd, 4096));
        DO("+munmap", "moved", ANY, 8192, munmap(map, 8192));
    }
    map = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); /* no file: no row */
    munmap(map, 8192);
    shut(fd);
}

int main(int argc, char **argv) {
    MUST(argc == 2);
    work = argv[1];
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){4096, 4096});
    dir = DO("+open", NULL, ANY, ANY, open(work, O_RDONLY | O_DIRECTORY));
    flushes();
    openings();
    duplicates();
    transfers();
    inside_the_kernel();
    sizes();
    attributes();
    names();
    directories();
    mappings();
    shut(dir);
    return 0;
}
