//! What the names of errors and flags stand for, on Linux for x86-64.

macro_rules! errors {
    ($($name:ident)*) => {
        /// The number of an error's name.
        pub(crate) fn errno(name: &[u8]) -> Option<i64> {
            $(const $name: &[u8] = stringify!($name).as_bytes();)*
            Some(match name {
                $($name => i64::from(libc::$name),)*
                // What the kernel uses inside and strace shows (include/linux/errno.h).
                b"ERESTARTSYS" => 512,
                b"ERESTARTNOINTR" => 513,
                b"ERESTARTNOHAND" => 514,
                b"ERESTART_RESTARTBLOCK" => 516,
                _ => return None,
            })
        }

        /// The name of an error's number.
        #[must_use]
        pub fn errno_name(number: i32) -> Option<&'static str> {
            [$((libc::$name, stringify!($name)),)*].iter().find(|row| row.0 == number).map(|row| row.1)
        }
    };
}

errors! {
    EPERM ENOENT ESRCH EINTR EIO ENXIO E2BIG ENOEXEC EBADF ECHILD EAGAIN ENOMEM EACCES EFAULT ENOTBLK EBUSY
    EEXIST EXDEV ENODEV ENOTDIR EISDIR EINVAL ENFILE EMFILE ENOTTY ETXTBSY EFBIG ENOSPC ESPIPE EROFS EMLINK
    EPIPE EDOM ERANGE EDEADLK EDEADLOCK ENAMETOOLONG ENOLCK ENOSYS ENOTEMPTY ELOOP EWOULDBLOCK ENOMSG EIDRM
    ECHRNG EL2NSYNC EL3HLT EL3RST ELNRNG EUNATCH ENOCSI EL2HLT EBADE EBADR EXFULL ENOANO EBADRQC EBADSLT
    EBFONT ENOSTR ENODATA ETIME ENOSR ENONET ENOPKG EREMOTE ENOLINK EADV ESRMNT ECOMM EPROTO EMULTIHOP
    EDOTDOT EBADMSG EOVERFLOW ENOTUNIQ EBADFD EREMCHG ELIBACC ELIBBAD ELIBSCN ELIBMAX ELIBEXEC EILSEQ
    ERESTART ESTRPIPE EUSERS ENOTSOCK EDESTADDRREQ EMSGSIZE EPROTOTYPE ENOPROTOOPT EPROTONOSUPPORT
    ESOCKTNOSUPPORT EOPNOTSUPP ENOTSUP EPFNOSUPPORT EAFNOSUPPORT EADDRINUSE EADDRNOTAVAIL ENETDOWN
    ENETUNREACH ENETRESET ECONNABORTED ECONNRESET ENOBUFS EISCONN ENOTCONN ESHUTDOWN ETOOMANYREFS ETIMEDOUT
    ECONNREFUSED EHOSTDOWN EHOSTUNREACH EALREADY EINPROGRESS ESTALE EUCLEAN ENOTNAM ENAVAIL EISNAM
    EREMOTEIO EDQUOT ENOMEDIUM EMEDIUMTYPE ECANCELED ENOKEY EKEYEXPIRED EKEYREVOKED EKEYREJECTED EOWNERDEAD
    ENOTRECOVERABLE ERFKILL EHWPOISON
}

/// Flags of open, separated by `|`: names and numbers. Unknown names add nothing.
pub(crate) fn open_flags(words: &[u8]) -> Option<i64> {
    let mut flags = 0;
    for word in words.split(|byte| *byte == b'|') {
        flags |= match word {
            b"O_ACCMODE" => libc::O_ACCMODE.into(),
            b"O_WRONLY" => libc::O_WRONLY.into(),
            b"O_RDWR" => libc::O_RDWR.into(),
            b"O_CREAT" => libc::O_CREAT.into(),
            b"O_EXCL" => libc::O_EXCL.into(),
            b"O_NOCTTY" => libc::O_NOCTTY.into(),
            b"O_TRUNC" => libc::O_TRUNC.into(),
            b"O_APPEND" => libc::O_APPEND.into(),
            b"O_NONBLOCK" | b"O_NDELAY" => libc::O_NONBLOCK.into(),
            b"O_DSYNC" => libc::O_DSYNC.into(),
            b"O_SYNC" | b"O_RSYNC" | b"O_FSYNC" => libc::O_SYNC.into(),
            b"O_ASYNC" => libc::O_ASYNC.into(),
            b"O_DIRECT" => libc::O_DIRECT.into(),
            b"O_DIRECTORY" => libc::O_DIRECTORY.into(),
            b"O_NOFOLLOW" => libc::O_NOFOLLOW.into(),
            b"O_NOATIME" => libc::O_NOATIME.into(),
            b"O_CLOEXEC" => libc::O_CLOEXEC.into(),
            b"O_PATH" => libc::O_PATH.into(),
            b"O_TMPFILE" => libc::O_TMPFILE.into(),
            [b'0'..=b'9', ..] => crate::arguments::any_number(word).ok()?.unwrap_or(0),
            _ => 0,
        };
    }
    Some(flags)
}

/// Flags of mmap as a trail has them: PROT_* in the low 8 bits, then MAP_* (the recorder's form).
pub(crate) fn mmap_flags(words: &[u8]) -> i64 {
    words.split(|byte| *byte == b'|').fold(0, |flags, word| {
        flags
            | match word {
                b"PROT_READ" => 1,
                b"PROT_WRITE" => 2,
                b"PROT_EXEC" => 4,
                b"MAP_SHARED" => 1 << 8,
                b"MAP_PRIVATE" => 2 << 8,
                b"MAP_SHARED_VALIDATE" => 3 << 8,
                b"MAP_FIXED" => 0x10 << 8,
                _ => 0,
            }
    })
}

/// Commands of fcntl that have rows (include/uapi/linux/fcntl.h).
pub(crate) fn fcntl_command(name: &[u8]) -> Option<i64> {
    Some(match name {
        b"F_SETFL" => 4,
        b"F_GETLK" | b"F_GETLK64" => 5,
        b"F_SETLK" | b"F_SETLK64" => 6,
        b"F_SETLKW64" => 7,
        b"F_SETOWN" => 8,
        b"F_GETOWN" => 9,
        b"F_SETSIG" => 10,
        b"F_GETSIG" => 11,
        b"F_OFD_GETLK" => 36,
        b"F_OFD_SETLK" => 37,
        b"F_SETLEASE" => 1024,
        b"F_GETLEASE" => 1025,
        b"F_NOTIFY" => 1026,
        b"F_SETPIPE_SZ" => 1031,
        b"F_GETPIPE_SZ" => 1032,
        b"F_ADD_SEALS" => 1033,
        b"F_GET_SEALS" => 1034,
        _ => return None,
    })
}

/// Where lseek counts from.
pub(crate) fn whence(name: &[u8]) -> Option<i64> {
    let names: [&[u8]; 5] = [b"SEEK_SET", b"SEEK_CUR", b"SEEK_END", b"SEEK_DATA", b"SEEK_HOLE"];
    names.iter().position(|known| *known == name).map(|at| at as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_for_numbers() {
        // Both names of one number, which strace and the C library choose differently.
        assert_eq!(errno(b"EOPNOTSUPP"), errno(b"ENOTSUP"));
        assert_eq!(errno(b"EDEADLK"), Some(35));
        assert_eq!(errno_name(libc::EOPNOTSUPP), Some("EOPNOTSUPP"));
        assert_eq!(errno_name(4000), None);
        assert_eq!(errno(b"EAGAIN"), Some(11));
        assert_eq!(errno(b"ERESTARTSYS"), Some(512));
        assert_eq!(errno(b"(Success)"), None);
        assert_eq!(open_flags(b"O_RDWR|O_CREAT|O_CLOEXEC|0x8000000|O_NEW"), Some(0o2_000_102 | 0x800_0000));
        assert_eq!(open_flags(b"0xg"), None);
        assert_eq!(mmap_flags(b"PROT_READ|PROT_EXEC|MAP_PRIVATE|MAP_FIXED|MAP_DENYWRITE"), 5 | 0x12 << 8);
        assert_eq!((whence(b"SEEK_END"), whence(b"SEEK")), (Some(2), None));
    }
}
