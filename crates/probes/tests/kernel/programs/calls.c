// Calls that the test knows, made without the C library's help where that would make others.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

// Alone on its pages, farther from others than the kernel maps around a fault (64 KiB): nobody has touched it
// when the call is made.
static const char apart[1 << 18] __attribute__((aligned(1 << 17))) = { [1 << 17] = 'c', 'o', 'l', 'd' };

int main(int count, char **arguments)
{
	if (count != 2 || chdir(arguments[1]))
		return 2;
	char data[64] = { 0 };
	struct iovec parts[2] = { { data, 10 }, { data + 10, 7 } };
	struct stat stat;
	int fd = syscall(SYS_openat, AT_FDCWD, "begin", O_RDWR | O_CREAT | O_TRUNC, 0600);
	for (int i = 0; i < 101; i++)
		syscall(SYS_pwrite64, fd, data, 13, i * 13);
	syscall(SYS_lseek, fd, 5, SEEK_SET);
	syscall(SYS_read, fd, data, 17);
	syscall(SYS_writev, fd, parts, 2);
	syscall(SYS_fdatasync, fd);
	syscall(SYS_ftruncate, fd, 29);
	syscall(SYS_newfstatat, AT_FDCWD, "begin", &stat, 0);
	syscall(SYS_renameat2, AT_FDCWD, "begin", AT_FDCWD, "then", 0);
	syscall(SYS_open, "missing", O_RDONLY);
	syscall(SYS_open, (char *)8, O_RDONLY);
	syscall(SYS_open, apart + (1 << 17), O_RDONLY);
	syscall(SYS_mkdir, "folder", 0700);
	syscall(SYS_rmdir, "folder");
	syscall(SYS_unlink, "then");
	syscall(SYS_close, fd);
	syscall(SYS_exit_group, 0);
}
