//! The service's side: a thread for each connection.

use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use iotrail_sdk::request::{Crumb, Name, Service};
use serde::{Deserialize, Serialize};

use super::{Answer, Conn, Message, Replied};
use crate::Failure;
use crate::calls::Call;
use crate::faults::Faults;

/// A service.
pub trait Serve: Send + Sync + 'static {
    /// Its calls.
    type Call: Call;
    /// The component that posts its records.
    const COMPONENT: &'static Name;

    /// Its faults.
    fn faults(&self) -> &Faults;

    /// Does what is asked, on behalf of `crumb`, which the thread has too.
    fn serve(&self, call: Self::Call, data: Vec<u8>, crumb: Crumb) -> Replied<Self::Call>;
}

/// Serves whoever connects, in threads of its own.
pub fn listen<S: Serve>(address: &str, service: Arc<S>) -> Result<(), Failure> {
    let listener =
        TcpListener::bind(address).map_err(|error| format!("cannot listen on {address}: {error}"))?;
    // Whoever started the daemon waits for this line.
    eprintln!("store: listening on {address}");
    std::thread::Builder::new().name("accept".to_owned()).spawn(move || {
        for stream in listener.incoming().flatten() {
            let service = Arc::clone(&service);
            let serving = move || {
                if let Err(error) = connection(&*service, stream)
                    && error.kind() != std::io::ErrorKind::UnexpectedEof
                {
                    eprintln!("store: a connection broke: {error}");
                }
            };
            if let Err(error) = std::thread::Builder::new().name("serve".to_owned()).spawn(serving) {
                eprintln!("store: cannot start a thread for a connection: {error}");
            }
        }
    })?;
    Ok(())
}

/// Serves one connection until its peer closes it.
fn connection<S: Serve>(service: &S, stream: TcpStream) -> std::io::Result<()> {
    let mut conn = Conn::begin(stream, false)?;
    loop {
        let (message, data) = conn.receive::<Message<S::Call>>()?;
        let (crumb, call) = match message {
            Message::Call { crumb, call } => (Crumb::from_raw(crumb), call),
            Message::Fault(fault) => {
                service.faults().set(&fault);
                conn.send(&Answer::<()>::Ok(()), &[], Crumb::NONE)?;
                continue;
            }
        };
        let crumb = Crumb::serving(conn.node, crumb);
        let _here = crumb.take();
        let op = call.op();
        let mut request = call.about(Service::server(S::COMPONENT, op, crumb));
        service.faults().delay(op.text());
        let (answer, data) = match service.serve(call, data, crumb) {
            Ok((reply, data)) => (Ok(reply), data),
            Err(errno) => {
                request.status(errno as i32);
                (Err(errno as i32), Vec::new())
            }
        };
        conn.send(&answer, &data, crumb)?;
    }
}

/// Calls of a daemon that only takes faults.
#[derive(Serialize, Deserialize)]
pub enum NoCalls {}

impl Call for NoCalls {
    type Reply = ();

    fn op(&self) -> &'static Name {
        match *self {}
    }

    fn about(&self, _: Service) -> Service {
        match *self {}
    }
}
