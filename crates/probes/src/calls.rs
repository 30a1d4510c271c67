//! The system calls that are recorded, and which of their arguments are paths.

/// A call's number and the places of its paths among its arguments, from 0.
pub const CALLS: &[(i64, &[u32])] = &[
    (libc::SYS_open, &[0]),
    (libc::SYS_openat, &[1]),
    (libc::SYS_openat2, &[1]),
    (libc::SYS_creat, &[0]),
    (libc::SYS_close, &[]),
    (libc::SYS_close_range, &[]),
    (libc::SYS_dup, &[]),
    (libc::SYS_dup2, &[]),
    (libc::SYS_dup3, &[]),
    (libc::SYS_fcntl, &[]),
    (libc::SYS_read, &[]),
    (libc::SYS_write, &[]),
    (libc::SYS_pread64, &[]),
    (libc::SYS_pwrite64, &[]),
    (libc::SYS_readv, &[]),
    (libc::SYS_writev, &[]),
    (libc::SYS_preadv, &[]),
    (libc::SYS_pwritev, &[]),
    (libc::SYS_preadv2, &[]),
    (libc::SYS_pwritev2, &[]),
    (libc::SYS_lseek, &[]),
    (libc::SYS_fsync, &[]),
    (libc::SYS_fdatasync, &[]),
    (libc::SYS_sync, &[]),
    (libc::SYS_syncfs, &[]),
    (libc::SYS_sync_file_range, &[]),
    (libc::SYS_truncate, &[0]),
    (libc::SYS_ftruncate, &[]),
    (libc::SYS_fallocate, &[]),
    (libc::SYS_fadvise64, &[]),
    (libc::SYS_readahead, &[]),
    (libc::SYS_stat, &[0]),
    (libc::SYS_fstat, &[]),
    (libc::SYS_lstat, &[0]),
    (libc::SYS_newfstatat, &[1]),
    (libc::SYS_statx, &[1]),
    (libc::SYS_statfs, &[0]),
    (libc::SYS_fstatfs, &[]),
    (libc::SYS_access, &[0]),
    (libc::SYS_faccessat, &[1]),
    (libc::SYS_faccessat2, &[1]),
    (libc::SYS_rename, &[0, 1]),
    (libc::SYS_renameat, &[1, 3]),
    (libc::SYS_renameat2, &[1, 3]),
    (libc::SYS_link, &[0, 1]),
    (libc::SYS_linkat, &[1, 3]),
    (libc::SYS_symlink, &[0, 1]),
    (libc::SYS_symlinkat, &[0, 2]),
    (libc::SYS_readlink, &[0]),
    (libc::SYS_readlinkat, &[1]),
    (libc::SYS_unlink, &[0]),
    (libc::SYS_unlinkat, &[1]),
    (libc::SYS_mkdir, &[0]),
    (libc::SYS_mkdirat, &[1]),
    (libc::SYS_rmdir, &[0]),
    (libc::SYS_getdents, &[]),
    (libc::SYS_getdents64, &[]),
    (libc::SYS_mmap, &[]),
    (libc::SYS_munmap, &[]),
    (libc::SYS_msync, &[]),
    (libc::SYS_sendfile, &[]),
    (libc::SYS_copy_file_range, &[]),
    (libc::SYS_splice, &[]),
    (libc::SYS_flock, &[]),
];

/// As bpf/syscall.c takes it: WANTED, and the places plus one in nibbles.
pub fn form(paths: &[u32]) -> u32 {
    let nibbles = paths.iter().enumerate().map(|(which, place)| (place + 1) << (4 * (which + 1)));
    1 | nibbles.sum::<u32>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_in_nibbles() {
        assert_eq!(form(&[]), 0x001);
        assert_eq!(form(&[0]), 0x011);
        assert_eq!(form(&[1, 3]), 0x421);
    }

    #[test]
    fn every_call_is_one_the_programs_have_room_for() {
        const MOST_CALLS: i64 = 1024; // bpf/syscall.c
        for (n, (nr, paths)) in CALLS.iter().enumerate() {
            assert!((0..MOST_CALLS).contains(nr), "{nr}");
            assert!(paths.len() <= 2 && paths.iter().all(|&place| place < 6), "{nr}");
            assert!(CALLS[..n].iter().all(|(other, _)| other != nr), "{nr} is there twice");
        }
    }
}
