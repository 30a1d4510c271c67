//! Requests: each begins here, with a breadcrumb and the user it is for, and goes to a worker.

use std::collections::HashMap;
use std::sync::Arc;

use fuser::{INodeNo, Request};
use iotrail_sdk::request::{Crumb, Name, Service, Symbol};
use nix::unistd::{Uid, User};
use parking_lot::Mutex;

use super::workers::Workers;
use super::{HEAD, Head};
use crate::block::file_id;
use crate::calls::MdsCall;
use crate::rpc::Errno;

/// The file system as FUSE sees it.
pub struct Fuse {
    pub head: Arc<Head>,
    pub workers: Arc<Workers>,
    users: Mutex<HashMap<u32, Symbol>>,
}

/// What a request is about: a file, and bytes of it.
pub type About = (INodeNo, Option<(u64, u64)>);

impl Fuse {
    /// Serves with these threads.
    pub fn new(head: Arc<Head>, workers: Arc<Workers>) -> Self {
        Self { head, workers, users: Mutex::default() }
    }

    /// The name of a user, by which its requests are billed.
    fn user(&self, uid: u32) -> Symbol {
        *self.users.lock().entry(uid).or_insert_with(|| {
            let user = User::from_uid(Uid::from_raw(uid)).ok().flatten();
            Symbol::new(&user.map_or_else(|| format!("uid {uid}"), |user| user.name))
        })
    }

    /// A request arrives; a worker does it and replies.
    pub fn serve<T>(
        &self,
        op: &'static Name,
        request: &Request,
        about: About,
        work: impl FnOnce(&Arc<Head>, Crumb) -> Result<T, Errno> + Send + 'static,
        reply: impl FnOnce(Result<T, fuser::Errno>) + Send + 'static,
    ) {
        self.serve_for(request.uid(), op, about, work, reply);
    }

    /// As [`Self::serve`], for a user whom the request doesn't name.
    pub fn serve_for<T>(
        &self,
        uid: u32,
        op: &'static Name,
        (ino, at): About,
        work: impl FnOnce(&Arc<Head>, Crumb) -> Result<T, Errno> + Send + 'static,
        reply: impl FnOnce(Result<T, fuser::Errno>) + Send + 'static,
    ) {
        let crumb = Crumb::fresh();
        let _here = crumb.take();
        let mut service = Service::server(&HEAD, op, crumb).client(self.user(uid)).file(file_id(ino.0));
        if let Some((pos, length)) = at {
            service = service.at(pos, length);
        }
        let head = Arc::clone(&self.head);
        self.workers.add(crumb, move || {
            head.faults.delay(op.text());
            if head.faults.extra_rpc(op.text()) {
                // Its reply doesn't matter: it is a fault that was asked for.
                let _ = head.inode(MdsCall::GetAttr { ino: ino.0 }, crumb);
            }
            let done = work(&head, crumb);
            if let Err(errno) = &done {
                service.status(*errno as i32);
            }
            reply(done.map_err(|errno| fuser::Errno::from_i32(errno as i32)));
        });
    }
}
