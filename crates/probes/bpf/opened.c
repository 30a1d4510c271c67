// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
// What a descriptor stands for, by the kernel's own table: however it came to be there.

struct super_block {
	__u32 s_dev;
	unsigned long s_magic;
} KERNEL;

struct inode {
	unsigned short i_mode;
	__u32 i_rdev;
	unsigned long i_ino;
	struct super_block *i_sb;
} KERNEL;

struct file {
	struct inode *f_inode;
	unsigned int f_flags;
	long long f_pos;
} KERNEL;

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
} KERNEL;

struct files_struct {
	struct fdtable *fdt;
} KERNEL;

struct task_struct___files {
	struct files_struct *files;
} KERNEL;

// include/uapi/linux/stat.h, magic.h, major.h; include/uapi/asm-generic/fcntl.h
#define TYPE 0170000
#define FIFO 0010000
#define CHARACTERS 0020000
#define SOCKET 0140000
#define ANONYMOUS_MAGIC 0x09041934
#define TTY_MAJOR 4
#define TTY_AUX_MAJOR 5
#define PTY_SLAVE_MAJOR 136
#define PTY_SLAVE_MAJORS 8
#define O_APPEND 02000

static __always_inline struct file *file_of(__u64 argument)
{
	__u32 fd = argument;
	struct task_struct___files *current = (void *)bpf_get_current_task_btf();
	struct files_struct *files = current->files;
	struct file *file = 0;
	if (files && fd < files->fdt->max_fds)
		bpf_probe_read_kernel(&file, sizeof(file), files->fdt->fd + fd);
	return file;
}

static __always_inline bool is_terminal(__u32 device)
{
	__u32 major = device >> 20;
	return major == TTY_MAJOR || major == TTY_AUX_MAJOR || major - PTY_SLAVE_MAJOR < PTY_SLAVE_MAJORS;
}

static __always_inline void look_at(struct file *file, struct opened *opened)
{
	if (!file)
		return;
	struct inode *inode = BPF_CORE_READ(file, f_inode);
	struct super_block *system = BPF_CORE_READ(inode, i_sb);
	__u32 type = BPF_CORE_READ(inode, i_mode) & TYPE;
	opened->file = (__u64)file;
	opened->inode = BPF_CORE_READ(inode, i_ino);
	opened->dev = BPF_CORE_READ(system, s_dev);
	opened->what = BPF_CORE_READ(file, f_flags) & O_APPEND ? APPENDS : 0;
	if (BPF_CORE_READ(system, s_magic) == ANONYMOUS_MAGIC)
		opened->what |= AN_EVENT;
	else if (type == FIFO)
		opened->what |= A_PIPE;
	else if (type == SOCKET)
		opened->what |= A_SOCKET;
	else if (type == CHARACTERS && is_terminal(BPF_CORE_READ(inode, i_rdev)))
		opened->what |= A_TERMINAL;
}

static __always_inline __s64 position(struct file *file)
{
	return file ? BPF_CORE_READ(file, f_pos) : -1;
}
