//! Workers parked in `mpsc::recv` while the first thread computes: channels MILLISECONDS.
//!
//! Prints the first thread's CPU time in ns (CLOCK_THREAD_CPUTIME_ID) and 42, what the workers were sent together.

use std::sync::mpsc::channel;
use std::time::Duration;

unsafe extern "C" {
    fn clock_gettime(clock: i32, time: *mut [i64; 2]) -> i32;
}
const CLOCK_THREAD_CPUTIME_ID: i32 = 3;

fn cpu() -> Duration {
    let mut time = [0; 2];
    assert_eq!(unsafe { clock_gettime(CLOCK_THREAD_CPUTIME_ID, &mut time) }, 0);
    Duration::new(time[0] as u64, time[1] as u32)
}

fn main() {
    let amount = Duration::from_millis(std::env::args().nth(1).unwrap().parse().unwrap());
    let workers: Vec<_> = (0..3)
        .map(|_| {
            let (sender, receiver) = channel::<u64>();
            (sender, std::thread::spawn(move || receiver.iter().sum::<u64>()))
        })
        .collect();
    while cpu() < amount {}
    let mut sum = 0;
    for (sender, worker) in workers {
        sender.send(14).unwrap();
        drop(sender);
        sum += worker.join().unwrap();
    }
    println!("{} {}", cpu().as_nanos(), sum);
}
