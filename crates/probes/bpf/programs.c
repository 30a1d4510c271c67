// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
// All sources are one object, so that they share one ring buffer and one set of processes; user space
// attaches only the programs of the sources asked for. They need Linux 5.18 (sched_switch's prev_state).
#include <linux/types.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "records.h"
#include "shared.h"
#include "targets.c"
#include "opened.c"
#include "disk.c"
#include "sched.c"
#include "wake.c"
#include "syscall.c"
#include "process.c"
#include "uring.c"

// The kernel lends bpf_probe_read_kernel and BTF tracepoints to programs under the GPL only.
char LICENSE[] SEC("license") = "GPL";
