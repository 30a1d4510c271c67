//! Threads that serve requests. The breadcrumb goes through the queue with the work.

use std::io;
use std::sync::{Arc, mpsc};
use std::thread::{Builder, JoinHandle};

use iotrail_sdk::request::Crumb;
use parking_lot::Mutex;

type Work = Box<dyn FnOnce() + Send>;

/// A pool of threads and its queue.
pub struct Workers {
    queue: Mutex<Option<mpsc::Sender<(Crumb, Work)>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Workers {
    /// Starts `count` threads.
    pub fn new(count: usize) -> io::Result<Self> {
        let (sender, receiver) = mpsc::channel::<(Crumb, Work)>();
        let receiver = Arc::new(Mutex::new(receiver));
        let start = |number| {
            let receiver = Arc::clone(&receiver);
            let take = move || receiver.lock().recv();
            Builder::new().name(format!("worker-{number}")).spawn(move || {
                while let Ok((crumb, work)) = take() {
                    let _here = crumb.take();
                    work();
                }
            })
        };
        let threads = (0..count).map(start).collect::<io::Result<_>>()?;
        Ok(Self { queue: Mutex::new(Some(sender)), threads: Mutex::new(threads) })
    }

    /// Queues work for a breadcrumb. After [`Self::end`] there is none to be done.
    pub fn add(&self, crumb: Crumb, work: impl FnOnce() + Send + 'static) {
        if let Some(queue) = &*self.queue.lock() {
            // Its receivers live as long as the queue.
            let _ = queue.send((crumb, Box::new(work)));
        }
    }

    /// Waits until all that was queued is done.
    pub fn end(&self) {
        self.queue.lock().take();
        for thread in self.threads.lock().drain(..) {
            if thread.join().is_err() {
                eprintln!("store: a worker ended early");
            }
        }
    }
}
