//! The system calls that are recorded, and which of their arguments are looked at.

/// A call.
pub struct Recorded {
    nr: i64,
    name: &'static str,
    /// Arguments, from 0, that are paths and descriptors.
    paths: &'static [u32],
    descriptors: &'static [u32],
    /// Sum of what follows.
    flags: u32,
}

// As bpf/syscall.c names them.
const WANTED: u32 = 0x1;
const MAKES: u32 = 0x10_0000;
const MOVES: u32 = 0x20_0000;
const VECTOR: u32 = 0x40_0000;
const HOW: u32 = 0x80_0000;
const NAMES: u32 = 0x100_0000;
const SECOND_OFFSET: u32 = 0x200_0000;
const THIRD_OFFSET: u32 = 0x400_0000;

macro_rules! calls {
    ($($nr:ident $name:ident $paths:tt $descriptors:tt $flags:expr;)*) => {
        pub const CALLS: &[Recorded] = &[$(Recorded {
            nr: libc::$nr,
            name: stringify!($name),
            paths: &$paths,
            descriptors: &$descriptors,
            flags: $flags,
        },)*];
    };
}

calls! {
    SYS_open open [0] [] MAKES | NAMES;
    SYS_openat openat [1] [0] MAKES | NAMES;
    SYS_openat2 openat2 [1] [0] MAKES | NAMES | HOW;
    SYS_creat creat [0] [] MAKES | NAMES;
    SYS_chdir chdir [0] [] NAMES;
    SYS_fchdir fchdir [] [0] NAMES;
    SYS_chroot chroot [0] [] 0;
    SYS_close close [] [0] 0;
    SYS_close_range close_range [] [] 0;
    SYS_dup dup [] [0] 0;
    SYS_dup2 dup2 [] [0] 0;
    SYS_dup3 dup3 [] [0] 0;
    SYS_fcntl fcntl [] [0] 0;
    SYS_ioctl ioctl [] [0] 0;

    SYS_read read [] [0] MOVES;
    SYS_write write [] [0] MOVES;
    SYS_pread64 pread64 [] [0] 0;
    SYS_pwrite64 pwrite64 [] [0] 0;
    SYS_readv readv [] [0] MOVES | VECTOR;
    SYS_writev writev [] [0] MOVES | VECTOR;
    SYS_preadv preadv [] [0] VECTOR;
    SYS_pwritev pwritev [] [0] VECTOR;
    SYS_preadv2 preadv2 [] [0] MOVES | VECTOR;
    SYS_pwritev2 pwritev2 [] [0] MOVES | VECTOR;
    SYS_lseek lseek [] [0] 0;
    SYS_sendfile sendfile [] [1, 0] MOVES | THIRD_OFFSET;
    SYS_copy_file_range copy_file_range [] [0, 2] MOVES | SECOND_OFFSET;
    SYS_splice splice [] [0, 2] MOVES | SECOND_OFFSET;
    SYS_tee tee [] [0, 1] 0;
    SYS_fsync fsync [] [0] 0;
    SYS_fdatasync fdatasync [] [0] 0;
    SYS_sync sync [] [] 0;
    SYS_syncfs syncfs [] [0] 0;
    SYS_sync_file_range sync_file_range [] [0] 0;
    SYS_truncate truncate [0] [] 0;
    SYS_ftruncate ftruncate [] [0] 0;
    SYS_fallocate fallocate [] [0] 0;
    SYS_fadvise64 fadvise64 [] [0] 0;
    SYS_readahead readahead [] [0] 0;
    SYS_mmap mmap [] [4] 0;

    SYS_stat stat [0] [] 0;
    SYS_fstat fstat [] [0] 0;
    SYS_lstat lstat [0] [] 0;
    SYS_newfstatat newfstatat [1] [0] 0;
    SYS_statx statx [1] [0] 0;
    SYS_statfs statfs [0] [] 0;
    SYS_fstatfs fstatfs [] [0] 0;
    SYS_access access [0] [] 0;
    SYS_faccessat faccessat [1] [0] 0;
    SYS_faccessat2 faccessat2 [1] [0] 0;
    SYS_rename rename [0, 1] [] 0;
    SYS_renameat renameat [1, 3] [0, 2] 0;
    SYS_renameat2 renameat2 [1, 3] [0, 2] 0;
    SYS_link link [0, 1] [] 0;
    SYS_linkat linkat [1, 3] [0, 2] 0;
    SYS_symlink symlink [0, 1] [] 0;
    SYS_symlinkat symlinkat [0, 2] [1] 0;
    SYS_readlink readlink [0] [] 0;
    SYS_readlinkat readlinkat [1] [0] 0;
    SYS_unlink unlink [0] [] 0;
    SYS_unlinkat unlinkat [1] [0] 0;
    SYS_mkdir mkdir [0] [] 0;
    SYS_mkdirat mkdirat [1] [0] 0;
    SYS_rmdir rmdir [0] [] 0;
    SYS_mknod mknod [0] [] 0;
    SYS_mknodat mknodat [1] [0] 0;
    SYS_chmod chmod [0] [] 0;
    SYS_fchmod fchmod [] [0] 0;
    SYS_fchmodat fchmodat [1] [0] 0;
    SYS_chown chown [0] [] 0;
    SYS_lchown lchown [0] [] 0;
    SYS_fchown fchown [] [0] 0;
    SYS_fchownat fchownat [1] [0] 0;
    SYS_utime utime [0] [] 0;
    SYS_utimes utimes [0] [] 0;
    SYS_utimensat utimensat [1] [0] 0;
    SYS_getdents getdents [] [0] 0;
    SYS_getdents64 getdents64 [] [0] 0;
    SYS_getxattr getxattr [0] [] 0;
    SYS_lgetxattr lgetxattr [0] [] 0;
    SYS_fgetxattr fgetxattr [] [0] 0;
    SYS_setxattr setxattr [0] [] 0;
    SYS_lsetxattr lsetxattr [0] [] 0;
    SYS_fsetxattr fsetxattr [] [0] 0;
    SYS_listxattr listxattr [0] [] 0;
    SYS_llistxattr llistxattr [0] [] 0;
    SYS_flistxattr flistxattr [] [0] 0;
    SYS_removexattr removexattr [0] [] 0;
    SYS_lremovexattr lremovexattr [0] [] 0;
    SYS_fremovexattr fremovexattr [] [0] 0;

    SYS_flock flock [] [0] 0;
    SYS_accept accept [] [0] 0;
    SYS_accept4 accept4 [] [0] 0;
    SYS_connect connect [] [0] 0;
    SYS_sendto sendto [] [0] 0;
    SYS_recvfrom recvfrom [] [0] 0;
    SYS_sendmsg sendmsg [] [0] 0;
    SYS_recvmsg recvmsg [] [0] 0;
    SYS_sendmmsg sendmmsg [] [0] 0;
    SYS_recvmmsg recvmmsg [] [0] 0;
    SYS_poll poll [] [] 0;
    SYS_ppoll ppoll [] [] 0;
    SYS_select select [] [] 0;
    SYS_pselect6 pselect6 [] [] 0;
    SYS_epoll_wait epoll_wait [] [0] 0;
    SYS_epoll_pwait epoll_pwait [] [0] 0;
    SYS_epoll_pwait2 epoll_pwait2 [] [0] 0;
    SYS_wait4 wait4 [] [] 0;
    SYS_waitid waitid [] [] 0;
    SYS_nanosleep nanosleep [] [] 0;
    SYS_clock_nanosleep clock_nanosleep [] [] 0;
    SYS_pause pause [] [] 0;
}

impl Recorded {
    /// Its number, as bpf/syscall.c takes it.
    pub fn key(&self) -> u32 {
        self.nr as u32
    }

    /// What bpf/syscall.c looks at: flags, and the places plus one in nibbles.
    pub fn form(&self) -> u32 {
        let nibbles = |places: &[u32], first: usize| {
            let at = |(which, place): (usize, &u32)| (place + 1) << (4 * (which + first));
            places.iter().enumerate().map(at).sum::<u32>()
        };
        WANTED | self.flags | nibbles(self.paths, 1) | nibbles(self.descriptors, 3)
    }
}

/// The name of a call that is recorded.
#[must_use]
pub fn name(nr: u32) -> Option<&'static str> {
    CALLS.iter().find(|call| call.key() == nr).map(|call| call.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form_of(name: &str) -> u32 {
        CALLS.iter().find(|call| call.name == name).unwrap().form()
    }

    #[test]
    fn places_in_nibbles() {
        assert_eq!(form_of("sync"), 0x001);
        assert_eq!(form_of("stat"), 0x011);
        assert_eq!(form_of("renameat2"), 0x31421);
        assert_eq!(form_of("read"), 0x20_1001);
        assert_eq!(form_of("openat2"), 0x190_1021);
    }

    #[test]
    fn every_call_is_one_the_programs_have_room_for() {
        const MOST_CALLS: i64 = 1024; // bpf/syscall.c
        for (n, call) in CALLS.iter().enumerate() {
            let name = call.name;
            assert!((0..MOST_CALLS).contains(&call.nr), "{name}");
            assert!(call.paths.len() <= 2 && call.descriptors.len() <= 2, "{name}");
            assert!(call.paths.iter().chain(call.descriptors).all(|&place| place < 6), "{name}");
            assert!(CALLS[..n].iter().all(|other| other.nr != call.nr), "{name} is there twice");
            assert_eq!(super::name(call.key()), Some(name));
        }
    }
}
