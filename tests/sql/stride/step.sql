-- As pattern: jumps are 8192 and back; strides begin and end at blocks; nothing but reads, so no switch.
SELECT kind, ops, consecutive_ops, jump_ops, jump_bytes, strided_ops, strided_bytes, unaligned_ops, switch_ops FROM step
