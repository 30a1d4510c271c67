// A file system that gives what another folder has, and sleeps 12 ms in each read: the slow mount of the examples.
//     slowfs BACKING MOUNTPOINT
#define FUSE_USE_VERSION 31
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int backing;

static const char *below(const char *path) { return path[1] ? path + 1 : "."; }

static int slow_getattr(const char *path, struct stat *into, struct fuse_file_info *file) {
    (void)file;
    return fstatat(backing, below(path), into, AT_SYMLINK_NOFOLLOW) ? -errno : 0;
}

static int slow_open(const char *path, struct fuse_file_info *file) {
    int opened = openat(backing, below(path), file->flags & O_ACCMODE);
    if (opened < 0) return -errno;
    file->fh = opened;
    return 0;
}

static int slow_read(const char *path, char *into, size_t size, off_t at, struct fuse_file_info *file) {
    (void)path;
    usleep(12000);
    ssize_t moved = pread((int)file->fh, into, size, at);
    return moved < 0 ? -errno : (int)moved;
}

static int slow_release(const char *path, struct fuse_file_info *file) {
    (void)path;
    return close((int)file->fh) ? -errno : 0;
}

static const struct fuse_operations operations = {
    .getattr = slow_getattr, .open = slow_open, .read = slow_read, .release = slow_release};

int main(int count, char **arguments) {
    if (count != 3) {
        fprintf(stderr, "usage: slowfs BACKING MOUNTPOINT\n");
        return 2;
    }
    backing = open(arguments[1], O_RDONLY | O_DIRECTORY);
    if (backing < 0) {
        perror(arguments[1]);
        return 1;
    }
    char *own[] = {arguments[0], "-o", "fsname=slowfs", arguments[2]};
    return fuse_main(4, own, &operations, NULL);
}
