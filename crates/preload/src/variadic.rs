//! Functions with a variable number of arguments, which stable Rust can't define.

/// The `va_list` of the System V ABI for x86-64 (section 3.5.7).
#[repr(C)]
pub struct Arguments {
    general: u32,
    floating: u32,
    overflow: *const usize,
    saved: *const u8,
}

impl Arguments {
    /// The next integer or pointer.
    ///
    /// # Safety
    /// The caller passed one more.
    pub unsafe fn next(&mut self) -> usize {
        // SAFETY: six general registers were saved; what follows stands on the stack.
        unsafe {
            if self.general < 48 {
                self.general += 8;
                self.saved.add(self.general as usize - 8).cast::<usize>().read()
            } else {
                self.overflow = self.overflow.add(1);
                self.overflow.sub(1).read()
            }
        }
    }
}

/// Defines the `...` form of a function over its `va_list` form: stable Rust can't define the former.
/// Builds the `va_list` of the System V ABI for x86-64 (section 3.5.7) from the registers and passes
/// its address after the `fixed` named arguments; `into` is that argument's register.
macro_rules! variadic {
    ($($name:ident => $target:path, $fixed:literal, $into:literal;)*) => {$(
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "sub rsp, 216",
                ".cfi_adjust_cfa_offset 216",
                "mov [rsp + 32], rdi",
                "mov [rsp + 40], rsi",
                "mov [rsp + 48], rdx",
                "mov [rsp + 56], rcx",
                "mov [rsp + 64], r8",
                "mov [rsp + 72], r9",
                "test al, al",
                "je 2f",
                "movaps [rsp + 80], xmm0",
                "movaps [rsp + 96], xmm1",
                "movaps [rsp + 112], xmm2",
                "movaps [rsp + 128], xmm3",
                "movaps [rsp + 144], xmm4",
                "movaps [rsp + 160], xmm5",
                "movaps [rsp + 176], xmm6",
                "movaps [rsp + 192], xmm7",
                "2:",
                concat!("mov dword ptr [rsp], 8 * ", $fixed),
                "mov dword ptr [rsp + 4], 48",
                "lea rax, [rsp + 224]",
                "mov [rsp + 8], rax",
                "lea rax, [rsp + 32]",
                "mov [rsp + 16], rax",
                concat!("mov ", $into, ", rsp"),
                "call {target}",
                "add rsp, 216",
                ".cfi_adjust_cfa_offset -216",
                "ret",
                ".cfi_endproc",
                target = sym $target)
        }
    )*};
}
pub(crate) use variadic;
